"""A' = S'ᵀ(A + I)S' of padded graphs; its kernels interpreted."""

import pytest
import torch
from torch.nn.functional import pad

pytest.importorskip("triton", reason="Triton is not installed")

from lcpool import ASAPooling, Assignment
from lcpool.graph.bounded import Bounded, BoundedEdges
from lcpool.graph.capture import NotCapturableError, without_copies
from lcpool.graph.checks import Unread
from lcpool.graph.edges import Edges, Neighbours
from lcpool.graph.graph import Graph
from lcpool.nn.conv import FastGCNConv, FastGraphConv, FastLEConv
from lcpool.ops.connect.bounded_product import connect_bounded, plus_identity
from lcpool.ops.topk import KeepPlan, Kept
from lcpool.pool.asap import with_self_loops

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
GARBAGE = 2**40  # a node that no kernel may read: it would fault
SPARE = 3
COUNTS, KEPT = (5, 0, 4, 1), (3, 0, 2, 1)


@pytest.fixture(autouse=True)
def gpu_kernels(monkeypatch):
    """The kernels for a GPU, interpreted where there is none; two blocks of columns in a row."""
    monkeypatch.setattr("lcpool.ops.connect.gpu.TILE_COLUMNS", 2)
    if DEVICE.type != "cuda":
        from lcpool.ops import kernels
        from lcpool.ops.backends import gpu

        monkeypatch.setattr(kernels, "cpu_kernels", lambda: gpu)


def adjacency():
    """A path of five nodes with two loops and a chord, a star of four, and a node alone."""
    A = torch.zeros(10, 10, dtype=torch.float64)
    for i, j in [(0, 1), (1, 2), (2, 3), (3, 4), (1, 4), (2, 2), (4, 4), (6, 5), (6, 7), (6, 8)]:
        A[i, j] = A[j, i] = 1.0
    return A


def bounds(counts):
    ptr = pad(torch.tensor(counts).cumsum(0), (1, 0)).to(DEVICE)
    return Bounded(ptr, max(counts), sum(counts) + SPARE, 1, sum(counts) + SPARE)


def rows_of(A, garbage=GARBAGE):
    """Neighbours of A's nodes, in any order, with room to spare."""
    n = len(A)
    row, node = A.nonzero().T.flip(1)  # falling
    known = Neighbours.of(row, node, n)
    ptr = pad(known.ptr, (0, SPARE), value=row.numel())
    return Neighbours(ptr.to(DEVICE), pad(known.node, (0, 7), value=garbage).to(DEVICE))


def bounded(A, distinct=True):
    pairs = sum(n * n for n in COUNTS)
    return BoundedEdges(rows_of(A), lambda t: int(A.sum()) + 7 if t == 1 else pairs, distinct)


def dense(edges, values, n):
    """The matrix of the edges of n nodes, with these values."""
    count = int(edges.out.ptr[-1])
    index = edges.source[:count].cpu(), edges.out.node[:count].cpu()
    assert count <= edges.room
    return torch.zeros(n, n, dtype=torch.float64).index_put(
        index, values[:count].cpu(), accumulate=True
    )


def test_identity_is_added_last_in_its_rows():
    A, sizes = adjacency(), bounds(COUNTS)
    edges = plus_identity(bounded(A), sizes)
    wanted = A.clone().fill_diagonal_(1.0)
    ones = torch.ones(edges.room, dtype=torch.float64, device=DEVICE)
    assert torch.equal(dense(edges, ones, len(A)), wanted)
    last = edges.out.node[edges.out.ptr[1 : len(A) + 1] - 1]
    assert torch.equal(last, torch.arange(len(A), device=DEVICE))
    assert edges.room >= edges.reach(1) >= wanted.sum()
    assert (edges.out.ptr[len(A) :] == wanted.sum()).all()
    exact = Edges.trusted(A.nonzero().T.flip(1).to(DEVICE), len(A), symmetric=True)
    exact = with_self_loops(Graph(ones[: len(A), None], exact, None, None, 1)).edges.out
    count = int(wanted.sum())
    assert torch.equal(exact.node, edges.out.node[:count])
    assert torch.equal(exact.ptr, edges.out.ptr[: len(A) + 1])


