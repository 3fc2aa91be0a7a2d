"""Networks beside the paper's: GIN, own convolutions, depth, dropout, readouts."""

import warnings
from dataclasses import replace

import pytest
import torch
import torch_geometric.nn as pyg
from graphs import graphs
from hypothesis import given
from torch import nn
from torch_geometric.nn import aggr

from lcpool.data import builtin
from lcpool.graph.edges import Edges
from lcpool.graph.graph import Graph
from lcpool.models import Architecture, Backbone
from lcpool.models.conv import ConvolutionError
from lcpool.models.readout import Readout, aggregations
from lcpool.nn.conv import FastGINConv
from lcpool.ops.readout import readout

GRAPHS = builtin(num_graphs=20)
BATCH = GRAPHS.batch(torch.arange(8))
HIDDEN = 8


def network(graphs=GRAPHS, **options):
    torch.manual_seed(0)
    return Backbone.of(graphs, Architecture(**{"hidden": HIDDEN, **options}))


def mlp(norm=nn.BatchNorm1d):
    return nn.Sequential(
        nn.Linear(HIDDEN, HIDDEN), norm(HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN)
    )


class Plain(nn.Module):
    """The network as one would write it with PyG: TopK pooling, any convolutions and readout."""

    def __init__(self, conv, read, width, depth=1, dropout=0.0, hierarchical=True):
        super().__init__()
        drop = [nn.Dropout(dropout)] if dropout else []
        act = [nn.BatchNorm1d(HIDDEN), nn.ReLU(), *drop]
        self.pre = nn.Sequential(nn.Linear(GRAPHS.num_features, HIDDEN), *act)
        self.convs = nn.ModuleList(conv() for _ in range(2 * depth))
        self.norms = nn.ModuleList(
            nn.Sequential(nn.BatchNorm1d(HIDDEN), nn.ReLU(), *drop) for _ in range(2 * depth)
        )
        self.pool = pyg.TopKPooling(HIDDEN, 0.5)
        self.post = nn.Sequential(
            nn.Linear(width, HIDDEN), nn.BatchNorm1d(HIDDEN), nn.ReLU(), *drop,
            nn.Linear(HIDDEN, GRAPHS.num_classes),
        )  # fmt: skip
        self.read, self.depth, self.hierarchical = read, depth, hierarchical

    def forward(self, x, edge_index, batch, size):
        x = self.pre(x)
        for i in range(self.depth):
            x = self.norms[i](self.convs[i](x, edge_index))
        first = self.read(x, batch, size)
        x, edge_index, _, batch, *_ = self.pool(x, edge_index, batch=batch)
        for i in range(self.depth, 2 * self.depth):
            x = self.norms[i](self.convs[i](x, edge_index))
        last = self.read(x, batch, size)
        return self.post(first + last if self.hierarchical else last)


def mean_max(x, batch, size):
    mean, largest = pyg.global_mean_pool(x, batch, size), pyg.global_max_pool(x, batch, size)
    return torch.cat([mean, largest], dim=-1)


CONVS = {
    "gcn": lambda: pyg.GCNConv(HIDDEN, HIDDEN),
    "graphconv": lambda: pyg.GraphConv(HIDDEN, HIDDEN),
    "gin": lambda: pyg.GINConv(mlp()),
    "torch_geometric.nn:GATConv": lambda: pyg.GATConv(HIDDEN, HIDDEN),
    "torch_geometric.nn:SAGEConv": lambda: pyg.SAGEConv(HIDDEN, HIDDEN),
}
AGGREGATIONS = {
    "mean": aggr.MeanAggregation, "max": aggr.MaxAggregation, "sum": aggr.SumAggregation,
    **{name: aggregations()[name] for name in aggregations() if name != "lcm"},
}  # fmt: skip


