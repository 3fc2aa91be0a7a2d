"""``lcpool.draw``: what is where in the figure."""

import networkx as nx
import numpy as np
import pytest
import torch
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_hex
from matplotlib.image import imread
from targets import random_graphs
from torch_geometric.data import Batch, Data
from torch_geometric.utils import to_networkx
from untrained import labelled, untrained

import lcpool
from lcpool.view.figure import svg
from lcpool.view.layout import apart, bent, cell_colours, layout, places
from lcpool.view.levels import Level
from lcpool.view.marks import DROPPED, edges_on, panels, radius

PATH = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
SQUARE = torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])


def drawn_nodes(axis) -> PathCollection:
    """The nodes of a panel: the last that were drawn."""
    return [c for c in axis.collections if isinstance(c, PathCollection)][-1]


def dots(axis) -> np.ndarray:
    """The places of the nodes of a panel."""
    return drawn_nodes(axis).get_offsets().data


def lines(axis) -> list[int]:
    """How many new edges and how many others a panel has."""
    found = [c for c in axis.collections if isinstance(c, LineCollection)]
    return [len(c.get_segments()) for c in found[-2:]]


@pytest.fixture
def graph() -> Data:
    return Data(x=torch.tensor([[3.0], [0.0], [0.0], [1.0]]), edge_index=PATH, pos=2 * SQUARE)


def test_kept_nodes_stay_where_they_were(graph: Data):
    torch.manual_seed(0)
    out = lcpool.TopKPooling(1)(graph.x, graph.edge_index)
    figure = lcpool.draw(graph, out)
    before, after = map(dots, figure.axes)
    np.testing.assert_allclose(before, SQUARE)  # an edge is 1 long
    np.testing.assert_allclose(after, before[out.perm])
    assert lines(figure.axes[0]) == [0, 3]
    np.testing.assert_allclose(dots(lcpool.draw(to_networkx(graph), out).axes[0])[:, 0].min(), 0)


def test_edges_kept_and_new(graph: Data):
    graph.x = torch.tensor([[1.0], [0.0], [0.0], [1.0]])
    out = lcpool.LCPooling(1, ratio=0.5, self_loops=True)(graph.x, graph.edge_index)
    u, v = out.perm.tolist()
    near = [u, v] in PATH.t().tolist()
    figure = lcpool.draw(graph, out)
    assert lines(figure.axes[1]) == [int(not near), int(near)]
    again = lcpool.draw(graph, [out, lcpool.TopKPooling(1)(out.graph)], titles=["a", "b", "c"])
    assert [axis.get_title() for axis in again.axes] == ["a", "b", "c"]


def test_clusters_are_in_the_middle_of_their_nodes(graph: Data):
    class Halves(lcpool.Pooling):
        def select(self, graph):
            return lcpool.Assignment.of_labels(torch.arange(graph.num_nodes) // 2)

    figure = lcpool.draw(graph, Halves()(graph.x, graph.edge_index))
    np.testing.assert_allclose(dots(figure.axes[1]), [[0.5, 0.0], [0.5, 1.0]])


def test_the_same_drawing_each_time():
    graphs = labelled(random_graphs(3))
    one = untrained(graphs, poolings=2).pooled(graphs)[0]
    drawn = [svg(lcpool.draw(one.graph, one)) for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert drawn[0] in one._repr_html_()
    assert lcpool.draw(one.graph, one)._repr_html_() == drawn[0]


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["nopool", "diffpool", "kmis", "asapool", "untrained:Silent"])
def test_every_kind_and_odd_graphs(pool: str):
    none = torch.empty(2, 0, dtype=torch.int64)
    odd = [Data(x=torch.ones(n, 2), edge_index=none) for n in (0, 1, 2)]
    graphs = labelled([*odd, *random_graphs(2)])
    for one in untrained(graphs, pool, poolings=2).pooled(graphs):
        figure = lcpool.draw(one.graph, one)
        assert len(figure.axes) == 1 + len(one.levels)
        counts = [one.graph.num_nodes, *(level.num_nodes for level in one.levels)]
        assert [len(dots(axis)) for axis in figure.axes] == counts


def test_what_does_not_fit_is_refused(graph: Data):
    out = lcpool.TopKPooling(1)(graph.x, graph.edge_index)
    smaller = Data(x=torch.ones(3, 1), edge_index=PATH[:, :4])
    with pytest.raises(ValueError, match="4 nodes"):
        lcpool.draw(smaller, out)
    with pytest.raises(TypeError, match="one graph"):
        lcpool.draw(Batch.from_data_list([graph, graph]), out)
    with pytest.raises(TypeError, match="Tensor"):
        lcpool.draw(graph, [torch.ones(2)])
    with pytest.raises(TypeError, match="TopKPooling"):
        lcpool.draw(graph, lcpool.TopKPooling(1))
    with pytest.raises(ValueError, match="pos"):
        lcpool.draw(Data(x=graph.x, edge_index=PATH, pos=torch.full((4, 2), torch.nan)), out)
    with pytest.raises(ValueError, match="titles"):
        lcpool.draw(graph, out, titles=["one"])


def test_another_graph_with_as_many_nodes_is_refused(graph: Data):
    graphs = labelled([graph])
    one = untrained(graphs).pooled(graphs)[0]
    lcpool.draw(to_networkx(graph), one)
    ring = Data(x=graph.x, edge_index=torch.cat([PATH, torch.tensor([[0, 3], [3, 0]])], dim=1))
    with pytest.raises(ValueError, match="edges"):
        lcpool.draw(ring, one)


def test_dropped_nodes_are_rings(graph: Data):
    out = lcpool.TopKPooling(1)(graph.x, graph.edge_index)
    found = [
        c for c in lcpool.draw(graph, out).axes[0].collections if isinstance(c, PathCollection)
    ]
    fill = [to_hex(colour) for colour in found[-1].get_facecolor()]
    kept = out.perm.tolist()
    assert [colour == DROPPED for colour in fill] == [v not in kept for v in range(4)]
    rims = [to_hex(colour) for colour in found[-1].get_edgecolor()]
    assert all((rim == "#ffffff") == (v in kept) for v, rim in enumerate(rims))


def test_an_edge_does_not_run_over_a_node():
    """The new edge of a path would lie on the two edges between its ends."""
    where = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.05], [1.0, 3.0]])
    joined = np.array([[0, 1], [1, 2], [0, 2], [0, 3]])
    near, far, arc, other = bent(where, joined)
    assert [len(line) for line in (near, far, other)] == [2, 2, 2]
    assert np.linalg.norm(arc - where[1], axis=1).min() > 0.3
    np.testing.assert_allclose(arc[[0, -1]], where[[0, 2]])
    _, (axis,) = panels(where, [""])
    edges_on(axis, where, torch.from_numpy(joined).t(), torch.tensor([0, 0, 1, 0]).bool())
    new, kept = (c.get_segments() for c in axis.collections)
    assert [len(line) for line in (*new, *kept)] == [len(arc), 2, 2, 2]


