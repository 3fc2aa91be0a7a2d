import json
import re
import sys
from dataclasses import asdict

import pytest
import torch
import torch_geometric.nn as pyg
from graphs import graphs
from hypothesis import given
from torch import nn

from lcpool.data import builtin
from lcpool.graph.edges import Edges
from lcpool.models import BACKBONES, CONVS, POOLINGS, Architecture, Backbone
from lcpool.nn.conv import FastGCNConv, FastGraphConv
from lcpool.ops.readout import readout

GRAPHS = builtin(num_graphs=20)
BATCH = GRAPHS.batch(torch.arange(8))


def network(**options):
    torch.manual_seed(0)
    return Backbone.of(GRAPHS, Architecture(hidden=8, **options))


@pytest.mark.parametrize("pool", POOLINGS)
@pytest.mark.parametrize("conv", [name for name in CONVS if name != "gine"])
@pytest.mark.parametrize("backbone", BACKBONES)
def test_every_combination_scores_classes(pool, conv, backbone):
    model = network(pool=pool, conv=conv, backbone=backbone)
    out = model(BATCH)
    assert out.logits.shape == (8, GRAPHS.num_classes)
    assert (out.graph_loss is not None) == (pool in ("diffpool", "mincutpool", "dmon"))
    out.logits.sum().backward()
    assert all(p.grad is not None for p in model.pre.parameters())


def test_the_layers_are_those_of_the_reading():
    model = Backbone(21, 6, 32.6, Architecture(pool="diffpool"))
    widths = [(m.in_features, m.out_features) for m in (model.pre[0], model.post[0], model.post[3])]
    assert widths == [(21, 128), (256, 128), (128, 6)]
    assert isinstance(model.pre[1], nn.BatchNorm1d)
    assert isinstance(model.post[1], nn.BatchNorm1d)
    assert len(model.convs) == len(model.norms) == 2
    assert model.pools[0].num_clusters == 16  # ⌊0.5 · ⌊32.6⌋⌋


def test_hierarchical_adds_the_readouts_and_plain_takes_the_last():
    seen = []
    for backbone in BACKBONES:
        model = network(pool="nopool", backbone=backbone)
        model.post = nn.Identity()
        seen.append(model(BATCH).logits)
    x = model.norms[0](model.convs[0](model.pre(BATCH.x), BATCH.edge_index))
    first = readout(x, BATCH.graph)
    torch.testing.assert_close(seen[0], seen[1] + first)


def test_several_poolings():
    model = network(pool="lcpool", poolings=3)
    assert len(model.pools) == 3
    assert model(BATCH).logits.isfinite().all()
    dense = network(pool="mincutpool", poolings=2)
    first, second = (pool.num_clusters for pool in dense.pools)
    assert second == first // 2
    assert dense(BATCH).graph_loss.shape == (8,)


@pytest.mark.parametrize("norm", ["batch", "layer", "none"])
def test_norms(norm):
    model = network(norm=norm)
    kinds = {"batch": nn.BatchNorm1d, "layer": nn.LayerNorm, "none": nn.Identity}
    norms = (model.pre[1], *(norm[0] for norm in model.norms), model.post[1])
    assert all(isinstance(m, kinds[norm]) for m in norms)


def test_options_reach_the_pooling():
    options = {"score_channels": 3, "self_loops": False, "rescale": True, "hops": 2}
    pool = network(ratio=0.25, **options).pools[0]
    assert pool.ratio == 0.25
    assert pool.score.hidden_channels == 3
    assert not pool.self_loops
    assert pool.score.rescale
    assert pool.hops == 2
    assert network(pool="lcpool*").pools[0].cluster is not None


def test_an_architecture_survives_a_file():
    architecture = Architecture("plain", "graphconv", "LCPool-Star", 16, "layer", 2, 0.25)
    assert architecture.pool == "lcpool*"
    assert Architecture(**json.loads(json.dumps(asdict(architecture)))) == architecture


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"pool": "toppool"}, "toppool.* topkpool"),
        ({"conv": "gat"}, "gat.* gcn, graphconv"),
        ({"backbone": "deep"}, "deep"),
        ({"norm": "instance"}, "instance"),
        ({"poolings": 0}, "poolings"),
        ({"hops": 4}, "hops"),
        ({"hidden": 0}, "hidden"),
        ({"score_channels": 0}, "score_channels"),
        ({"hidden": "wide"}, "hidden.*wide"),
        ({"ratio": 1.5}, "ratio"),
    ],
)
def test_unknown_names_are_refused_with_the_known_ones(options, words):
    with pytest.raises(ValueError, match=words):
        Architecture(**options)


