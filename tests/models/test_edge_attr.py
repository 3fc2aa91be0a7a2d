"""Edge attributes: which convolutions read them, and where they are after a pooling."""

import warnings
from dataclasses import replace

import pytest
import torch
import torch_geometric.nn as pyg
from graphs import graphs
from hypothesis import given
from torch import nn
from torch_geometric.data import Data

from lcpool.data import GraphBatch, GraphSet, builtin
from lcpool.data.checks import DataWarning, warn_once
from lcpool.graph.graph import Graph
from lcpool.models import POOLINGS, Architecture, Backbone, make_pooling
from lcpool.models.pooling import keeps_edge_attr
from lcpool.nn.gine import GINEConv
from lcpool.pool import Pooling, PoolingError
from lcpool.settings import NetworkSettings
from lcpool.train import Model

HIDDEN, WIDTH = 8, 3
PLAIN = builtin(num_graphs=20)
torch.manual_seed(0)
GRAPHS = replace(PLAIN, edge_attr=torch.randn(PLAIN.edge_index.size(1), WIDTH))
BATCH = GRAPHS.batch(torch.arange(8))


@pytest.fixture(autouse=True)
def _each_test_is_told():
    warn_once.cache_clear()


def network(given=GRAPHS, **options):
    torch.manual_seed(0)
    return Backbone.of(given, Architecture(**{"hidden": HIDDEN, "conv": "gine", **options}))


def mlp(norm=nn.BatchNorm1d, hidden=HIDDEN):
    return nn.Sequential(
        nn.Linear(hidden, hidden), norm(hidden), nn.ReLU(), nn.Linear(hidden, hidden)
    )


@given(graphs())
def test_gine_equals_pygs(example):
    torch.manual_seed(example.seed)
    conv = GINEConv(8, 8, edge_dim=WIDTH).double().eval()
    other = pyg.GINEConv(mlp(), edge_dim=WIDTH).double().eval()
    other.load_state_dict({**conv.state_dict(), "eps": torch.zeros(1)})
    x, edges = example.features(), example.edge_index
    attr = torch.randn(edges.size(1), WIDTH, dtype=x.dtype)
    grads = []
    for layer in (conv, other):
        inputs = x.clone().requires_grad_(), attr.clone().requires_grad_()
        out = layer(inputs[0], edges, edge_attr=inputs[1])
        out.square().sum().backward()
        grads.append((out.detach(), *(value.grad for value in inputs)))
    for ours, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(ours, theirs)


@given(graphs())
def test_gine_without_attributes_leaves_their_term_out(example):
    torch.manual_seed(example.seed)
    conv = GINEConv(8, 8).double().eval()
    x, (source, target), weight = example.features(), example.edge_index, example.weights()
    for w in (None, weight):
        scale = 1 if w is None else w.unsqueeze(-1)
        total = x.index_add(0, target, scale * x[source].relu())
        torch.testing.assert_close(conv(x, example.edge_index, w), conv.nn(total))


def test_gine_takes_attributes_if_it_was_made_for_them():
    x, edges = torch.randn(2, 8), torch.tensor([[0], [1]])
    with pytest.raises(ValueError, match=r"edge_dim=3.*'edge_attr'"):
        GINEConv(8, 8, edge_dim=3)(x, edges)
    with pytest.raises(ValueError, match="no 'edge_attr'"):
        GINEConv(8, 8)(x, edges, edge_attr=torch.ones(1, 3))
    with pytest.raises(ValueError, match="'edge_attr' must have a row"):
        GINEConv(8, 8, edge_dim=3)(x, edges, edge_attr=torch.ones(2, 3))