def test_nodes_do_not_hide_each_other_and_many_edges_are_thin():
    close = np.array([[0.0, 0.0], [0.1, 0.0], [9.0, 0.0], [9.1, 0.0]])
    _, (axis,) = panels(close, ["close"])
    unit = axis.get_window_extent().width * 72 / axis.figure.dpi / np.ptp(axis.get_xlim())
    assert radius(axis, close) <= max(1.3, 0.05 * unit)
    even = np.stack([np.arange(40.0), np.zeros(40)], axis=1)
    widths = []
    for count in (10, 40):
        _, (axis,) = panels(even, [""])
        edges_on(axis, even, torch.combinations(torch.arange(count)).t())
        widths.append(max(c.get_linewidth()[0] for c in axis.collections if len(c.get_paths())))
    assert widths[1] < widths[0]


def test_files_can_be_printed(graph: Data, tmp_path):
    figure = lcpool.draw(graph, lcpool.TopKPooling(1)(graph.x, graph.edge_index))
    figure.savefig(tmp_path / "drawn.pdf")
    written = (tmp_path / "drawn.pdf").read_bytes()
    assert b"/Type3" not in written  # fonts that publishers refuse
    figure.savefig(tmp_path / "drawn.png")
    figure.savefig(tmp_path / "small.png", dpi=50)
    wide, small = (imread(tmp_path / name).shape[1] for name in ("drawn.png", "small.png"))
    assert (wide, small) == (2 * 3 * 300, 2 * 3 * 50)


def test_layout_parts_side_by_side():
    ring = torch.tensor(list(nx.cycle_graph(6).edges)).t()
    both = torch.cat([ring, ring + 6], dim=1)
    where = layout(both, 13)  # two rings and a node alone
    length = np.linalg.norm(where[both[0]] - where[both[1]], axis=1)
    np.testing.assert_allclose(length, 1, rtol=0.2)
    boxes = [where[:6], where[6:12], where[12:]]
    for one in boxes:
        for other in boxes:
            if one is not other:
                near = np.linalg.norm(one[:, None] - other[None], axis=2).min()
                assert near >= 1


def test_clusters_without_nodes_do_not_hide_each_other():
    level = Level(
        4, torch.empty(2, 0, dtype=torch.int64), labels=torch.tensor([0, 0]),
        assignment=lcpool.Assignment(torch.tensor([0, 1]), 2, torch.tensor([0, 0]), 4),
    )  # fmt: skip
    where = places(level, np.array([[0.0, 0.0], [1.0, 0.0]]))
    away = np.linalg.norm(where[:, None] - where[None], axis=2)[~np.eye(4, dtype=bool)]
    assert away.min() > 0.5
    far = np.array([[0.0, 0.0], [5.0, 5.0]])
    np.testing.assert_array_equal(apart(far, 0.7), far)


def test_neighbours_have_different_colours():
    wheel = nx.wheel_graph(6)
    level = Level(6, torch.tensor(list(wheel.edges)).t())
    colours = cell_colours(level, 7)
    assert all(colours[u] != colours[v] for u, v in wheel.edges)
    assert set(cell_colours(Level(20, torch.combinations(torch.arange(20)).t()), 7)) == set(
        range(7)
    )