def peer(model, **options):
    """PyG's network with the parameters and statistics of ours."""
    found = Plain(**options)
    state = {name.replace(".layer.", "."): value for name, value in model.state_dict().items()}
    own = found.state_dict()
    for name in own:
        if name == "pool.select.weight":
            own[name] = state["pools.0.score.project.weight"]
        elif not name.endswith(".eps"):
            own[name] = state[name]
    found.load_state_dict(own)
    return found


def scores(model, other, training=False):
    model.train(training)
    other.train(training)
    expected = other(BATCH.x, BATCH.edge_index, BATCH.batch, BATCH.batch_size)
    return model(BATCH).logits, expected


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("conv", CONVS)
def test_a_network_with_each_convolution_equals_pygs(conv, training):
    model = network(pool="topkpool", conv=conv)
    other = peer(model, conv=CONVS[conv], read=mean_max, width=2 * HIDDEN)
    torch.testing.assert_close(*scores(model, other, training), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("conv", ["gcn", "gin"])
@pytest.mark.parametrize("backbone", ["hierarchical", "plain"])
def test_a_deeper_network_equals_pygs(conv, backbone):
    model = network(pool="topkpool", conv=conv, depth=3, backbone=backbone)
    assert len(model.convs) == len(model.norms) == 6
    options = {"depth": 3, "hierarchical": backbone == "hierarchical"}
    other = peer(model, conv=CONVS[conv], read=mean_max, width=2 * HIDDEN, **options)
    torch.testing.assert_close(*scores(model, other, training=True), rtol=1e-4, atol=1e-5)


def test_dropout_leaves_evaluation_as_it_is_and_follows_every_hidden_layer():
    model = network(pool="topkpool", dropout=0.3)
    other = peer(model, conv=CONVS["gcn"], read=mean_max, width=2 * HIDDEN, dropout=0.3)
    torch.testing.assert_close(*scores(model, other), rtol=1e-4, atol=1e-5)
    places = [name for name, layer in model.named_modules() if isinstance(layer, nn.Dropout)]
    assert places == ["pre.3", "norms.0.2", "norms.1.2", "post.3"]
    model.train()
    assert not torch.equal(model(BATCH).logits, model(BATCH).logits)


@pytest.mark.parametrize("names", [*AGGREGATIONS, "sum+std", "max+mean", "mean+max+min"])
def test_a_network_with_each_readout_equals_pygs(names):
    model = network(pool="topkpool", readout=names)
    levels = [layer.parts for layer in model.readouts]
    parts = [
        [level[name] if name in level else AGGREGATIONS[name]() for level in levels]
        for name in names.split("+")
    ]
    calls = iter([*range(2)] * 2)

    def read(x, batch, size):
        level = next(calls)
        return torch.cat([part[level](x, batch, dim_size=size) for part in parts], dim=-1)

    width = model.readouts[0].width
    assert width == (2 if names == "set2set" else 1) * HIDDEN * len(parts)
    other = peer(model, conv=CONVS["gcn"], read=read, width=width)
    torch.testing.assert_close(*scores(model, other), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("names", [*AGGREGATIONS, "lcm"])
@pytest.mark.parametrize("batch", [[], [0], [1, 1], [0, 0, 2]])
def test_the_readout_of_a_graph_without_nodes_is_zero(names, batch):
    torch.manual_seed(0)
    layer = Readout(names, 3)
    x, none = torch.rand(len(batch), 3), torch.empty(2, 0, dtype=torch.long)
    x.requires_grad_()
    graph = Graph.of(x, none, None, torch.tensor(batch, dtype=torch.long), 4)
    out = layer(x, graph)
    assert out.shape == (4, layer.width)
    assert out.isfinite().all()
    assert all(g in batch or not out[g].any() for g in range(4))
    if batch:
        out.sum().backward()
        assert x.grad.isfinite().all()


@pytest.mark.parametrize("names", [*AGGREGATIONS, "lcm"])
def test_a_readout_of_unsorted_nodes(names):
    """As of the same nodes sorted by graph."""
    if names in ("lstm", "gru", "lcm"):
        pytest.skip("depends on the order of the nodes")
    torch.manual_seed(0)
    layer = Readout(names, 3).double().eval()
    x, none = torch.rand(4, 3, dtype=torch.float64), torch.empty(2, 0, dtype=torch.long)
    batch = torch.tensor([2, 0, 2, 0])
    order = batch.argsort(stable=True)
    given = Graph.of(x, none, None, batch, 4)
    sorted_ = Graph.of(x[order], none, None, batch[order], 4)
    assert given.sizes is None
    assert sorted_.sizes is not None
    out = layer(x, given)
    torch.testing.assert_close(out, layer(sorted_.x, sorted_))
    assert out.shape == (4, layer.width)
    assert out.isfinite().all()


def test_the_papers_readout_is_the_fused_one():
    model = network()
    assert model.readouts[0].names == ("mean", "max")
    assert not any(True for _ in model.readouts.parameters())
    assert torch.equal(model.readouts[0](BATCH.x, BATCH.graph), readout(BATCH.x, BATCH.graph))


@given(graphs())
def test_gin_equals_pygs(example):
    torch.manual_seed(example.seed)
    conv = FastGINConv(8, 8).double()
    other = pyg.GINConv(mlp()).double()
    other.nn.load_state_dict(conv.nn.state_dict())
    x, edges = example.features(), example.edge_index
    if len(x) > 1:  # batch norm needs two rows
        torch.testing.assert_close(conv(x, edges), other(x, edges))
    conv.eval(), other.eval()
    torch.testing.assert_close(conv(x, edges), other(x, edges))
    weight = example.weights()
    total = x.index_add(0, edges[1], weight.unsqueeze(-1) * x[edges[0]])
    torch.testing.assert_close(conv(x, edges, weight), conv.nn(total))


def test_gin_of_complete_graphs_equals_pygs_dense_one():
    conv = FastGINConv(HIDDEN, HIDDEN, nn.LayerNorm).double()
    other = pyg.DenseGINConv(mlp(nn.LayerNorm)).double()
    other.nn.load_state_dict(conv.nn.state_dict())
    k, size = 3, 4
    A = torch.rand(size, k, k, dtype=torch.float64)
    A = A + A.mT
    nodes = torch.arange(size * k).view(size, k)
    edges = torch.cat([torch.cartesian_prod(n, n) for n in nodes]).t()
    x = torch.randn(size * k, HIDDEN, dtype=torch.float64)
    expected = other(x.view(size, k, HIDDEN), A).view(size * k, HIDDEN)
    out = conv.on(x, Edges.trusted(edges, len(x), complete=k), A.reshape(-1))
    torch.testing.assert_close(out, expected)


@pytest.mark.parametrize("norm", ["batch", "layer", "none"])
def test_gin_has_the_networks_norm(norm):
    kinds = {"batch": nn.BatchNorm1d, "layer": nn.LayerNorm, "none": nn.Identity}
    assert all(isinstance(conv.nn[1], kinds[norm]) for conv in network(conv="gin", norm=norm).convs)


OWN = """
import torch
class Sum(torch.nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.lin = torch.nn.Linear(a, b)
    def forward(self, x, edge_index{more}):
        return self.lin(x).index_add(0, edge_index[1], x[edge_index[0]]{weighted})
class Wide(Sum):
    def forward(self, x, edge_index):
        return torch.cat([x, x], 1)
class Pair(Sum):
    def forward(self, x, edge_index):
        return x, edge_index
class Bare(torch.nn.Module):
    def __init__(self, a):
        super().__init__()
"""


@pytest.fixture
def own(tmp_path, monkeypatch, request):
    """The module above under a name of its own; the convolution may take weights."""
    name = f"own_conv_{abs(hash(request.node.name))}"

    def write(weights):
        more, weighted = (", edge_weight=None", " * edge_weight[:, None]") if weights else ("", "")
        if weights:
            weighted = " * (1 if edge_weight is None else edge_weight[:, None])"
        (tmp_path / f"{name}.py").write_text(OWN.format(more=more, weighted=weighted))
        monkeypatch.syspath_prepend(tmp_path)
        return name

    return write


def test_a_convolution_of_ones_own_gets_weights_where_it_takes_them(own):
    module = own(weights=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = network(conv=f"{module}:Sum", pool="asapool")
        out = model(BATCH).logits
    seen = []
    model.convs[1].layer.register_forward_hook(
        lambda layer, args, named, out: seen.append(named), with_kwargs=True
    )
    assert torch.equal(model(BATCH).logits.isfinite(), out.isfinite())
    assert [list(named) for named in seen] == [["edge_weight"]]


def test_weights_that_a_convolution_does_not_take_are_said_once(own):
    model = network(conv=f"{own(weights=False)}:Sum", pool="asapool")
    with pytest.warns(UserWarning, match=r"Sum takes no 'edge_weight'"):
        model(BATCH)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(BATCH)


@pytest.mark.parametrize(("name", "words"), [("Wide", r"Wide: .*\[8, 16\]"), ("Pair", "tuple")])
def test_what_a_convolution_may_not_return_is_refused(name, words, own):
    module = own(weights=False)
    model = network(conv=f"{module}:{name}", pool="nopool")
    with pytest.raises(ConvolutionError, match=words.replace("[8, ", rf"[{BATCH.x.size(0)}, ")):
        model(BATCH)


def test_a_class_that_cannot_be_made_as_a_convolution(own):
    with pytest.raises(TypeError, match=r"Bare.*\(8, 8\)"):
        network(conv=f"{own(weights=False)}:Bare")
    with pytest.raises(TypeError, match="fractions:Fraction"):
        network(conv="fractions:Fraction")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"conv": "gat"}, "gat.* gcn, graphconv, gin.*module:Class"),
        ({"readout": "quantile"}, r"quantile.* mean, max, sum, .*set2set"),
        ({"readout": "mean+mean"}, "twice"),
        ({"readout": "mean+"}, "''.* mean, max"),
        ({"readout": 3}, "readout"),
        ({"dropout": 1.5}, "dropout.* 0.99"),
        ({"dropout": -1}, "dropout.* 0"),
        ({"depth": 0}, "depth.* 1"),
    ],
)
def test_what_is_refused_says_what_is_allowed(options, words):
    with pytest.raises(ValueError, match=words):
        Architecture(**options)


