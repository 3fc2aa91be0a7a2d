"""DiffPool and MinCut against PyG's dense functions."""

import pytest
import torch
from graphs import Example, graphs
from hypothesis import assume, given
from torch_geometric.nn import SAGEConv, dense_diff_pool, dense_mincut_pool
from torch_geometric.utils import to_dense_adj

from lcpool import DiffPooling, MinCutPooling
from lcpool.graph import dense


def peers(example: Example, pool, function, weight):
    """PyG's function on each graph alone, without padding."""
    x, start, results = example.features(), 0, []
    for size in example.sizes:
        inside = (example.edge_index[0] >= start) & (example.edge_index[0] < start + size)
        edges = example.edge_index[:, inside] - start
        adj = to_dense_adj(edges, edge_attr=weight[inside], max_num_nodes=size)
        part = x[start : start + size]
        s = pool.assign(part, edges, weight[inside]) if is_diff(pool) else pool.assign(part)
        results.append(function(part, adj, s))
        start += size
    return results


def is_diff(pool):
    return isinstance(pool, DiffPooling)


@given(graphs())
@pytest.mark.parametrize("cls", [DiffPooling, MinCutPooling])
def test_equals_pyg_graph_by_graph(cls, example: Example):
    assume(all(example.sizes) and example.edge_index.size(1))
    torch.manual_seed(example.seed)
    pool, weight = cls(8, 3).double(), example.weights()
    function = dense_diff_pool if is_diff(pool) else dense_mincut_pool
    out = pool(example.features(), example.edge_index, weight, example.batch)
    results = peers(example, pool, function, weight)
    A = out.edge_attr.view(-1, 3, 3)
    for b, (x, adj, *_) in enumerate(results):
        torch.testing.assert_close(out.x.view(-1, 3, 8)[b], x[0])
        torch.testing.assert_close(A[b], adj[0].nan_to_num())
    for i, name in enumerate(out.losses):
        mean = torch.stack([r[2 + i].nan_to_num() for r in results]).mean()
        torch.testing.assert_close(out.losses[name], mean)


def test_a_batch_of_equal_graphs_equals_pyg():
    """On equal sizes PyG's losses are means over graphs too, but for the link loss: PyG takes one
    Frobenius norm over the batch, so that B equal graphs count 1/√B of one."""
    torch.manual_seed(0)
    x, batch = torch.randn(12, 8, dtype=torch.float64), torch.arange(12) // 4
    edges = torch.tensor([[0, 1, 4, 5, 6, 8, 9, 11], [1, 0, 5, 6, 4, 9, 8, 8]])
    adj, xs = to_dense_adj(edges, batch).double(), x.view(3, 4, 8)
    diff, mincut = DiffPooling(8, 3).double(), MinCutPooling(8, 3).double()
    out = diff(x, edges, batch=batch)
    s = diff.assign(x, edges).view(3, 4, 3)
    px, padj, _, entropy = dense_diff_pool(xs, adj, s)
    torch.testing.assert_close(out.x.view_as(px), px)
    torch.testing.assert_close(out.edge_attr.view_as(padj), padj)
    torch.testing.assert_close(out.losses["entropy"], entropy)
    each = torch.stack([dense_diff_pool(xs[b], adj[b], s[b])[2] for b in range(3)])
    torch.testing.assert_close(out.losses["link"], each.mean())
    out = mincut(x, edges, batch=batch)
    px, padj, cut, ortho = dense_mincut_pool(xs, adj, mincut.assign(x).view(3, 4, 3))
    torch.testing.assert_close(out.x.view_as(px), px)
    torch.testing.assert_close(out.edge_attr.view_as(padj), padj)
    torch.testing.assert_close(out.losses["cut"], cut)
    torch.testing.assert_close(out.losses["ortho"], ortho)


@pytest.mark.parametrize("cls", [DiffPooling, MinCutPooling])
def test_every_pooled_graph_is_complete(cls):
    pool = cls(8, 3).double()
    out = pool(torch.randn(5, 8).double(), torch.tensor([[0], [1]]), batch_size=2,
               batch=torch.zeros(5, dtype=torch.long))  # fmt: skip
    assert out.x.shape == (6, 8)
    assert out.batch.tolist() == [0, 0, 0, 1, 1, 1]
    pairs = [(3 * b + i, 3 * b + j) for b in range(2) for i in range(3) for j in range(3)]
    assert list(map(tuple, out.edge_index.t().tolist())) == pairs
    assert out.perm is None
    assert out.score is None


@pytest.mark.parametrize("cls", [DiffPooling, MinCutPooling])
def test_gradients(cls):
    torch.manual_seed(0)
    pool = cls(3, 2).double()
    edges = torch.tensor([[0, 1, 1, 2, 3, 0], [1, 0, 2, 1, 3, 1]])
    batch = torch.tensor([0, 0, 0, 1])
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    weight = torch.rand(6, dtype=torch.float64, requires_grad=True)

    def call(x, weight):
        out = pool(x, edges, weight, batch)
        return out.x, out.edge_attr, out.loss

    assert torch.autograd.gradcheck(call, (x, weight))


