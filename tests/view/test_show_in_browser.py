"""The page of ``lcpool show`` in Chromium."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from runs import HOSTILE
from targets import random_graphs, with_values
from torch_geometric.data import Data
from untrained import labelled, untrained

from lcpool.cli.show import about
from lcpool.data import GraphSet
from lcpool.train import Model
from lcpool.view import Level, PooledGraph
from lcpool.view.page import About, page

pytestmark = pytest.mark.slow
PHONE, DESK = {"width": 400, "height": 800}, {"width": 1400, "height": 900}
MANY = 10_000


def written(path: Path, pieces: Iterator[str]) -> Path:
    path.write_text("".join(pieces), encoding="utf-8")
    return path


def page_of(folder: Path, model: Model, graphs: GraphSet) -> Path:
    return written(folder / "show.html", page(model.each_pooled(graphs), about(model, graphs)))


@pytest.fixture(scope="module")
def graphs() -> GraphSet:
    return labelled(random_graphs(40))


@pytest.fixture(scope="module")
def model(graphs: GraphSet) -> Model:
    return untrained(graphs, poolings=2)


@pytest.fixture(scope="module")
def small(graphs: GraphSet, model: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return page_of(tmp_path_factory.mktemp("small"), model, graphs)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten thousand rings."""

    def rings() -> Iterator[PooledGraph]:
        for number in range(MANY):
            n = 3 + number % 40
            nodes = torch.arange(n)
            ring = torch.stack([nodes, (nodes + 1) % n])
            labels = nodes // 2
            half = int(labels.max()) + 1
            after = torch.stack([torch.arange(half), (torch.arange(half) + 1) % half])
            level = Level(half, after, labels=labels, new=torch.zeros(half, dtype=torch.bool))
            p = torch.tensor([number / MANY, 1 - number / MANY])
            graph = Data(edge_index=ring, num_nodes=n)
            yield PooledGraph(graph, (level,), number, int(p.argmax()), p, number % 2)

    told = About("RINGS", "halves", "classes", ("0", "1"), [""] * MANY)
    return written(tmp_path_factory.mktemp("large") / "show.html", page(rings(), told))


def ready(tab, number: int | None = None):
    """The tab, once a graph is shown."""
    name = "Graph" if number is None else f"Graph {number}"
    tab.wait_for_function(
        "name => document.getElementById('name').textContent.startsWith(name)"
        " && document.querySelector('figure.current')", arg=name,
    )  # fmt: skip
    return tab


def listed(tab) -> list[int]:
    return [int(text) for text in tab.locator("[role=option] > :first-child").all_inner_texts()]


def current(tab) -> str:
    return tab.locator("#name").inner_text()


def test_a_graph_and_its_levels(visit, small: Path, graphs: GraphSet, model: Model):
    tab = ready(visit(small, "#graph=7", viewport=DESK), 7)
    one = model.pooled(graphs)[7]
    counts = [one.graph.num_nodes, *(level.num_nodes for level in one.levels)]
    figures = tab.locator("#panels figure")
    assert [f.locator("circle[data-node]").count() for f in figures.all()] == counts
    pale = figures.nth(0).locator("circle.pale").count()
    assert pale == counts[0] - counts[1]
    mark = "wrong" if one.prediction != one.truth else "right"
    assert tab.locator(f"#verdict .{mark}").count() == 1
    values = tab.locator("#probabilities output").all_inner_texts()
    shares = [float(value.rstrip(" %")) for value in values]
    assert shares == pytest.approx([100 * float(p) for p in one.probabilities], abs=0.6)
    tab.get_by_role("tab").nth(1).click()
    tab.locator("#table summary").click()
    first = tab.locator("#table tbody tr").first
    first.wait_for()  # The rows are written once the table has opened.
    cells = first.locator("td").all_inner_texts()
    level = one.levels[0]
    assert cells[:2] == ["0", str(int(level.perm[0]))]
    assert float(cells[2]) == pytest.approx(float(level.score[0]), rel=1e-3)
    assert cells[3] == ", ".join(map(str, (level.labels == 0).nonzero().view(-1).tolist()))


