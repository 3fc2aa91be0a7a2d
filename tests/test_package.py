"""The package as a whole."""

import os
import re
import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from operators import ALL, make
from torch.profiler import ProfilerActivity, profile

import lcpool
from lcpool import cli
from lcpool.extras import MissingExtraError, needs
from lcpool.ops import kernels


def test_public_names():
    for name in lcpool.__all__:
        assert getattr(lcpool, name).__doc__, name
    assert lcpool.__version__ == version("lcpool")


def test_an_unknown_name():
    with pytest.raises(AttributeError, match="kitchen"):
        lcpool.kitchen  # noqa: B018
    with pytest.raises(AttributeError, match=r"\bLCPooling\b"):  # as papers write it
        lcpool.LCPool  # noqa: B018
    assert not hasattr(lcpool, "__wrapped__")


@pytest.mark.parametrize(
    ("given", "spins"),
    [({}, True), ({"GOMP_SPINCOUNT": "7"}, False), ({"OMP_WAIT_POLICY": "active"}, False)],
)
def test_threads_of_the_command_sleep_soon_unless_the_user_said_otherwise(
    given, spins, monkeypatch
):
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.setenv(name, "")  # so that it is restored
        monkeypatch.delenv(name)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["lcpool", "--version"])
    with pytest.raises(SystemExit):
        cli.main()
    expected = cli.SPINS if spins else given.get("GOMP_SPINCOUNT")
    assert os.environ.get("GOMP_SPINCOUNT") == expected


def test_skips_are_over_modules_that_exist():
    """``importorskip`` of a module of ours that was renamed would skip its tests for good."""
    pattern = re.compile(r'importorskip\("(lcpool[\w.]*)"')
    files = Path(__file__).parent.rglob("test_*.py")
    named = {name for file in files for name in pattern.findall(file.read_text("utf-8"))}
    assert [name for name in sorted(named) if find_spec(name) is None] == []


def test_typed():
    assert (Path(lcpool.__file__).parent / "py.typed").exists()


def run(code, check, **environment):
    command, env = [sys.executable, "-c", code], {**os.environ, **environment}
    return subprocess.run(
        command, capture_output=True, text=True, check=check, timeout=250, env=env
    )


# What is imported by and by must not bring what only later steps need.
STEPS = f"""
import sys, lcpool, lcpool.settings

def brought(*names):
    print([name for name in names if name in sys.modules and name not in before])

before = set()
brought("torch")
import torch_geometric.nn
before = set(sys.modules)
for name in {[name for name in lcpool.__all__ if name not in lcpool._EXTRA]}: getattr(lcpool, name)
import lcpool.progress
lcpool.data, lcpool.train
brought("numba", "scipy", "pandas", "matplotlib", "networkx", "pooch", "rich", "typer", "triton")
print(lcpool.train.train.__name__, lcpool.report.Report.__name__)
"""


@pytest.mark.slow
def test_imports_are_light():
    """Layers, data and training pull in torch and PyG, and nothing that the lab or a kernel needs.

    And rooms need no import of their own.
    """
    done = run(STEPS, check=True)
    assert done.stdout.split() == ["[]", "[]", "train", "Report"]


@pytest.mark.slow
def test_what_is_missing_is_named_with_its_extra():
    """What layers alone do not need may not be there: for a script, and for the command line."""
    code = (
        "import sys; sys.modules.update(pandas=None, rich=None, sklearn=None, matplotlib=None)\n"
        "import lcpool\n"
        "for name in ('compare', 'GraphClassifier', 'draw'):\n"
        "    try: getattr(lcpool, name)\n"
        "    except ModuleNotFoundError as missing: print(missing)\n"
        "from lcpool.cli import main; sys.argv = ['lcpool', 'report', 'x.csv']; main()"
    )
    done = run(code, check=False)
    assert done.returncode == 1
    said = [*done.stdout.splitlines(), *done.stderr.splitlines()]
    missing = ["pandas", "sklearn", "matplotlib", "rich"], ["lab", "sklearn", "lab", "lab"]
    for line, package, extra in zip(said, *missing, strict=True):
        assert f"'{package}'" in line
        assert f"'lcpool[{extra}]'" in line