@pytest.mark.parametrize("own", ["torch_geometric.nn:TopKPooling", "torch_geometric.nn:ASAPooling",
                                 "lcpool:LCPooling", "own_pooling:Own"])  # fmt: skip
def test_poolings_of_the_users_own(own, tmp_path, monkeypatch):
    (tmp_path / "own_pooling.py").write_text(
        "import torch\n"
        "class Own(torch.nn.Module):\n"
        "    def __init__(self, channels):\n"
        "        super().__init__()\n"
        "    def forward(self, x, edge_index, edge_attr, batch):\n"
        "        return x, edge_index, edge_attr, batch\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert network(pool=own)(BATCH).logits.shape == (8, 2)
    sys.modules.pop("own_pooling", None)


@pytest.mark.parametrize("own", ["no_such_module:Pool", "lcpool:NoSuchPool"])
def test_a_path_that_does_not_import(own):
    with pytest.raises(ValueError, match=own):
        network(pool=own)


@pytest.mark.parametrize(
    ("file", "instead"),
    [
        ("mypool.py:Keep", "'mypool:Keep'"),
        ("./mypool.py:Keep", "'mypool:Keep'"),
        ("sub/mypool.py:Keep", "'sub.mypool:Keep'"),
        ("/a/mypool.py:Keep", "'mypool:Keep'.* /a "),
        ("../mypool.py:Keep", r"'mypool:Keep'.* \.\. "),
    ],
)
def test_a_file_in_place_of_a_module_is_corrected(file, instead):
    with pytest.raises(ValueError, match=f"{re.escape(file)}.*{instead}"):
        network(pool=file)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import torch\nimport no_such_package\n", r"broken\.py:2: ModuleNotFoundError\b"),
        ("value = 1 / 0\n", r"broken\.py:1: ZeroDivisionError\b"),
        ("class Own(:\n", r"SyntaxError\b.*broken\.py\b.*\b1\b"),
    ],
)
def test_a_module_that_breaks_names_its_line(source, words, tmp_path, monkeypatch):
    (tmp_path / "broken.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=rf"broken:Own.*{words}"):
        network(pool="broken:Own")


def test_a_class_that_makes_no_module():
    with pytest.raises(TypeError, match="fractions:Fraction"):
        network(pool="fractions:Fraction")


@pytest.mark.parametrize(
    ("ours", "theirs"), [(FastGCNConv, pyg.DenseGCNConv), (FastGraphConv, pyg.DenseGraphConv)]
)
def test_convolution_of_complete_graphs_equals_pygs_dense_one(ours, theirs):
    torch.manual_seed(0)
    conv, peer = ours(4, 5).double(), theirs(4, 5).double()
    peer.load_state_dict(conv.state_dict())
    k, graphs = 3, 4
    A = torch.rand(graphs, k, k, dtype=torch.float64)
    A = A + A.mT
    A[0] = 0  # a graph that had no edges
    nodes = torch.arange(graphs * k).view(graphs, k)
    edges = torch.cat([torch.cartesian_prod(n, n) for n in nodes]).t()
    x = torch.randn(graphs * k, 4, dtype=torch.float64)
    expected = peer(x.view(graphs, k, 4), A).view(graphs * k, 5)
    torch.testing.assert_close(
        conv.on(x, Edges.trusted(edges, len(x), complete=k), A.reshape(-1)), expected
    )


PAIRS = [(FastGCNConv, pyg.GCNConv), (FastGraphConv, pyg.GraphConv)]


@given(graphs())
@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_convolutions_equal_pygs(ours, theirs, example):
    torch.manual_seed(example.seed)
    conv, peer = ours(8, 5).double(), theirs(8, 5).double()
    peer.load_state_dict(conv.state_dict())
    x, edges, weight = example.features(), example.edge_index, example.weights()
    torch.testing.assert_close(conv(x, edges), peer(x, edges))
    # PyG takes the weight of one of several self-loops of a node: leave only the first.
    loops = edges[0] == edges[1]
    seen: set[int] = set()
    keep = [e for e in range(edges.size(1)) if not loops[e] or not (int(edges[0, e]) in seen
            or seen.add(int(edges[0, e])))]  # fmt: skip
    edges, weight = edges[:, keep], weight[keep]
    torch.testing.assert_close(conv(x, edges, weight), peer(x, edges, weight))


def test_an_unused_cluster_has_finite_gradients():
    """Its degree is all but 0, where d^(-1/2) has an infinite gradient."""
    weight = torch.tensor([1.0, 0.0, 0.0, 1e-38], requires_grad=True)
    edges = torch.cartesian_prod(torch.arange(2), torch.arange(2)).t()
    FastGCNConv(4, 4).on(
        torch.randn(2, 4), Edges.trusted(edges, 2, complete=2), weight
    ).sum().backward()
    assert weight.grad.isfinite().all()