def test_readouts_have_short_names():
    assert Architecture(readout="Mean+StdAggregation").readout == "mean+std"
    assert Architecture(readout="add+power_mean").readout == "sum+powermean"


def test_categories_are_embedded():
    """The first layer is a sum of embeddings and a linear layer of the numbers beside them."""
    torch.manual_seed(0)
    sizes, numbers, rows = (30, 20), 4, 200
    model = Backbone(sum(sizes) + numbers, 2, 10.0, Architecture(hidden=64), sizes)
    first = model.pre[0]
    tables = [
        nn.Embedding.from_pretrained(part.t())
        for part in first.weight[:, :50].detach().split(sizes, 1)
    ]
    codes = torch.stack([torch.randint(size, (rows,)) for size in sizes], dim=1)
    x = torch.randn(rows, numbers)
    hot = [nn.functional.one_hot(codes[:, c], size).float() for c, size in enumerate(sizes)]
    expected = sum(table(codes[:, c]) for c, table in enumerate(tables))
    expected = expected + x @ first.weight[:, 50:].t() + first.bias
    torch.testing.assert_close(first(torch.cat([*hot, x], 1)), expected, rtol=1e-4, atol=1e-5)
    # The initial values are those of nn.Embedding and nn.Linear(4, 64).
    weight = first.weight.detach()
    assert abs(float(weight[:, :50].std()) - 1) < 0.1
    assert 0.4 < float(weight[:, 50:].abs().max()) <= 0.5


def test_a_network_knows_the_categories_of_its_graphs():
    graphs = replace(GRAPHS, categories=(GRAPHS.num_features,))
    assert network(graphs).pre[0].weight.std() > 3 * network().pre[0].weight.std()
