"""The code of the documentation runs as it is written; the reference has every public name."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

import lcpool

DOCS = Path(__file__).parents[1] / "docs"


def module_of(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(page, monkeypatch, folder, block="python"):
    """The names that a page has defined after its last block."""
    blocks = re.findall(rf"```{re.escape(block)}\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    assert blocks
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("MPLBACKEND", "Agg")
    module = ModuleType("page")  # classes must be found by their module, as in a notebook
    monkeypatch.setitem(sys.modules, "page", module)
    for code in blocks:
        exec(compile(code, page, "exec"), module.__dict__)
    return module.__dict__


@pytest.mark.slow
def test_start(monkeypatch, tmp_path):
    names = run(DOCS / "start.md", monkeypatch, tmp_path)
    assert names["y"].shape == (4, 64)
    assert set(names["runs"]["pool"]) == {"nopool", "topkpool", "lcpool"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Lightning's, of torch and of its own
def test_recipes(monkeypatch, tmp_path):
    pytest.importorskip("pytorch_lightning")
    names = run(DOCS / "recipes.md", monkeypatch, tmp_path)
    other, net = names["other"], names["net"]
    expected = net(other.x, other.edge_index, other.batch, other.num_graphs)
    torch.testing.assert_close(names["logits"], expected)
    assert names["important"].shape == (names["graph"].num_nodes,)
    assert names["values"].shape == (names["data"].num_nodes, 3)
    assert names["own"].shape == (names["data"].num_nodes, 32)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["first-pooling", "which-pooling", "inside", "own"])
def test_notebooks(name, monkeypatch, tmp_path):
    names = run(DOCS / "notebooks" / f"{name}.md", monkeypatch, tmp_path, "{code-cell}")
    if name == "first-pooling":
        assert names["right"].float().mean() > 0.8
    if name == "which-pooling":
        assert 0 <= names["p"] <= 1
    if name == "inside":
        assert names["alone"] == 0  # k-MIS is the last, and leaves none out
    if name == "own":
        found = re.findall(r"^  ([\w ]+): ", str(names["failed"]), re.MULTILINE)
        assert found == ["equivariance", "export"]  # what the page says
        assert names["runs"].groupby("pool").run.count().to_dict()["hubs:Hubs"] == 3


def test_the_notebooks_are_all_listed():
    pages = {page.stem for page in (DOCS / "notebooks").glob("*.md")} - {"index"}
    listed = re.findall(r"\]\(([\w-]+)\.md\)", (DOCS / "notebooks" / "index.md").read_text("utf-8"))
    assert sorted(listed) == sorted(pages)


def test_the_reference_has_every_public_name():
    text = "\n".join(page.read_text("utf-8") for page in (DOCS / "api").glob("*.md"))
    documented = set(re.findall(r"\.\. auto(?:class|exception|function):: (\w+)$", text, re.M))
    assert set(lcpool.__all__) - documented == {"__version__"}


def test_every_figure_is_drawn_by_the_script():
    drawn = module_of(DOCS / "figures" / "draw.py").FIGURES
    pages = "".join(page.read_text("utf-8") for page in DOCS.glob("*.md"))
    shown = set(re.findall(r"\]\(figures/figure-([\w-]+)\.svg\)", pages))
    assert (
        shown
        == set(drawn)
        == {file.stem.removeprefix("figure-") for file in (DOCS / "figures").glob("*.svg")}
    )


@pytest.mark.parametrize(
    ("tag", "found"),
    [
        ('<script src="https://cdn.example/x.js"></script>', 1),
        ('<link rel="stylesheet" href="//fonts.example/x.css">', 1),
        ('<img src="http://images.example/x.png">', 1),
        ('<a href="https://pyg.org">PyG</a>', 0),
        ('<img src="x.png"><script src="_static/x.js"></script>', 0),
    ],
)
def test_what_a_page_loads_from_elsewhere_is_found(tag, found):
    pytest.importorskip("sphinx")
    assert len(module_of(DOCS / "_ext" / "offline.py").loaded(tag)) == found


def test_links_that_lead_nowhere_are_found(tmp_path):
    pytest.importorskip("sphinx")
    (tmp_path / "here.html").write_text(
        '<p id="top"><a href="#top">1</a> <a href="#no">2</a> <a href="there.html#a">3</a> '
        '<a href="there.html#b">4</a> <img src="no.png"> <a href="https://pyg.org/#x">5</a>'
    )
    (tmp_path / "there.html").write_text('<p id="a"></p>')
    found = module_of(DOCS / "_ext" / "links.py").broken(tmp_path)
    assert found == ["here.html: #no", "here.html: no.png", "here.html: there.html#b"]
