"""Random and hostile calls of the functional operators: an error, or a right result."""

import pytest
import torch
from graphs import dense
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lcpool import Assignment, assignment_connect, cluster_connect, cluster_connect_blocks
from lcpool.graph.graph import Graph
from lcpool.ops.readout import graph_softmax, readout
from lcpool.ops.topk import KeepPlan, above, topk

each = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
pytestmark = pytest.mark.usefixtures("backend")
ERRORS = (TypeError, ValueError, IndexError)
N = 5

good = st.integers(0, N - 1)
# Mostly good, so that one bad argument at a time is met.
index = st.one_of(good, good, good, good, st.sampled_from([-1, N, -(2**40), 2**40, 2**31]))
types = st.sampled_from([torch.int64] * 6 + [torch.int32, torch.float32, torch.bool, torch.uint8])
number = st.sampled_from([N] * 6 + [0, -1, 3, 2.0, None, True, "5"])
real = st.sampled_from([0.0, 1.0, -2.5, torch.nan, torch.inf, 1e-40])
real_types = st.sampled_from(
    [torch.float32] * 4 + [torch.float64, torch.bfloat16, torch.int64, torch.complex64]
)


def draw_tensor(data, values, dtype, max_size=8, rows=None):
    """A vector, or a matrix of ``rows``; now and then of another shape or layout."""
    size = data.draw(st.integers(0, max_size))
    count = size if rows is None else rows * size
    found = data.draw(st.lists(values, min_size=count, max_size=count))
    kind = data.draw(dtype)
    out = torch.tensor(found, dtype=torch.float64 if kind.is_floating_point else None).to(kind)
    out = out if rows is None else out.view(rows, size)
    change = data.draw(st.sampled_from([None] * 8 + ["row", "scalar", "strided", "list"]))
    if change == "row":
        return out.unsqueeze(0)
    if change == "scalar":
        return torch.tensor(1)
    if change == "strided":
        return out.repeat_interleave(2, -1)[..., ::2]
    return out.tolist() if change == "list" else out


def result_of(call):
    """What it gives, None where it refuses."""
    try:
        return call()
    except ERRORS:
        return None


@each
@given(st.data())
def test_cluster_connect(data):
    edge_index = draw_tensor(data, index, types, rows=2)
    perm = draw_tensor(data, index, types, max_size=N)
    num_nodes = data.draw(number)
    hops = data.draw(st.sampled_from([1, 2, 3, 3, 3, 0, 4, None]))
    out = result_of(lambda: cluster_connect(edge_index, perm, num_nodes, hops=hops))
    if out is None:
        return
    A = (dense(edge_index.long(), num_nodes) > 0).double()
    eye = torch.eye(int(num_nodes), dtype=A.dtype)
    S = A + eye
    left, right = S if hops > 2 else eye, S if hops > 1 else eye
    expected = (left.t() @ A @ right)[perm.long()][:, perm.long()] > 0
    assert torch.equal(dense(out, perm.numel()) > 0, expected)


@each
@given(st.data())
def test_cluster_connect_blocks(data):
    edge_index = draw_tensor(data, index, types, rows=2)
    perm = draw_tensor(data, index, types, max_size=N)
    num_nodes, size = data.draw(number), data.draw(st.sampled_from([1, 3, 100, 0, -1, 1.5, None]))
    blocks = result_of(
        lambda: cluster_connect_blocks(edge_index, perm, num_nodes, edges_per_block=size)
    )
    if blocks is not None:
        whole = cluster_connect(edge_index, perm, num_nodes)
        assert torch.equal(torch.cat(list(blocks), dim=1), whole)


@each
@given(st.data())
def test_assignment_connect(data):
    edge_index = draw_tensor(data, index, types, rows=2)
    node, cluster = (draw_tensor(data, index, types, max_size=4) for _ in range(2))
    value = data.draw(st.sampled_from([None, "some"]))
    value = None if value is None else draw_tensor(data, real, real_types, max_size=4)
    weight = data.draw(st.sampled_from([None, "some"]))
    weight = None if weight is None else draw_tensor(data, real, real_types)
    rows, columns = data.draw(number), data.draw(number)
    S = result_of(lambda: Assignment(node, rows, cluster, columns, value))
    if S is None:
        return
    out = result_of(lambda: assignment_connect(edge_index, S, weight))
    if out is None:
        return
    edges, found = out
    A = torch.zeros(S.num_nodes, S.num_nodes, dtype=torch.float64)
    weights = torch.ones(edge_index.size(1)) if weight is None else weight.reshape(-1)
    A = A.index_put(tuple(edge_index.long()), weights.double(), accumulate=True)
    M = S.with_weight(None if S.weight is None else S.weight.double()).to_dense().double()
    if A.isfinite().all() and M.isfinite().all():
        expected = (M.t() @ A @ M)[tuple(edges)]
        torch.testing.assert_close(found.double(), expected, rtol=0.02, atol=1e-6)


@each
@given(st.data())
def test_graphs_and_what_is_read_from_them(data):
    x = torch.tensor(data.draw(st.lists(real, min_size=N, max_size=N))).view(N, 1).repeat(1, 2)
    edge_index = draw_tensor(data, index, types, rows=2)
    graphs = st.one_of(good, good, good, st.sampled_from([-1, 10**9, 2**62, 5000]))
    batch = torch.tensor(data.draw(st.lists(graphs, min_size=N, max_size=N)))
    batch = batch.sort()[0] if data.draw(st.booleans()) else batch
    batch_size = data.draw(st.sampled_from([None] * 4 + [N, 1, 0, -1, 10**9, 5001, 2.0]))
    follows = data.draw(st.booleans())
    graph = result_of(lambda: Graph.of(x, edge_index, None, batch, batch_size, follows))
    if graph is None:
        return
    assert (
        graph.host_counts().tolist() == torch.bincount(batch, minlength=graph.batch_size).tolist()
    )
    out = readout(x, graph)
    assert out.shape == (graph.batch_size, 4)
    for g in batch.unique().tolist():
        mine = x[batch == g]
        wanted = torch.cat([mine.mean(0), mine.amax(0)])
        torch.testing.assert_close(out[g], wanted, equal_nan=True)
    h = graph_softmax(x[:, 0], graph)
    perm, of_kept = topk(h, graph, KeepPlan.of(data.draw(st.sampled_from([0.5, 1, 7])), graph))
    assert torch.equal(batch[perm], of_kept)
    assert perm.unique().numel() == perm.numel()
    assert set(batch[above(h, graph, 0.4)[0]].tolist()) == set(batch.tolist())