def test_pointing_at_a_node_shows_where_it_goes(visit, small: Path, graphs: GraphSet, model: Model):
    tab = ready(visit(small, "#graph=7", viewport=DESK), 7)
    first, second = model.pooled(graphs)[7].levels
    tab.locator("figure[data-step='2'] circle[data-node='0']").hover()
    linked = tab.locator("figure[data-step='1'] .linked").all()
    assert sorted(int(node.get_attribute("data-node")) for node in linked) == (
        (second.labels == 0).nonzero().view(-1).tolist()
    )
    inside = torch.isin(first.labels, (second.labels == 0).nonzero().view(-1))
    assert tab.locator("figure[data-step='0'] .linked").count() == int(inside.sum())
    assert tab.locator("#tip").is_visible()
    # A kept node is followed to itself, whatever it belongs to most.
    level = {"n": 2, "i": [0, 2], "c": [1, 1, 0]}
    follow = "([l, step, v]) => related({ l: [l] })(step, v).map((nodes) => [...nodes])"
    assert tab.evaluate(follow, [level, 0, 0]) == [[0], [0]]
    assert sorted(tab.evaluate(follow, [level, 1, 1])[0]) == [1, 2]


def test_keyboard(visit, small: Path):
    tab = ready(visit(small, viewport=DESK), 0)
    for key, expected in (("ArrowDown", 1), ("ArrowDown", 2), ("ArrowUp", 1), ("End", 39)):
        tab.keyboard.press(key)
        ready(tab, expected)
        assert tab.url.partition("#")[2].startswith(f"graph={expected}")
        assert tab.locator(f"#row-{expected}[aria-selected=true]").is_visible()
    tab.keyboard.press("Home")
    ready(tab, 0)
    for key, step in (("ArrowRight", "2"), ("ArrowRight", "2"), ("ArrowLeft", "1")):
        tab.keyboard.press(key)
        tab.wait_for_function(
            "s => document.querySelector('figure.current').dataset.step === s", arg=step
        )
    tab.keyboard.press("/")
    tab.keyboard.type("13")
    assert listed(tab) == [13]
    tab.keyboard.press("ArrowDown")
    ready(tab, 13)


def test_a_link_to_a_graph(visit, small: Path):
    tab = ready(visit(small, "#graph=17&level=2"), 17)
    assert tab.locator("figure.current").get_attribute("data-step") == "2"
    tab.evaluate("location.hash = '#graph=3'")
    ready(tab, 3)
    tab.evaluate("location.hash = '#graph=4000'")  # There is no such graph.
    tab.wait_for_timeout(50)
    assert current(tab) == "Graph 3"


def test_sort_filter_and_search(visit, small: Path, graphs: GraphSet, model: Model):
    tab = ready(visit(small, viewport={"width": 1400, "height": 3000}))
    nodes = graphs.node_counts.tolist()
    tab.locator("#sort").select_option("nodes")
    assert listed(tab) == sorted(range(40), key=lambda g: (-nodes[g], g))
    tab.locator("#direction").click()
    assert listed(tab) == sorted(range(40), key=lambda g: (nodes[g], g))
    p = model.probabilities(graphs)
    tab.locator("#sort").select_option("confidence")
    sure = p.amax(1)[listed(tab)]
    assert (sure.diff() >= -1e-4).all()
    tab.locator("#sort").select_option("error")
    error = 1 - p[torch.arange(40), graphs.targets]
    assert (error[listed(tab)].diff() <= 1e-4).all()
    wrong = (model.predict(graphs) != graphs.y).nonzero().view(-1).tolist()
    tab.locator("#only").select_option("wrong")
    assert sorted(listed(tab)) == wrong
    tab.locator("#only").select_option("truth: 1")
    assert sorted(listed(tab)) == (graphs.y == 1).nonzero().view(-1).tolist()
    tab.locator("#only").select_option("all")
    tab.locator("#search").fill("3")
    assert sorted(listed(tab)) == [3, *range(30, 40)]
    tab.locator("#search").fill("nothing like it")
    assert listed(tab) == []