def test_what_is_missing_of_lcpool_itself_is_no_extra():
    with pytest.raises(ModuleNotFoundError) as raised, needs("lab"):
        import_module("lcpool.no_such_room")
    assert not isinstance(raised.value, MissingExtraError)


@pytest.mark.parametrize("name", ALL)
def test_no_torch_sparse_even_without_kernels(name, monkeypatch):
    """The path a GPU takes: ``torch.sparse`` products fault there."""
    monkeypatch.setattr(kernels, "cpu_kernels", lambda: None)
    x = torch.randn(4, 8, dtype=torch.float64, requires_grad=True)
    edges = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    with profile(activities=[ProfilerActivity.CPU]) as trace:
        out = make(name)(x, edges)
        (out.x.sum() + out.loss).backward()
        out.lift()
    called = {event.key for event in trace.key_averages()}
    assert "aten::index_select" in called
    assert not [key for key in called if "sparse" in key]


TRITON = pytest.param("triton", marks=pytest.mark.slow)
BATCHES = [None, [0] * 8 + [1] + [3] * 9, [2, 0, 1] * 6]


@pytest.mark.parametrize("backend", ["numba", TRITON], indirect=True)
@pytest.mark.parametrize("batch", BATCHES, ids=["one graph", "sorted, with a gap", "unsorted"])
@pytest.mark.parametrize("name", ALL)
def test_kernels_give_what_plain_torch_gives(name, batch, backend, monkeypatch):
    torch.manual_seed(0)
    graph = None if batch is None else torch.tensor(batch)
    x = torch.randn(18, 8, dtype=torch.float64)
    edges = torch.randint(0, 18, (2, 45))
    if graph is not None:
        edges = edges[:, graph[edges[0]] == graph[edges[1]]]
    here = make(name)(x, edges, batch=graph)
    monkeypatch.setattr(kernels, "cpu_kernels", lambda: None)
    there = make(name)(x, edges, batch=graph)
    for ours, plain in zip(here, there, strict=True):
        assert (ours is None) == (plain is None)
        if ours is not None:
            torch.testing.assert_close(ours, plain, msg=lambda text: f"{backend}: {text}")


@pytest.mark.slow
def test_kernels_work_where_nothing_can_be_cached():
    """A read-only installation and no home: compile without a cache."""
    code = (
        "import numba.core.caching as c; c.CacheImpl._locator_classes = []\n"
        "import torch, lcpool\n"
        "from lcpool.ops.kernels import cpu_kernels\n"
        "out = lcpool.TopKPooling(4)(torch.randn(3, 4), torch.tensor([[0, 1], [1, 2]]))\n"
        "print(cpu_kernels() is not None, out.edge_index.shape[0])"
    )
    done = run(code, check=True)
    assert done.stdout.strip() == "True 2"


@pytest.mark.slow
def test_without_numba_layers_work_and_name_it_once():
    code = (
        "import sys, warnings; sys.modules['numba'] = None\n"
        "import torch, lcpool\n"
        "with warnings.catch_warnings(record=True) as said:\n"
        "    warnings.simplefilter('always')\n"
        "    for pool in (lcpool.LCPooling(4), lcpool.CellPooling(4)):\n"
        "        out = pool(torch.randn(3, 4), torch.tensor([[0, 1], [1, 2]]))\n"
        "print(out.edge_index.shape[0], sum('numba' in str(one.message) for one in said))"
    )
    done = run(code, check=True)
    assert done.stdout.split() == ["2", "1"]


@pytest.mark.slow
def test_compiling_is_announced_once_and_only_where_kernels_are_compiled(tmp_path):
    code = (
        "import torch, lcpool\n"
        "for _ in range(2):\n"
        "    lcpool.TopKPooling(4)(torch.randn(3, 4), torch.tensor([[0, 1], [1, 2]]))"
    )
    said = [run(code, check=True, NUMBA_CACHE_DIR=str(tmp_path)).stderr for _ in range(2)]
    assert [text.count("lcpool") for text in said] == [1, 0]
