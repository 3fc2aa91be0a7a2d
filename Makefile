PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
INSTALL := python -m pip install --quiet --disable-pip-version-check --no-compile
CHECK_PYTHON := $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) \
    and "lcpool needs Python 3.11 or later: make PYTHON=python3.11")'

.DEFAULT_GOAL := help
.PHONY: help demo paper audit readme paper-test benchmark-test tables figures docs pages quick test checks lint types unit wheel floor dist layers format clean

# Bytecode is kept, for many tests start processes that import everything. Tests run in one more
# process than there are cores, since many wait for others, each with one thread; skips say why.
export PYTHONDONTWRITEBYTECODE =
WORKERS := $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -rs -n $(WORKERS) --dist worksteal

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

# The command line and nothing for developers; where these have set up .venv, that.
DEMO := $(if $(wildcard $(READY)),.venv,build/demo)

demo: $(DEMO)/bin/lcpool  ## train several poolings on the built-in dataset and rank them
	$< demo

build/demo/bin/lcpool: pyproject.toml constraints.txt
	$(CHECK_PYTHON)
	@echo "installing lcpool, torch and PyG into build/demo: a minute or more"
	$(PYTHON) -m venv build/demo
	build/demo/bin/$(INSTALL) --constraint constraints.txt --editable '.[lab]'

paper: $(READY)  ## write paper/results/paper again from the runs in it
	$(BIN)/python -m paper report paper/results/paper/runs-fresh.csv paper/results/paper/runs-shared.csv \
	    --out paper/results/paper --audit ../../../../docs/paper-audit.md

audit: $(READY)  ## write docs/paper-audit.md again from paper/results
	$(BIN)/python -m paper audit paper/results --out docs/paper-audit.md

# Not part of `make test`: another version of pandas or scipy may write other bytes.
paper-test: $(READY)  ## the paper's figures, claims and documents, to the byte
	$(PYTEST) paper

# Likewise; and it reads the datasets, whose folder LCPOOL_DATA names.
benchmark-test: $(READY)  ## the page of experiments/benchmark, to the byte
	$(PYTEST) experiments/benchmark/check_page.py

readme: $(READY)  ## write the figures of README.md again from paper/results
	$(BIN)/python -m paper readme paper/results README.md

tables: $(READY)  ## write the docs' tables of settings, columns and poolings again
	$(BIN)/python docs/tables.py

figures: $(READY)  ## draw the figures of the docs again; needs Chromium
	$(BIN)/python docs/figures/draw.py
	$(BIN)/python examples/picture.py docs/pooled.png
	$(BIN)/python examples/report.py paper/results/paper/runs-fresh.csv

SPHINX := OMP_NUM_THREADS=1 $(BIN)/sphinx-build -q -W --keep-going -c docs
docs: $(READY)  ## the documentation site in build/site, notebooks executed, links checked; warnings are errors
	$(SPHINX) --fresh-env . build/site

# In CI; there the tests execute the notebooks.
pages: $(READY)  ## the site builds without a warning or a broken link, notebooks not executed
	$(SPHINX) -D nb_execution_mode=off . build/pages

quick: $(READY)  ## style, and the tests that are not slow, for the edit cycle
	$(BIN)/ruff check .
	$(PYTEST) -m 'not slow' tests

# The tests often wait for processes that they started; what else is checked fills the gaps.
test:  ## everything CI runs
	@$(MAKE) --no-print-directory -j2 unit checks

checks: lint types wheel pages floor

lint: $(READY)  ## style, and the order of the rooms
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(READY)  ## mypy, strict
	$(BIN)/mypy

unit: $(READY)  ## the tests, and the examples in docstrings
	$(PYTEST)

# The wheel alone, away from the sources: what `pip install lcpool` gives.
wheel: $(READY)  ## a built wheel installs and imports
	rm -rf build/wheel
	$(BIN)/python -m build --wheel --no-isolation --outdir build/wheel/dist . >/dev/null
	$(BIN)/python -m pip install --quiet --no-deps --target build/wheel/site build/wheel/dist/*.whl
	cd build/wheel && PYTHONPATH=site ../../$(BIN)/python -c "import lcpool, pathlib; \
	    here = pathlib.Path(lcpool.__file__).resolve(); assert pathlib.Path.cwd() in here.parents, here; \
	    assert (here.parent / 'py.typed').exists(); print('wheel: lcpool', lcpool.__version__)"

# PyG alone is replaced: torch is that of .venv, so this costs CI half a minute. Interpreted kernels
# do not depend on PyG.
floor: build/pyg-floor  ## the layers with the oldest PyG that is supported, and the torch of .venv
	PYTHONPATH=$< $(PYTEST) -m 'not slow' -k 'not triton and not bounded' tests/graph tests/nn tests/pool

build/pyg-floor: constraints-floor.txt $(READY)
	rm -rf $@
	$(BIN)/$(INSTALL) --no-deps --target $@ --constraint constraints-floor.txt torch-geometric

# Not part of `make test`: the tests once more, from what a distributor would unpack.
dist: $(READY)  ## the source distribution and the wheel in dist, checked; the former passes its tests
	rm -rf dist build/sdist
	$(BIN)/python -m build --no-isolation >/dev/null
	$(BIN)/twine check --strict dist/*
	mkdir -p build/sdist
	tar --extract --gzip --strip-components 1 --directory build/sdist --file dist/*.tar.gz
	cd build/sdist && PYTHONPATH=src:. OMP_NUM_THREADS=1 ../../$(BIN)/pytest -n auto -m 'not slow'

# The layers alone, with other versions: make layers PYTHON=python3.13, or the oldest that is supported:
LAYERS_CONSTRAINTS := constraints.txt
LAYERS := build/layers/$(notdir $(PYTHON))-$(basename $(LAYERS_CONSTRAINTS))
layers:  ## the tests of the layers in an environment of their own (LAYERS_CONSTRAINTS=constraints-floor.txt)
	$(CHECK_PYTHON)
	test -x $(LAYERS)/bin/python || $(PYTHON) -m venv $(LAYERS)
	$(LAYERS)/bin/$(INSTALL) --constraint $(LAYERS_CONSTRAINTS) '.[fast]' \
	    hypothesis networkx pytest pytest-xdist
	OMP_NUM_THREADS=1 $(LAYERS)/bin/python -m pytest -n auto -m 'not slow' \
	    tests/graph tests/nn tests/ops tests/pool

format: $(READY)  ## put the code into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## remove what was built, the virtual environment included
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(READY): pyproject.toml constraints.txt
	$(CHECK_PYTHON)
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/$(INSTALL) --constraint constraints.txt --editable '.[dev]'
	touch $@