def test_ten_thousand_graphs(visit, large: Path):
    tab = ready(visit(large, viewport=DESK))
    elements = tab.evaluate("document.querySelectorAll('body *:not(script)').length")
    assert elements < 400
    assert tab.locator("[role=option]").count() < 60
    tab.locator("#list").evaluate("list => { list.scrollTop = list.scrollHeight / 2; }")
    tab.wait_for_selector(f"#row-{MANY // 2}")
    assert tab.locator("[role=option]").count() < 60
    tab.locator(f"#row-{MANY // 2}").click()
    ready(tab, MANY // 2)
    tab.keyboard.press("End")
    ready(tab, MANY - 1)
    tab.locator("#sort").select_option("nodes")
    assert listed(tab)[0] == 39  # the first of 42 nodes
    assert tab.evaluate("document.querySelectorAll('body *:not(script)').length") < 500
    # Of all chunks, those of the graphs that were shown have been read.
    assert tab.evaluate("[read.size, chunks.length > 10]") == [3, True]


def test_names_are_names(visit, tmp_path: Path, graphs: GraphSet):
    words = tuple(sorted(HOSTILE))
    hostile = replace(graphs, name=HOSTILE[0], y=torch.arange(40) % len(words), classes=words)
    model = untrained(hostile)
    tab = ready(visit(page_of(tmp_path, model, hostile)))
    assert tab.locator("h1").inner_text() == HOSTILE[0]
    assert tab.title().startswith(HOSTILE[0])
    assert tab.locator("#probabilities bdi").all_inner_texts() == list(words)
    assert set(words) <= {o.removeprefix("truth: ") for o in
                          tab.locator("#only option").all_inner_texts()}  # fmt: skip
    # One written from right to left turns nothing else round.
    said = [words[0], model.predict(hostile)[0]]
    assert sorted(tab.locator("#verdict bdi").all_inner_texts()) == sorted(said)
    assert tab.locator("img").count() == 0
    tab.locator("#search").fill(HOSTILE[1])
    given = model.predict(hostile)
    found = [g for g in range(40) if HOSTILE[1] in (words[g % len(words)], given[g])]
    assert set(listed(tab)) <= set(found)


def test_bars_of_names_of_any_length_can_be_compared(visit, tmp_path: Path, graphs: GraphSet):
    words = ("a", "a name that is longer", "b")
    named = replace(graphs, y=torch.arange(40) % 3, classes=words)
    model = untrained(named)
    tab = ready(visit(page_of(tmp_path, model, named), viewport=PHONE))
    bars = [bar.bounding_box() for bar in tab.locator("#probabilities .bar").all()]
    assert len({(bar["x"], bar["width"]) for bar in bars}) == 1
    assert tab.locator("#probabilities bdi").all_inner_texts() == list(words)


def test_an_edge_does_not_run_over_a_node(visit, small: Path):
    """The new edge of a path would lie on the two edges between its ends; see ``layout.bent``."""
    tab = ready(visit(small))
    where, joined = [[0, 0], [1, 0], [2, 0.05], [1, 3]], [0, 1, 1, 2, 0, 2, 0, 3]
    for new, arcs in (([2, 3], [2]), ([3], [])):
        found = tab.evaluate("([p, e, x]) => [...runsOver(p, e, x)]", [where, joined, new])
        assert found == arcs
    drawn = tab.evaluate("([p, e]) => edgesOf({ e, x: [2] }, p).map((d) => d.outerHTML)",
                         [where, joined])  # fmt: skip
    assert sorted((' class="new"' in path, "Q" in path) for path in drawn) == [
        (False, False), (True, True)]  # fmt: skip


def test_without_pooling_there_are_predictions(visit, tmp_path: Path, graphs: GraphSet):
    tab = ready(visit(page_of(tmp_path, untrained(graphs, "nopool"), graphs)))
    assert tab.locator("#panels figure").count() == 1
    assert tab.get_by_role("tab").count() == 0
    assert tab.locator("#probabilities output").count() == 2
    tab.keyboard.press("ArrowRight")  # There is nowhere to go.
    assert not tab.locator("#table").is_visible()


@pytest.mark.parametrize("pool", ["diffpool", "untrained:Silent"])
def test_values_and_poolings_without_kept_nodes(visit, tmp_path: Path, pool: str):
    none = torch.empty(2, 0, dtype=torch.int64)
    odd = [Data(x=torch.ones(n, 2), edge_index=none, y=torch.ones(1, 2)) for n in (0, 1)]
    graphs = GraphSet.from_graphs([*odd, *with_values(3).to_graphs()], task="values")
    model = untrained(graphs, pool)
    tab = ready(visit(page_of(tmp_path, model, graphs), viewport=DESK), 0)
    for number, one in enumerate(model.pooled(graphs)):
        ready(tab, number)
        counts = [one.graph.num_nodes, one.levels[0].num_nodes]
        figures = tab.locator("#panels figure").all()
        assert [f.locator("circle[data-node]").count() for f in figures] == counts
        tab.keyboard.press("ArrowDown")
    assert tab.locator("#sort option").all_inner_texts() == ["number", "nodes", "edges", "error"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_narrow_and_wide_light_and_dark(visit, small: Path, scheme: str):
    for size, seen in ((PHONE, 1), (DESK, 3)):
        tab = ready(visit(small, "#graph=3", viewport=size, color_scheme=scheme))
        assert tab.evaluate("document.documentElement.scrollWidth") <= size["width"]
        figures = tab.locator("#panels figure").all()
        assert sum(figure.is_visible() for figure in figures) == seen
    ground = tab.locator("body").evaluate("e => getComputedStyle(e).backgroundColor")
    bright = sum(float(c) for c in ground.strip("rgb()").split(",")[:3]) / (3 * 255)
    assert bright > 0.9 if scheme == "light" else bright < 0.15
