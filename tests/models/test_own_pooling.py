"""What poolings that are not ours may do to a backbone."""

import warnings
from dataclasses import replace

import pytest
import torch
from torch_geometric.nn import TopKPooling

from lcpool import Assignment, LCPooling, Pooled, Pooling, PoolingError
from lcpool.data import builtin
from lcpool.graph.edges import Edges
from lcpool.graph.graph import Graph
from lcpool.graph.sizes import Sizes
from lcpool.models import Architecture, Backbone, make_pooling
from lcpool.pool.foreign import as_pooling
from lcpool.settings import NetworkSettings
from lcpool.train.loop import run_losses

GRAPHS = builtin(num_graphs=8)
BATCH = GRAPHS.batch(torch.arange(8))


class Fewer(LCPooling):
    """Keeps every second of the kept nodes, and says so."""

    def select(self, graph, attn=None):
        S = super().select(graph, attn)
        kept = {name: getattr(S, name)[::2] for name in ("batch", "perm", "score", "x")}
        columns = self.assigned(graph, kept["perm"], None)
        return replace(S, S=columns, sizes=None, place=None, plan=None, **kept)

    def pooled_counts(self, counts):
        return None


class Boasting(Fewer):
    """Says nothing of it."""

    def pooled_counts(self, counts):
        return LCPooling.pooled_counts(self, counts)


class Astray(TopKPooling):
    """Forgets that nodes are numbered anew."""

    def forward(self, x, edge_index, edge_attr=None, batch=None):
        x, _, edge_attr, batch, *_ = super().forward(x, edge_index, edge_attr, batch)
        return x, edge_index, edge_attr, batch


class Emptying(torch.nn.Module):
    """Leaves nothing of the last graph."""

    def __init__(self, channels=8):
        super().__init__()

    def forward(self, x, edge_index, edge_attr, batch):
        keep = batch < batch.max()
        inside = keep[edge_index[0]]
        return x[keep], edge_index[:, inside], None, batch[keep]


class Doubled(LCPooling):
    """Changes what it returns."""

    def forward(self, *args, **kwargs):
        out = super().forward(*args, **kwargs)
        return out._replace(x=2 * out.x)


class Tuple(torch.nn.Module):
    """Returns what it is told to."""

    def __init__(self, out):
        super().__init__()
        self.out = out

    def forward(self, x, edge_index, edge_attr, batch):
        return self.out(x, edge_index, edge_attr, batch)


class WithLoss(Pooled):
    """What a layer of one's own may return: four items and a loss."""


class Pairs(Pooling):
    """Joins nodes two by two, with a loss for each graph."""

    loss_weights = {"size": 0.5}  # noqa: RUF012

    def __init__(self, in_channels):
        super().__init__()
        self.lin = torch.nn.Linear(in_channels, 1)

    def select(self, graph):
        batch = graph.batch_vector()
        first = torch.searchsorted(batch, batch)
        half = (torch.arange(graph.num_nodes) - first) // 2
        _, labels = torch.unique(batch * graph.num_nodes + half, return_inverse=True)
        return Assignment.of_labels(labels)

    def losses(self, graph, S):
        batch = graph.batch_vector()
        return {"size": graph.x.new_zeros(graph.batch_size).index_add(0, batch, graph.x[:, 0])}


def network(pool):
    torch.manual_seed(0)
    model = Backbone.of(GRAPHS, Architecture(hidden=8, pool="lcpool"))
    model.pools[0] = as_pooling(pool)
    return model