@pytest.mark.parametrize("cls", [DiffPooling, MinCutPooling])
def test_graphs_longer_than_a_chunk(cls, monkeypatch):
    torch.manual_seed(0)
    pool, x = cls(8, 3).double(), torch.randn(50, 8, dtype=torch.float64)
    edges, batch = torch.randint(0, 50, (2, 90)), torch.randint(0, 4, (50,))
    edges = edges[:, batch[edges[0]] == batch[edges[1]]]
    whole = pool(x, edges, batch=batch)
    lifted = whole.lift()
    monkeypatch.setattr(dense, "CHUNK", 3)
    cut = pool(x, edges, batch=batch)
    torch.testing.assert_close(cut.x, whole.x)
    torch.testing.assert_close(cut.edge_attr, whole.edge_attr)
    torch.testing.assert_close(cut.lift(), lifted)
    torch.testing.assert_close(cut.loss, whole.loss)


@pytest.mark.parametrize("cls", [DiffPooling, MinCutPooling])
def test_a_batch_with_a_huge_graph_trains_within_2_gib(cls):
    """32 graphs of DD's size, one of 5748 nodes: the padded dense form would need 4.2 GB for A
    alone. Every tensor autograd saves is counted."""
    sizes = [284] * 31 + [5748]
    batch = torch.arange(32).repeat_interleave(torch.tensor(sizes))
    starts = torch.tensor([0, *sizes]).cumsum(0)[:-1]
    generator = torch.Generator().manual_seed(0)
    source = torch.randint(0, batch.numel(), (5 * batch.numel() // 2,), generator=generator)
    step = torch.randint(1, 9, source.shape, generator=generator)
    size = torch.tensor(sizes)[batch[source]]
    target = starts[batch[source]] + (source - starts[batch[source]] + step) % size
    edges = torch.stack([torch.cat([source, target]), torch.cat([target, source])])
    pool, x = cls(128, 142), torch.randn(batch.numel(), 128, generator=generator)
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as trace:
        out = pool(x.requires_grad_(), edges, batch=batch, batch_size=32)
        (out.x.sum() + out.edge_attr.sum() + out.loss).backward()
    assert peak_bytes(trace) < 2 * 2**30


def peak_bytes(trace):
    used = peak = 0
    events = [e for e in trace.profiler.kineto_results.events() if e.name() == "[memory]"]
    for event in sorted(events, key=lambda e: e.start_ns()):
        used += event.nbytes()
        peak = max(peak, used)
    assert peak > 0
    return peak


def test_far_too_many_graphs_are_refused():
    """As where the numbers in ``batch`` are not those of graphs: each would have k² edges."""
    batch = torch.tensor([0, 10**8])
    with pytest.raises(ValueError, match="100,000,001"):
        DiffPooling(3, 4)(torch.randn(2, 3), torch.tensor([[0], [0]]), batch=batch)


def test_options_equal_pyg():
    torch.manual_seed(0)
    x, edges = torch.randn(5, 8, dtype=torch.float64), torch.tensor([[0, 1, 2, 4], [1, 2, 3, 0]])
    adj = to_dense_adj(edges, max_num_nodes=5).double()
    diff = DiffPooling(8, 3, normalize=False).double()
    link = dense_diff_pool(x, adj, diff.assign(x, edges), normalize=False)[2]
    torch.testing.assert_close(diff(x, edges).losses["link"], link)
    mincut = MinCutPooling(8, 3, temp=0.5).double()
    expected = dense_mincut_pool(x, adj, mincut.assign(x), temp=0.5)
    torch.testing.assert_close(mincut(x, edges).x, expected[0][0])


@pytest.mark.parametrize("cls", [DiffPooling, MinCutPooling])
def test_assignments_that_underflow_have_finite_gradients(cls):
    """Logits far apart: float32 probabilities of exactly 0, and clusters that nobody is in."""
    pool = cls(2, 3)
    for parameter in pool.parameters():
        torch.nn.init.constant_(parameter, 0.0)
    weight = next(p for p in pool.parameters() if p.dim() == 2)
    torch.nn.init.constant_(weight[0], 1000.0)
    x = torch.ones(4, 2, requires_grad=True)
    out = pool(x, torch.tensor([[0, 1, 2], [1, 2, 3]]))
    assert (out.assignment.value == 0).any()
    (out.x.sum() + out.edge_attr.sum() + out.loss).backward()
    assert x.grad.isfinite().all()
    assert all(p.grad.isfinite().all() for p in pool.parameters())


def test_a_convolution_that_knows_no_weights():
    pool = DiffPooling(8, 3, GNN=SAGEConv)
    assert pool(torch.randn(4, 8), torch.tensor([[0], [1]])).x.shape == (3, 8)


def test_repr_and_arguments():
    assert repr(DiffPooling(8, 3)) == "DiffPooling(8, 3)"
    assert repr(MinCutPooling(8, 3)) == "MinCutPooling(8, 3)"
    with pytest.raises(ValueError, match="at least 1"):
        DiffPooling(8, 0)
