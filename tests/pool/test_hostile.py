"""Calls and constructors with nonsense: a clear error of ours, or a right result."""

import traceback
import warnings
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from operators import ALL, DENSE, PARTITIONS, SELECTIONS, make
from torch_geometric.nn import GATConv, GCNConv, GraphConv

import lcpool
from lcpool import (
    LCSMP,
    ASAPooling,
    ClusterAttention,
    ConvScore,
    DenseAssignmentPooling,
    DiffPooling,
    LCPooling,
    LocalAssignmentPooling,
    LocalClusterPooling,
    MinCutPooling,
    NoPooling,
    Pooled,
    Pooling,
    ProjectionScore,
    SAGPooling,
    TopKPooling,
)

PATH = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
X = torch.randn(4, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
OURS = str(Path(lcpool.__file__).parent)
# The generic poolings: their parts know the widths, not they themselves.
GENERIC = {
    "assignment": lambda: LocalAssignmentPooling(ClusterAttention(8), GraphConv(8, 1)),
    "nodes": lambda: LocalAssignmentPooling(None, ProjectionScore(8)),
    "cluster": lambda: LocalClusterPooling(GATConv(8, 1), cluster=GCNConv(8, 8)),
    "threshold": lambda: LCPooling(8, min_score=0.3),
    "filled": lambda: LCPooling(8, edge_fill=1.0),
    "dense": lambda: DenseAssignmentPooling(GCNConv(8, 3), 3),
    "none": NoPooling,
}
EVERY = {**{name: (lambda name=name: make(name)) for name in ALL}, **GENERIC}
POOLS = {name: new().double() for name, new in EVERY.items()}
WITHOUT_ATTN = {*DENSE, *PARTITIONS, "dense", "none"}


def features(n):
    x = torch.ones(n, 8, dtype=torch.float64)
    right = torch.linspace(-1, 1, n * 8, dtype=torch.float64).view(n, 8)
    wrong = [
        right.float(), right.half(), right[:, :3], right[:, :0], right[:, 0], right.unsqueeze(-1),
        right.long(), right.bool(), right.cfloat(), right.to_sparse(), right.numpy(),
        right.tolist(), None, "x", torch.tensor(1.0), x * torch.nan, x * torch.inf, x * 1e300,
    ]  # fmt: skip
    return st.one_of(st.just(right), st.sampled_from(wrong))


def edges(n, e):
    right = (torch.arange(2 * e) * 7 % max(n, 1)).view(2, e)
    wrong = [
        right.int(), right.short(), right.bool(), right.double(), right - 1, right + 1, right.t(),
        torch.full((2, e), 2**62), torch.full((2, e), -(2**63)), right.unsqueeze(-1), right[0],
        torch.zeros(3, e).long(), torch.tensor(0), right.tolist(), None, "edges",
        torch.eye(max(n, 1)).to_sparse(),
    ]  # fmt: skip
    return st.one_of(st.just(right), st.sampled_from(wrong))


def attributes(e):
    right = torch.linspace(0, 1, e, dtype=torch.float64)
    others = [
        right, right.float(), right.long(), right.bool(), -right, right.view(-1, 1),
        right.view(-1, 1, 1), right.expand(2, -1).t(), right[:, None][:, :0], right * torch.nan,
        torch.ones(e + 1), torch.tensor(1.0), 1.0, [1.0] * e,
    ]  # fmt: skip
    return st.one_of(st.none(), st.sampled_from(others))


def batches(n):
    right = torch.arange(n) // 2
    others = [
        right, right.int(), right.flip(0), 3 * right, right - 1, right.double(), right.bool(),
        right.view(-1, 1), right.tolist(), torch.zeros(n + 1).long(), torch.tensor(0),
        torch.full((n,), 10**4), torch.full((n,), 10**9), torch.full((n,), 2**62),
    ]  # fmt: skip
    return st.one_of(st.none(), st.sampled_from(others))


@st.composite
def calls(draw):
    """A pooling, and arguments each of which may be anything."""
    name, n, e = draw(st.sampled_from(list(POOLS))), draw(st.sampled_from([0, 1, 2, 5])), 0
    if n:
        e = draw(st.sampled_from([0, 1, 6]))
    given = [draw(part) for part in (features(n), edges(n, e), attributes(e), batches(n))]
    sizes = st.sampled_from([1, 3, 10**4, 10**9, 2**63, 2**70, 0, -1, 2.0, "3", True])
    named = {"batch_size": draw(st.one_of(st.none(), sizes))}
    if name not in WITHOUT_ATTN and draw(st.booleans()):
        named["attn"] = draw(features(n))
    return name, given, named


def outcome(pool, given, named):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return pool(*given, **named)
        except Exception as error:
            return error


@settings(max_examples=200)
@given(calls())
def test_hostile_calls(call):
    name, given, named = call
    out = outcome(POOLS[name], given, named)
    if isinstance(out, Exception):
        assert isinstance(out, ValueError | TypeError | IndexError)
        assert traceback.extract_tb(out.__traceback__)[-1].filename.startswith(OURS)
        return
    x, edge_index, edge_attr, batch, *_ = out
    assert isinstance(out, Pooled)
    assert x.size(0) == batch.numel()
    if name != "none":
        assert (batch.diff() >= 0).all()
        assert edge_attr is None or edge_attr.size(0) == edge_index.size(1)
    assert edge_index.numel() == 0 or 0 <= edge_index.min() <= edge_index.max() < x.size(0)
    assert out.lift().size(0) == out.labels().numel() == len(given[0])
    if all(v is None or v.isfinite().all() for v in (given[0], given[2], named.get("attn"))):
        assert x.isfinite().all() or given[0].max() > 1e200


@pytest.mark.parametrize("name", EVERY)
def test_nan_is_refused(name):
    """Without pooling nothing is computed: NaN passes as it does through any layer of torch."""
    pool, x = POOLS[name], X.clone()
    x[2, 3] = torch.nan
    if name == "none":
        assert pool(x, PATH).x.isnan().any()
        return
    with pytest.raises(ValueError, match="NaN"):
        pool(x, PATH)
    for parameter in (pool := EVERY[name]().double()).parameters():
        torch.nn.init.constant_(parameter, torch.nan)
    with pytest.raises(ValueError, match="NaN"):
        pool(X, PATH)


@pytest.mark.parametrize("odd", [torch.nan, torch.inf])
@pytest.mark.parametrize("pool", [DiffPooling(8, 2).double(), MinCutPooling(8, 2).double()])
def test_weights_that_are_not_finite_are_refused(pool, odd):
    weight = torch.ones(6, dtype=torch.float64)
    weight[4] = odd
    with pytest.raises(ValueError, match=r"NaN|edge_attr"):
        pool(X, PATH, weight)


@pytest.mark.parametrize("name", [*SELECTIONS, *sorted(GENERIC.keys() - WITHOUT_ATTN)])
@pytest.mark.parametrize(
    ("attn", "error", "match"),
    [
        (X[:, :3], ValueError, r"\b8\b"),
        (X[:3], ValueError, r"\[3, 8\]"),
        (X.float(), TypeError, "torch.float32"),
        (X.long(), TypeError, "torch.int64"),
        (X.tolist(), TypeError, "list"),
    ],
)
def test_attn_that_does_not_fit_is_named(name, attn, error, match):
    with pytest.raises(error, match=rf"(?s)(?=.*'attn').*{match}"):
        POOLS[name](X, PATH, attn=attn)


@pytest.mark.parametrize("name", sorted(EVERY.keys() - {"none"}))
def test_features_that_do_not_fit_are_named_beside_a_graph_too(name):
    graph = lcpool.graph.graph.Graph.of(X, PATH)
    for x, error in ((X[:, :3], ValueError), (X.float(), TypeError), (X.tolist(), TypeError)):
        with pytest.raises(error, match="'x'"):
            POOLS[name](x, graph)


def test_an_assignment_of_another_width_is_named():
    with pytest.raises(ValueError, match=r"\[4, 3\].*\[4, 5\]"):
        DenseAssignmentPooling(GCNConv(8, 5), 3)(X.float(), PATH)


WRONG = [
    ("in_channels", ValueError, [-1, 0], [TopKPooling, SAGPooling, ASAPooling, LCPooling, LCSMP,
     ProjectionScore, ClusterAttention, Pooling]),
    ("in_channels", TypeError, [0.5, "8", True, (8, 8)], [TopKPooling, SAGPooling, ASAPooling,
     LCPooling, LCSMP, ProjectionScore, ClusterAttention, Pooling]),
    ("num_clusters", ValueError, [-1, 0], [DiffPooling, MinCutPooling]),
    ("num_clusters", TypeError, [0.5, None, "3"], [DiffPooling, MinCutPooling]),
    ("hidden_channels", ValueError, [-1, 0], [LCPooling, LCSMP]),
    ("min_score", TypeError, ["a"], [TopKPooling, SAGPooling, LCPooling]),
    ("min_score", ValueError, [float("nan"), float("inf")], [TopKPooling, SAGPooling, LCPooling]),
    ("multiplier", TypeError, ["a", None], [TopKPooling, SAGPooling, LCPooling]),
    ("max_edges", ValueError, [-3, 0], [ASAPooling, LCPooling]),
    ("max_edges", TypeError, ["a", 2.5, None], [ASAPooling, LCPooling]),
    ("rescale", TypeError, ["no", 1, None], [LCPooling, LCSMP]),
    ("self_loops", TypeError, ["no"], [LCPooling]),
    ("add_self_loops", TypeError, ["no"], [ASAPooling]),
    ("edge_fill", TypeError, ["a", True], [LCPooling]),
    ("hops", ValueError, [0, 4], [LCPooling]),
    ("dropout", ValueError, [2, -0.1], [ASAPooling, ClusterAttention]),
    ("dropout", TypeError, ["a", None], [ASAPooling, ClusterAttention]),
    ("negative_slope", TypeError, ["a"], [ASAPooling, ClusterAttention]),
    ("GNN", TypeError, [5, "GCN", GCNConv(8, 1)], [SAGPooling, ASAPooling]),
    ("GNN", TypeError, [None], [SAGPooling]),
    ("nonlinearity", TypeError, [5], [TopKPooling, SAGPooling, ProjectionScore]),
    ("cluster", TypeError, [5, GCNConv, True], [LCPooling]),
    ("ratio", ValueError, [0, -1, 1.5, float("nan")], [TopKPooling, ASAPooling, LCPooling]),
    ("ratio", TypeError, ["half", None, True], [TopKPooling, ASAPooling, LCPooling]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("cls", "name", "value", "error"),
    [(cls, name, value, error) for name, error, values, classes in WRONG
     for value in values for cls in classes],
)  # fmt: skip
def test_constructors_refuse_what_they_cannot_use(cls, name, value, error):
    more = {"num_clusters": 3} if cls in (DiffPooling, MinCutPooling) else {}
    with pytest.raises(error, match=f"'{name}'"):
        cls(**{"in_channels": 8, **more, name: value})


@pytest.mark.parametrize(
    ("new", "error", "name"),
    [
        (lambda: DiffPooling(-1, 3), ValueError, "in_channels"),
        (lambda: DiffPooling(8, 3, GNN=5), TypeError, "GNN"),
        (lambda: DiffPooling(8, 3, normalize="no"), TypeError, "normalize"),
        (lambda: MinCutPooling(8, 3, temp=0), ValueError, "temp"),
        (lambda: MinCutPooling(8, 3, temp="a"), TypeError, "temp"),
        (lambda: LocalAssignmentPooling(5, GCNConv(8, 1)), TypeError, "assign"),
        (lambda: LocalAssignmentPooling(None, None), TypeError, "score"),
        (lambda: LocalAssignmentPooling(None, GCNConv(8, 1), verify="no"), TypeError, "verify"),
        (lambda: DenseAssignmentPooling(None, 3), TypeError, "assign"),
        (lambda: ConvScore(GCNConv), TypeError, "score"),
    ],
)
def test_more_constructors(new, error, name):
    with pytest.raises(error, match=f"'{name}'"):
        new()