class Plain(nn.Module):
    """The network as one would write it with PyG, with TopK, which filters attributes."""

    def __init__(self, conv):
        super().__init__()
        self.pre = nn.Sequential(
            nn.Linear(GRAPHS.num_features, HIDDEN), nn.BatchNorm1d(HIDDEN), nn.ReLU()
        )
        self.convs = nn.ModuleList(conv() for _ in range(2))
        self.norms = nn.ModuleList(
            nn.Sequential(nn.BatchNorm1d(HIDDEN), nn.ReLU()) for _ in range(2)
        )
        self.pool = pyg.TopKPooling(HIDDEN, 0.5)
        self.post = nn.Sequential(
            nn.Linear(2 * HIDDEN, HIDDEN), nn.BatchNorm1d(HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 2)
        )

    def forward(self, x, edge_index, edge_attr, batch, size):
        x = self.norms[0](self.convs[0](self.pre(x), edge_index, edge_attr=edge_attr))
        first = read(x, batch, size)
        x, edge_index, edge_attr, batch, *_ = self.pool(x, edge_index, edge_attr, batch)
        x = self.norms[1](self.convs[1](x, edge_index, edge_attr=edge_attr))
        return self.post(first + read(x, batch, size))


def read(x, batch, size):
    mean, largest = pyg.global_mean_pool(x, batch, size), pyg.global_max_pool(x, batch, size)
    return torch.cat([mean, largest], dim=-1)


@pytest.mark.parametrize(
    ("conv", "theirs"),
    [
        ("gine", lambda: pyg.GINEConv(mlp(), edge_dim=WIDTH)),
        ("torch_geometric.nn:GATConv", lambda: pyg.GATConv(HIDDEN, HIDDEN, edge_dim=WIDTH)),
        (
            "torch_geometric.nn:TransformerConv",
            lambda: pyg.TransformerConv(HIDDEN, HIDDEN, edge_dim=WIDTH),
        ),
    ],
)
def test_a_network_that_reads_attributes_equals_pygs(conv, theirs):
    model, other = network(conv=conv, pool="topkpool"), Plain(theirs)
    state = {name.replace(".layer.", "."): value for name, value in model.state_dict().items()}
    state["pool.select.weight"] = state.pop("pools.0.score.project.weight")
    eps = {name: torch.zeros(1) for name in other.state_dict() if name.endswith(".eps")}
    other.load_state_dict({**state, **eps})
    expected = other(BATCH.x, BATCH.edge_index, BATCH.edge_attr, BATCH.batch, 8)
    torch.testing.assert_close(model(BATCH).logits, expected, rtol=1e-4, atol=1e-5)
    turned = BATCH._replace(edge_attr=-BATCH.edge_attr)
    assert not torch.allclose(model(turned).logits, expected, atol=1e-3)