@pytest.mark.parametrize("ascending", [False, True])
def test_reverse_edges(ascending):
    A = adjacency()
    rows = rows_of(A)
    if ascending:
        node = A.nonzero()[:, 1]
        rows = rows._replace(node=pad(node, (0, 7), value=GARBAGE).to(DEVICE))
    edges = BoundedEdges(rows, int, True, ascending=ascending)
    count = int(edges.out.ptr[-1])
    reverse = edges.reverse[:count]
    assert torch.equal(edges.source[:count][reverse], edges.out.node[:count])
    assert torch.equal(edges.out.node[:count][reverse], edges.source[:count])
    with pytest.raises(NotCapturableError, match="twice"):
        _ = BoundedEdges(rows, int, False).reverse


@pytest.mark.parametrize("self_loops", [False, True])
def test_weights_and_gradients_are_those_of_dense_matrices(self_loops):
    A, n = adjacency(), sum(COUNTS)
    plan = KeepPlan(bounds(COUNTS), bounds(KEPT))
    edges = plus_identity(bounded(A), plan.sizes)
    generator = torch.Generator().manual_seed(0)
    perm = torch.tensor([3, 0, 2, 6, 8, 9])
    padded = pad(perm, (0, SPARE), value=-1).to(DEVICE)
    kept = Kept(padded, plan.kept.batch)
    value = torch.full((edges.room,), torch.nan, dtype=torch.float64)
    count = int(edges.out.ptr[-1])
    value[:count] = torch.rand(count, generator=generator, dtype=torch.float64)
    value = value.to(DEVICE).requires_grad_()
    S = Assignment.of_entries(edges.by_target, value)
    with without_copies():
        given = (kept, plan.sizes.batch, plan, self_loops)
        found, weight = connect_bounded(edges, S, *given)
    # In rows of S are nodes; its entries stand by cluster.
    columns = dense(edges, value, n).T[:, perm]
    wanted = columns.T @ A.fill_diagonal_(1.0) @ columns
    if not self_loops:
        wanted = wanted * (1 - torch.eye(len(perm)))
    torch.testing.assert_close(dense(found, weight, len(perm)), wanted)
    assert int(found.out.ptr[-1]) == (wanted != 0).sum()
    upstream = torch.full((found.room,), torch.nan, dtype=torch.float64)
    count = int(found.out.ptr[-1])
    upstream[:count] = torch.randn(count, generator=generator, dtype=torch.float64)
    upstream = upstream.to(DEVICE)
    (gradient,) = torch.autograd.grad(weight, value, upstream)
    (expected,) = torch.autograd.grad((wanted * dense(found, upstream, len(perm))).sum(), value)
    count = int(edges.out.ptr[-1])
    torch.testing.assert_close(gradient[:count], expected[:count])


@pytest.mark.parametrize("conv", [FastGCNConv, FastGraphConv, FastLEConv])
def test_convolutions_with_weights(conv):
    generator = torch.Generator(DEVICE).manual_seed(1)
    A = adjacency().fill_diagonal_(0.0)
    edges = BoundedEdges(rows_of(A), int, True, loops=False)
    count, n, rows = int(edges.out.ptr[-1]), len(A), edges.num_nodes
    options = {"dtype": torch.float64, "device": DEVICE, "generator": generator}
    x, weight = torch.rand(rows, 3, **options), torch.rand(edges.room, **options)
    layer = conv(3, 2).to(x)
    with torch.no_grad():
        index = torch.stack([edges.source[:count], edges.out.node[:count]])
        wanted = layer(x[:n], index, weight[:count])
        weight[count:] = torch.nan
        torch.testing.assert_close(layer(x, edges, weight)[:n], wanted)


def test_what_cannot_be_captured():
    A, plan = adjacency(), KeepPlan(bounds(COUNTS), bounds(KEPT))
    edges = bounded(A)
    x = torch.ones(edges.num_nodes, 2, dtype=torch.float64, device=DEVICE)
    weight = x.new_ones(edges.room)
    batch = plan.sizes.batch
    graph = Graph(x, edges, weight, batch, len(COUNTS), plan.sizes, Unread())
    with pytest.raises(NotCapturableError, match="weights"):
        ASAPooling(2).to(x)(graph)
    S = Assignment.of_entries(edges.by_target, weight)
    with pytest.raises(NotCapturableError, match=r"A \+ I"):
        connect_bounded(edges, S, Kept(batch), batch, plan, False)
    with pytest.raises(ValueError, match="a row for each"):
        Graph(x, edges, weight[1:], batch, len(COUNTS), plan.sizes)
