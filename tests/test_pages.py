"""The code of the documentation runs as it is written; the reference has every public name."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from runs import make_results
from torch_geometric.nn import GraphConv

import lcpool
from lcpool.data import builtin

DOCS = Path(__file__).parents[1] / "docs"


def module_of(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(page, monkeypatch, folder, block="python", last=None, **given):
    """The names that a page has defined after its last block, or after so many of them."""
    blocks = re.findall(rf"```{re.escape(block)}\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    assert blocks
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("MPLBACKEND", "Agg")
    module = ModuleType("page")  # classes must be found by their module, as in a notebook
    monkeypatch.setitem(sys.modules, "page", module)
    module.__dict__.update(given)
    for code in blocks[:last]:
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
def test_layers(monkeypatch, tmp_path):
    graphs = builtin(num_graphs=6)
    data = graphs.batch(torch.arange(6))
    given = {
        "x": torch.randn(data.x.size(0), 64), "edge_index": data.edge_index, "batch": data.batch,
        "conv": GraphConv(64, 64), "LCPooling": lcpool.LCPooling, "CellPooling": lcpool.CellPooling,
    }  # fmt: skip
    names = run(DOCS / "layers.md", monkeypatch, tmp_path, **given)
    assert Path("net.pt2").exists()
    assert names["y"].shape == (names["out"].x.size(0), 64)
    logits = names["Logits"](graphs).eval()(data.x, data.edge_index, data.batch)
    assert logits.shape == (6, 2)


@pytest.mark.slow
def test_large_graphs(monkeypatch, tmp_path):
    """But for the example with Ray, which is run as a script."""
    perm, edges = torch.arange(0, 4000, 2), torch.randint(0, 4000, (2, 9000))
    given = {"edge_index": edges, "perm": perm, "num_nodes": 4000}
    names = run(DOCS / "large-graphs.md", monkeypatch, tmp_path, last=2, **given)
    pooled = torch.from_numpy(np.load("pooled.npy")).long()
    assert torch.equal(pooled, lcpool.cluster_connect(edges, perm, 4000))
    following = torch.from_numpy(np.load("next.npy")).long()
    assert torch.equal(following, lcpool.cluster_connect(pooled, names["again"], len(perm)))


@pytest.mark.slow
def test_report(monkeypatch, tmp_path):
    made = make_results(datasets=("DD", "NCI1"), pools=("lcpool", "topkpool"), runs=5)
    made.runs.to_csv(tmp_path / "runs.csv", index=False)
    names = run(DOCS / "report.md", monkeypatch, tmp_path)
    assert names["report"].ranked.order
    assert set(names["first"].datasets["dataset"]) == {"DD", "NCI1"}
    assert Path("report", "report.html").exists()


@pytest.mark.slow
def test_predictions_of_a_sweep(monkeypatch, tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "sweep.md").read_text("utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    lcpool.compare("builtin", ["nopool"], runs=2, epochs=1, hidden=8, device="cpu",
                   store="bench.sqlite")  # fmt: skip
    names = {}
    exec(blocks[-1], names)
    assert names["accuracy"] == pytest.approx(names["row"]["test_accuracy"])


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