def test_a_selection_of_ones_own_is_not_taken_for_the_planned_one():
    assert network(Fewer(8))(BATCH).logits.isfinite().all()
    out = Fewer(8)(BATCH.x.repeat(1, 2)[:, :8], BATCH.edge_index, batch=BATCH.batch)
    every = LCPooling(8)(BATCH.x.repeat(1, 2)[:, :8], BATCH.edge_index, batch=BATCH.batch)
    assert out.x.size(0) == -(-every.x.size(0) // 2)
    assert out.lift().size(0) == BATCH.x.size(0)


def test_counts_that_are_not_kept_are_refused():
    with pytest.raises(PoolingError, match=r"Boasting: 'pooled_counts' .*\[13, "):
        network(Boasting(8))(BATCH)


def test_sizes_that_do_not_fit_never_reach_a_kernel():
    x, edges = torch.zeros(3, 2), Edges(torch.zeros(2, 0, dtype=torch.long), 3)
    sizes = Sizes(torch.tensor([2, 2]), x.device)
    with pytest.raises(ValueError, match="sizes"):
        Graph(x, edges, None, sizes.batch, 2, sizes)


@pytest.mark.parametrize(
    "out",
    [
        lambda x, e, a, b: x,
        lambda x, e, a, b: None,
        lambda x, e, a, b: (x, e),
        lambda x, e, a, b: (x[:3], e, a, b[:3]),
        lambda x, e, a, b: (x, e, a, b[:3]),
        lambda x, e, a, b: (x, e.float(), a, b),
        lambda x, e, a, b: (x, e, a, b + 1),
        lambda x, e, a, b: (x[:, :3], e, a, b),
        lambda x, e, a, b: Pooled(x, e, a, b, loss=torch.ones(3)),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_class(out):
    with pytest.raises(PoolingError, match=r"^Tuple: "):
        network(Tuple(out))(BATCH)


def test_edges_to_nodes_that_are_not_there_are_named():
    with pytest.raises(PoolingError, match=r"Astray: .*'edge_index'"):
        network(Astray(8))(BATCH)


def test_a_graph_that_is_emptied_is_said_once_and_trains():
    model = network(Emptying())
    with pytest.warns(UserWarning, match=r"Emptying.*\b1\b.*\b8\b"):
        assert model(BATCH).logits.shape == (8, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model(BATCH).logits.isfinite().all()


def test_what_is_replaced_in_an_output_is_what_goes_on():
    pools = LCPooling(8), Doubled(8)
    pools[1].load_state_dict(pools[0].state_dict())
    plain, doubled = (network(pool).eval()(BATCH).logits for pool in pools)
    assert not torch.allclose(plain, doubled)


@pytest.mark.parametrize("per_graph", [False, True])
def test_a_loss_of_ones_own_counts(per_graph):
    """One value for all graphs, or one for each: their mean is added."""

    def out(x, edge_index, edge_attr, batch):
        return Pooled(x, edge_index, edge_attr, batch, loss=torch.arange(8.0) if per_graph else 3.5)

    plain = network(Tuple(lambda *items: items))
    torch.testing.assert_close(loss_of(network(Tuple(out))) - loss_of(plain), torch.tensor([3.5]))


def loss_of(model):
    return run_losses(model.eval()(BATCH), BATCH, 1).detach()


def test_losses_of_a_pooling_are_weighted_means_over_graphs():
    pool = Pairs(6)
    out = pool(BATCH.graph)
    sums = torch.stack([BATCH.x[BATCH.batch == g, 0].sum() for g in range(8)])
    torch.testing.assert_close(out.losses["size"], sums.mean())
    torch.testing.assert_close(out.loss, 0.5 * sums.mean())
    torch.testing.assert_close(out.graph_loss, 0.5 * sums)


def test_a_loss_of_the_wrong_shape_is_refused():
    class Wrong(Pairs):
        def losses(self, graph, S):
            return {"one": graph.x.sum()}

    with pytest.raises(PoolingError, match=r"Wrong: .*'one'"):
        Wrong(6)(BATCH.graph)


def test_an_assignment_is_all_a_pooling_needs():
    out = Pairs(6)(BATCH.x, BATCH.edge_index, batch=BATCH.batch)
    counts = BATCH.node_counts
    assert torch.equal(out.batch.bincount(minlength=8), -(-counts // 2))
    S = out.assignment.to_dense()
    assert torch.equal(S.sum(1), torch.ones(BATCH.x.size(0)))
    torch.testing.assert_close(out.x, S.T @ BATCH.x)
    A = torch.zeros(len(S), len(S)).index_put(tuple(BATCH.edge_index), torch.tensor(1.0), True)
    pattern = (S.T @ A @ S).fill_diagonal_(0) > 0
    assert torch.equal(out.edge_index, pattern.nonzero().t())
    assert out.edge_attr is None
    assert torch.equal(out.labels(), S.argmax(1))
    torch.testing.assert_close(out.lift(), S @ out.x)


@pytest.mark.parametrize(
    ("labels", "match"),
    [
        ([0, 0, 1, 1], r"\b4\b"),
        ([0] * 6, "batch_vector"),
        ([0, 0, 0, 2, 2, 2], "unique"),
    ],
)
def test_an_assignment_that_cannot_be_used_is_refused(labels, match):
    class Fixed(Pooling):
        def select(self, graph):
            return Assignment.of_labels(torch.tensor(labels))

    with pytest.raises(PoolingError, match=f"Fixed: .*{match}"):
        Fixed()(torch.randn(6, 2), torch.tensor([[0], [1]]), batch=torch.tensor([0, 0, 0, 1, 1, 1]))


def test_clusters_in_any_order_come_out_sorted_by_graph():
    class Turned(Pooling):
        def select(self, graph):
            return Assignment.of_labels(torch.tensor([2, 2, 0, 1, 1]))

    x = torch.arange(5.0).view(-1, 1)
    out = Turned()(x, torch.tensor([[0, 3], [1, 4]]), batch=torch.tensor([1, 1, 0, 1, 1]))
    assert out.batch.tolist() == [0, 1, 1]
    assert out.x.view(-1).tolist() == [2, 7, 1]


@pytest.mark.parametrize(
    ("name", "clusters"), [("lcpool:DiffPooling", 5), ("lcpool:MinCutPooling", 5)]
)
def test_num_clusters_is_given_where_it_is_taken(name, clusters):
    assert make_pooling(name, 8, clusters, NetworkSettings()).num_clusters == clusters


def test_ratio_is_given_where_it_is_taken():
    assert make_pooling("lcpool:LCPooling", 8, 5, NetworkSettings(ratio=0.25)).ratio == 0.25
    foreign = make_pooling("torch_geometric.nn:SAGPooling", 8, 5, NetworkSettings(ratio=0.25))
    assert foreign.layer.ratio == 0.25


@pytest.mark.parametrize("pool", ["lcpool", "asapool", "diffpool", "nopool", "topkpool"])
def test_forward_hooks_fire_in_a_backbone(pool):
    model, seen = Backbone.of(GRAPHS, Architecture(hidden=8, pool=pool)), []
    model.pools[0].register_forward_hook(lambda module, args, out: seen.append(out))
    model(BATCH)
    assert [type(out) for out in seen] == [Pooled]


class OfLabels(Pooling):
    """Gives what it is told to."""

    def __init__(self, labels, **steps):
        super().__init__()
        self.labels = labels
        for name, step in steps.items():
            setattr(self, name, step)

    def select(self, graph):
        return Assignment.of_labels(self.labels(graph))


@pytest.mark.parametrize(
    ("labels", "match"),
    [
        (lambda graph: torch.arange(graph.num_nodes) // 7, "batch_vector"),
        (lambda graph: 2 * torch.arange(graph.num_nodes), "unique"),
        (lambda graph: torch.arange(graph.num_nodes - 1), "rows"),
        (lambda graph: torch.arange(graph.num_nodes).float(), "labels"),
        (lambda graph: torch.full((graph.num_nodes,), -1), "OfLabels"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_labels_that_cannot_be_used_are_refused_in_training_too(labels, match):
    """Where data are trusted, as in training, a pooling is not."""
    with pytest.raises((PoolingError, TypeError), match=match):
        network(OfLabels(labels))(BATCH)


def own_graph(graph):
    return graph.batch_vector()


@pytest.mark.parametrize(
    ("steps", "match"),
    [
        ({"connect": lambda graph, S: (torch.full((2, 3), 10**6), None)}, "'edge_index'"),
        ({"connect": lambda graph, S: torch.zeros(3, 2).long()}, "'connect'"),
        ({"connect": lambda graph, S: None}, "'connect'"),
        ({"reduce": lambda graph, S: None}, "'reduce'"),
        ({"reduce": lambda graph, S: graph.x}, "'reduce'"),
        ({"reduce": lambda graph, S: graph.x[:8, :3]}, r"\b3\b"),
        ({"reduce": lambda graph, S: graph.x[:8].double()}, "float64"),
        ({"losses": lambda graph, S: graph.x.sum()}, "'losses'"),
        ({"losses": lambda graph, S: {"a": 3.0}}, "'a'"),
        ({"pooled_counts": lambda counts: counts}, "'pooled_counts'"),
        (
            {"pooled_counts": lambda counts: torch.tensor([2, 0, 1, 1, 1, 1, 1, 1])},
            "'pooled_counts'",
        ),
        ({"forward": lambda x, graph: (x, graph)}, "Pooled"),
    ],
)
def test_steps_of_ones_own_that_cannot_be_used_are_refused(steps, match):
    with pytest.raises(PoolingError, match=match):
        network(OfLabels(own_graph, **steps))(BATCH)


def test_edges_of_ones_own_are_a_tensor():
    def ring(graph, S):
        nodes = torch.arange(S.num_pooled)
        return torch.stack([nodes, nodes]), None

    out = OfLabels(own_graph, connect=ring)(BATCH.graph)
    assert out.edge_index.tolist() == [list(range(8))] * 2


@pytest.mark.parametrize("value", [7.0, torch.tensor(7.0)])
def test_a_loss_that_is_set_on_an_output_counts(value):
    class Dearer(Pairs):
        def forward(self, *args, **kwargs):
            out = super().forward(*args, **kwargs)
            out.loss = value
            return out

    free = Pairs(8)
    free.loss_weights = {"size": 0.0}
    torch.testing.assert_close(
        loss_of(network(Dearer(8))) - loss_of(network(free)), torch.tensor([7.0])
    )


def test_a_foreign_output_says_that_it_has_no_assignment():
    out = as_pooling(TopKPooling(8))(torch.randn(4, 8), torch.tensor([[0], [1]]))
    for ask in (out.lift, out.labels, lambda: out.assignment):
        with pytest.raises(ValueError, match="assignment"):
            ask()