def test_which_poolings_keep_attributes():
    for name in POOLINGS:
        layer = make_pooling(name, HIDDEN, 4, NetworkSettings())
        assert keeps_edge_attr(name) == layer.keeps_edge_attr, name
    for name in ("nopool", "topkpool", "sagpool"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert network(pool=name, poolings=2).edge_dims == [WIDTH] * 3


@pytest.mark.parametrize("pool", ["lcpool", "lcpool*", "asapool", "diffpool", "mincutpool"])
def test_where_a_pooling_makes_edges_of_its_own_that_is_said_once(pool):
    with pytest.warns(DataWarning, match=f"{pool.rstrip('*')}.* makes edges of its own"):
        model = network(pool=pool)
    assert model.edge_dims == [WIDTH, None]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = network(pool=pool)
    out = model(BATCH).logits
    assert out.isfinite().all()
    model.zero_grad()
    out.sum().backward()
    assert model.convs[0].lin.weight.grad.isfinite().all()


def test_other_convolutions_are_as_they_are_without_attributes():
    for conv in ("gcn", "graphconv", "gin"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            models = [network(given, conv=conv) for given in (GRAPHS, PLAIN)]
        without = PLAIN.batch(torch.arange(8))
        assert torch.equal(models[0](BATCH).logits, models[1](without).logits)


def test_gine_needs_attributes():
    with pytest.raises(ValueError, match=r"'gine' .* such as gin"):
        network(PLAIN)
    model = network(pool="nopool")
    with pytest.raises(ValueError, match="3 attributes per edge, not 0"):
        model(PLAIN.batch(torch.arange(4)))


OWN = """
import torch
class Needs(torch.nn.Module):
    def __init__(self, a, b):
        super().__init__()
    def forward(self, x, edge_index, edge_attr):
        return x + edge_attr.sum()
class Takes(Needs):
    def forward(self, x, edge_index, edge_attr=None):
        return x if edge_attr is None else x + edge_attr.sum()
"""


def test_a_convolution_of_ones_own_reads_attributes_where_it_takes_them(tmp_path, monkeypatch):
    (tmp_path / "own_edges.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=r"own_edges:Needs.*lcpool does not return"):
        network(conv="own_edges:Needs")
    with pytest.raises(ValueError, match=r"own_edges:Needs.* none"):
        network(PLAIN, conv="own_edges:Needs")
    assert network(conv="own_edges:Needs", pool="sagpool").edge_dims == [WIDTH] * 2
    assert network(PLAIN, conv="own_edges:Takes").edge_dims == [None] * 2
    with pytest.warns(DataWarning, match="edges of its own"):
        assert network(conv="own_edges:Takes").edge_dims == [WIDTH, None]


class Boasts(Pooling):
    """Says that it keeps attributes, and does not."""

    keeps_edge_attr = True

    def pooled(self, graph, selected):
        return make_pooling("nopool", HIDDEN, 1, NetworkSettings())(replace(graph, edge_attr=None))

    def select(self, graph):
        return None


def test_attributes_that_a_pooling_does_not_keep_are_missed():
    model = network(pool="nopool")
    model.pools[0] = Boasts()
    with pytest.raises(PoolingError, match=r"Boasts: .*'keeps_edge_attr'"):
        model(BATCH)


def test_a_saved_model_reads_the_attributes_of_other_graphs(tmp_path):
    model = Model.of(network(pool="sagpool"), GRAPHS)
    model.save(tmp_path / "model.pt")
    loaded = Model.load(tmp_path / "model.pt")
    expected = model.probabilities(GRAPHS)
    assert torch.equal(loaded.probabilities(GRAPHS), expected)
    torch.testing.assert_close(loaded.probabilities(GRAPHS.to_graphs()), expected)
    for attr in (None, torch.ones(GRAPHS.edge_index.size(1), WIDTH + 1)):
        with pytest.raises(ValueError, match="3 attributes per edge"):
            loaded.predict(replace(GRAPHS, edge_attr=attr))


class Classifier(nn.Module):
    """A backbone that takes tensors."""

    def __init__(self, backbone):
        super().__init__()
        self.backbone = backbone

    def forward(self, x, edge_index, edge_attr, batch):
        return self.backbone(
            GraphBatch(Graph.of(x, edge_index, batch=batch), edge_attr, batch)
        ).logits


@pytest.mark.parametrize("pool", ["lcpool", "topkpool"])
@pytest.mark.filterwarnings("ignore::lcpool.data.DataWarning")
def test_gine_is_exported(pool):
    model = Classifier(network(pool=pool)).eval()
    nodes, edges = torch.export.Dim("nodes"), torch.export.Dim("edges", min=3)
    shapes = ({0: nodes}, {1: edges}, {0: edges}, {0: nodes})

    def tensors(*index):
        batch = GRAPHS.batch(torch.tensor(index))
        return batch.x, batch.edge_index, batch.edge_attr, batch.batch

    with torch.no_grad():
        program = torch.export.export(model, tensors(0, 1, 2, 3), dynamic_shapes=shapes)
        for index in ((4, 5, 6, 7, 8), (11,)):
            torch.testing.assert_close(program.module()(*tensors(*index)), model(*tensors(*index)))


def test_one_attribute_per_edge_may_be_a_vector():
    one = GRAPHS.edge_attr[:, 0].clone()
    scores = [
        network(given, pool="topkpool")(given.batch(torch.arange(8))).logits
        for given in (replace(GRAPHS, edge_attr=attr) for attr in (one, one.unsqueeze(-1)))
    ]
    assert torch.equal(*scores)


def test_graphs_without_edges_train():
    none = torch.empty(2, 0, dtype=torch.long)
    one = Data(x=torch.randn(3, 2), edge_index=none, edge_attr=torch.empty(0, WIDTH), y=0)
    given = GraphSet.from_graphs([one, one.clone()])
    out = network(given, pool="topkpool")(given.batch(torch.arange(2))).logits
    out.sum().backward()
    assert out.isfinite().all()
