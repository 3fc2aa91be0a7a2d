"""What only a GPU can show. Skipped where there is none."""

import pickle
import warnings

import pytest
import torch
from assignments import KEPT, SIZES, Case
from graphs import dense
from operators import ALL, DENSE, SELECTIONS, make
from targets import with_labels, with_values

from lcpool import (
    LCSMP,
    Assignment,
    assignment_connect,
    cluster_connect,
    cluster_connect_blocks,
)
from lcpool.data import builtin
from lcpool.graph.edges import Edges
from lcpool.graph.graph import Graph
from lcpool.graph.sizes import Sizes
from lcpool.nn.conv import FastGCNConv
from lcpool.ops import kernels
from lcpool.ops.cells import cells, places, topk_of_components
from lcpool.ops.independent_set import independent_set
from lcpool.ops.matching import matching
from lcpool.ops.message import entry_dot, neighbour_max, weighted_sum
from lcpool.ops.topk import KeepPlan
from lcpool.train import train
from lcpool.train.metrics import METRICS
from lcpool.train.protocol import seeded

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
every = pytest.mark.parametrize("name", ALL)


def graphs(seed=0, num_graphs=6, nodes=20):
    generator = torch.Generator().manual_seed(seed)
    total = num_graphs * nodes
    batch = torch.arange(total) // nodes
    source = torch.randint(0, total, (3 * total,), generator=generator)
    target = batch[source] * nodes + torch.randint(0, nodes, source.shape, generator=generator)
    x = torch.randn(total, 8, generator=generator, dtype=torch.float64)
    return x, torch.stack([source, target]), batch


@every
def test_equals_the_cpu(name):
    x, edges, batch = graphs()
    grads = []
    outs = []
    for device in ("cpu", "cuda"):
        pool = make(name).to(device)
        x_ = x.to(device, copy=True).requires_grad_()
        out = pool(x_, edges.to(device), batch=batch.to(device), batch_size=7)
        (out.x.square().sum() + out.loss).backward()
        outs.append(out)
        grads.append(
            [x_.grad.cpu(), *(p.grad.cpu() for p in pool.parameters() if p.grad is not None)]
        )
    here, there = outs
    torch.testing.assert_close(there.x.cpu(), here.x)
    assert torch.equal(there.batch.cpu(), here.batch)
    if here.perm is not None:
        assert torch.equal(there.perm.cpu(), here.perm)
    k = here.x.size(0)
    attr = None if there.edge_attr is None else there.edge_attr.cpu()
    torch.testing.assert_close(
        dense(there.edge_index.cpu(), k, attr), dense(here.edge_index, k, here.edge_attr)
    )
    torch.testing.assert_close(there.lift().cpu(), here.lift())
    for a, b in zip(grads[1], grads[0], strict=True):
        torch.testing.assert_close(a, b)


# More edges into a node, and more channels, than a program takes at a time.
HUBS = torch.randint(0, 40, (2, 3000), generator=torch.Generator().manual_seed(0))
OPERATORS = {
    "weighted_sum": lambda x, y, w, edges: weighted_sum(x, w, edges.entries),
    "weighted_sum back": lambda x, y, w, edges: weighted_sum(x, w, edges.entries.reversed),
    "entry_dot": lambda x, y, w, edges: entry_dot(x, y, edges.entries),
    "neighbour_max": lambda x, y, w, edges: neighbour_max(x, edges),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("width", [1, 2, 128, 200])
@pytest.mark.parametrize("name", OPERATORS)
def test_sums_and_maxima_over_entries_equal_the_cpu(name, width, in_order, dtype):
    generator = torch.Generator().manual_seed(0)
    index = HUBS[:, HUBS[0].argsort(stable=True)] if in_order else HUBS
    # Few different numbers: maxima are shared.
    shapes = ((50, width), (50, width), (index.size(1),))
    inputs = [torch.randint(-4, 5, shape, generator=generator).to(dtype) for shape in shapes]
    found = []
    for device in ("cpu", "cuda", "cuda"):
        given = [values.to(device, copy=True).requires_grad_() for values in inputs]
        out = OPERATORS[name](*given, Edges(index.to(device), 50, in_order=in_order))
        grads = torch.autograd.grad(out.square().sum(), given, allow_unused=True)
        found.append([out, *(grad for grad in grads if grad is not None)])
    here, there, again = found
    for a, b, c in zip(here, there, again, strict=True):
        torch.testing.assert_close(b.cpu(), a)
        assert torch.equal(b, c)


def synchronisations(call):
    torch.cuda.synchronize()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            call()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return sum("synchronizing CUDA operation" in str(w.message) for w in caught)


@pytest.mark.parametrize(
    ("name", "most"),
    # Selections: one look at the graph, and the edges of the pooled one; for ASAP also those of
    # A + I and the entries of S'. Dense ones: whether all indices are in range; one more of
    # DiffPool is in PyG's GCNConv, which counts self-loops.
    [("topk", 2), ("sag", 2), ("lcpool", 2), ("asap", 4), ("diff", 2), ("mincut", 1)],
)
def test_synchronisations_are_the_ones_that_sizes_need(name, most):
    x, edges, batch = (t.cuda() for t in graphs())
    pool = make(name).cuda()

    def call():
        return pool(x, edges, batch=batch, batch_size=6)

    call()
    assert synchronisations(call) <= most


def test_one_graph_is_looked_at_once():
    """And the kept edges are counted."""
    x, edges, _ = (t.cuda() for t in graphs(num_graphs=1))
    pool = make("topk").cuda()
    pool(x, edges)
    assert synchronisations(lambda: pool(x, edges)) == 2


@pytest.mark.parametrize("name", SELECTIONS)
@pytest.mark.parametrize("with_batch", [True, False])
def test_bad_input_raises_and_leaves_the_device_usable(name, with_batch):
    x, edges, batch = (t.cuda() for t in graphs())
    pool = make(name).cuda()
    options = {"batch": batch, "batch_size": 6} if with_batch else {}
    with pytest.raises(ValueError, match="'edge_index'"):
        pool(x, edges + 1, **options)
    with pytest.raises(ValueError, match="NaN"):
        pool(x * torch.nan, edges, **options)
    if with_batch:
        with pytest.raises(ValueError, match="'batch'"):
            pool(x, edges, batch=batch + 1, batch_size=6)
    assert pool(x, edges, **options).x.isfinite().all()


@pytest.mark.parametrize("batch_size", [None, 6])
@pytest.mark.parametrize("name", [*DENSE, "score"])
def test_bad_input_where_no_size_is_read(name, batch_size):
    x, edges, batch = (t.cuda() for t in graphs())
    layer = (LCSMP(8).double() if name == "score" else make(name)).cuda()
    options = {"batch": batch, "batch_size": batch_size}
    with pytest.raises(ValueError, match="'edge_index'"):
        layer(x, edges + 1, **options)
    if batch_size is not None:
        with pytest.raises(ValueError, match="'batch'"):
            layer(x, edges, batch=batch + 1, batch_size=batch_size)
    layer(x, edges, **options)
    torch.cuda.synchronize()


def test_cluster_connect_checks_on_the_device():
    _, edges, _ = (t.cuda() for t in graphs())
    perm = torch.arange(50, device="cuda")
    with pytest.raises(ValueError, match="'edge_index'"):
        cluster_connect(edges + 5, perm, 120)
    with pytest.raises(ValueError, match="perm"):
        cluster_connect(edges, perm // 2, 120)
    with pytest.raises(ValueError, match="max_edges=3"):
        cluster_connect(edges, perm, 120, max_edges=3)
    for hops in (1, 2, 3):
        found = cluster_connect(edges, perm, 120, hops=hops)
        assert torch.equal(found.cpu(), cluster_connect(edges.cpu(), perm.cpu(), 120, hops=hops))


# Of the widest graph a row has more bits, and more numbers, than a program takes at a time.
BATCHES = {"small": (SIZES, KEPT, 20), "wide": ((9, 1500), (5, 1300), 4000)}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("self_loops", [True, False])
@pytest.mark.parametrize("with_graphs", [True, False])
@pytest.mark.parametrize("name", BATCHES)
def test_weighted_products_equal_the_cpu(name, with_graphs, self_loops, dtype, monkeypatch):
    monkeypatch.setattr("lcpool.ops.connect.plain.connect_by_joins", None)  # A kernel does without.
    monkeypatch.setattr("lcpool.ops.connect.plain.connect_assignment_backward", None)
    here = Case(*BATCHES[name], dtype=dtype)
    there = here.to("cuda")
    (edges, weight), (edges_, weight_) = (
        case.connect(self_loops, with_graphs=with_graphs) for case in (here, there)
    )
    assert torch.equal(edges_.cpu(), edges)
    numbers = (weight, *here.gradients(weight)), (weight_, *there.gradients(weight_))
    tolerance = {} if dtype == torch.float64 else {"rtol": 1e-4, "atol": 1e-4}
    for theirs, ours in zip(*numbers, strict=True):
        torch.testing.assert_close(ours.cpu(), theirs, **tolerance)


def test_weighted_products_give_the_same_bits_and_wait_once():
    case = Case(*BATCHES["wide"], dtype=torch.float32).to("cuda")
    results = []
    for _ in range(3):
        edges, weight = case.connect()
        results.append([edges, weight, *case.gradients(weight)])
    for result in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(result, results[0], strict=True))
    assert synchronisations(case.connect) == 1
    _, weight = case.connect()
    assert synchronisations(lambda: case.gradients(weight)) == 0


@pytest.mark.parametrize("graph", [0, 2])
def test_weighted_products_of_edges_that_leave_their_graph(graph):
    """One of them leaves a graph that keeps nothing."""
    here = Case()
    here.edge_index[:, 0] = torch.stack([(here.batch == graph).nonzero()[0, 0], torch.tensor(20)])
    there = here.to("cuda")
    (edges, weight), (edges_, weight_) = (case.connect() for case in (here, there))
    assert torch.equal(edges_.cpu(), edges)
    torch.testing.assert_close(weight_.cpu(), weight)
    for ours, theirs in zip(there.gradients(weight_), here.gradients(weight), strict=True):
        torch.testing.assert_close(ours.cpu(), theirs)


def test_assignment_connect_checks_on_the_device():
    case = Case().to("cuda")
    with pytest.raises(ValueError, match="'edge_index'"):
        assignment_connect(case.edge_index + 30, case.S)
    S = case.S
    stray = Assignment(S.node_index, S.num_nodes, S.cluster_index + 30, S.num_clusters)
    with pytest.raises(ValueError, match="cluster_index"):
        assignment_connect(case.edge_index, stray)
    with pytest.raises(ValueError, match="max_edges=3"):
        assignment_connect(case.edge_index, S, max_edges=3)
    assert assignment_connect(case.edge_index, S)[1].isfinite().all()


@pytest.mark.parametrize(("num_graphs", "nodes"), [(40, 20), (3, 3000), (1, 20000)])
@pytest.mark.parametrize("seed", range(4))
def test_cells_are_those_of_the_cpu(num_graphs, nodes, seed):
    x, edges, batch = graphs(seed, num_graphs, nodes)
    edges = edges[:, :: seed + 2]  # sparser: long paths and several components
    rank = torch.rand(x.size(0), generator=torch.Generator().manual_seed(seed)).bfloat16()
    found = []
    for device in ("cpu", "cuda"):
        graph = Graph.of(x.to(device), edges.to(device), None, batch.to(device))
        place = places(rank.to(device))
        perm, _ = topk_of_components(place, graph, KeepPlan.of(0.2, graph))
        found.append((place.cpu(), perm.cpu(), cells(graph, place, perm).cpu()))
    assert all(map(torch.equal, *found))


@pytest.mark.parametrize(("num_graphs", "nodes"), [(200, 20), (3, 3000)])
@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_independent_sets_and_matchings_are_those_of_the_cpu(num_graphs, nodes, k, seed):
    x, index, batch = graphs(seed, num_graphs, nodes)
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(x), generator=generator)
    edge_order = torch.randperm(index.size(1), generator=generator)
    found = []
    for device in ("cpu", "cuda", "cuda"):
        edges = Edges(index.to(device), len(x))
        sizes = Sizes.by_graph(batch.to(device), num_graphs)
        centre = independent_set(order.to(device), edges, k, sizes)
        matched = matching(edge_order.to(device), edges.entries, sizes)
        found.append((centre.cpu(), matched.cpu()))
    for there in found[1:]:
        assert all(map(torch.equal, there, found[0]))


def test_blocks_stay_on_the_device(tmp_path):
    _, edges, _ = (t.cuda() for t in graphs())
    perm = torch.arange(50, device="cuda")
    with pytest.raises(ValueError, match="'edge_index'"):
        cluster_connect_blocks(edges + 5, perm, 120)
    blocks = cluster_connect_blocks(edges, perm, 120, edges_per_block=300)
    assert len(blocks) > 3
    whole = cluster_connect(edges, perm, 120)
    assert torch.equal(torch.cat(list(blocks), dim=1), whole)
    assert torch.equal(blocks.save(tmp_path / "pooled.npy").long(), whole.cpu())


@every
def test_autocast(name):
    x, edges, batch = (t.cuda() for t in graphs())
    pool = make(name).float().cuda()
    x = x.float().requires_grad_()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        out = pool(x, edges, batch=batch)
    (out.x.float().sum() + out.loss).backward()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("given", ["one graph", "sorted", "shuffled"])
@pytest.mark.parametrize("name", ["lcpool", "lcpool*", "topk", "sag", "asap"])
def test_the_same_call_gives_the_same_bits(name, given, strict, monkeypatch):
    """With hubs, where atomics meet; also with the algorithms that torch calls deterministic."""
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # which these ask for
    x, edges, batch = graphs(num_graphs=40, nodes=100)
    if given == "one graph":
        edges[1, ::2] = edges[1, ::2] % 5
    if given == "shuffled":
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))
        there = torch.empty_like(order).index_copy(0, order, torch.arange(len(x)))
        x, batch, edges = x[order], batch[order], there[edges]
    x, edges, batch = x.float().cuda().requires_grad_(), edges.cuda(), batch.cuda()
    pool, results = fast(name).float().cuda(), []
    try:
        torch.use_deterministic_algorithms(strict)
        for _ in range(3):
            out = pool(x, edges, batch=None if given == "one graph" else batch)
            weights = [] if out.edge_attr is None else [out.edge_attr]
            loss = sum(values.square().sum() for values in (out.x, *weights))
            grads = torch.autograd.grad(loss, [x, *pool.parameters()])
            results.append([out.x, out.edge_index, out.score, out.lift(), *weights, *grads])
    finally:
        torch.use_deterministic_algorithms(False)
    for result in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(result, results[0], strict=True))


def fast(name):
    """The operator with the convolutions of this package: PyG's add in no order on a GPU."""
    pool = make(name)
    if name == "lcpool*":
        pool.cluster = FastGCNConv(8, 8)
    return pool


def test_plain_torch_gives_the_same_bits_too(monkeypatch):
    monkeypatch.setattr(kernels, "gpu_kernels", lambda: None)
    x, edges, batch = (t.cuda() for t in graphs(num_graphs=40, nodes=100))
    x, pool = x.float().requires_grad_(), make("lcpool").float().cuda()
    outs = [pool(x, edges, batch=batch).x for _ in range(3)]
    grads = [torch.autograd.grad(out.square().sum(), x)[0] for out in outs]
    for found in (outs, grads):
        assert all(torch.equal(other, found[0]) for other in found[1:])


@pytest.mark.parametrize("with_batch", [True, False])
def test_a_cuda_graph_captures_the_score_and_the_sums(with_batch):
    """Their shapes are those of the input: nothing is asked of the device."""
    x, edges, batch = (t.cuda() for t in graphs())
    torch.manual_seed(0)
    score, conv = LCSMP(8).double().cuda(), FastGCNConv(8, 8).double().cuda()
    graph = Graph.of(x, edges, None, batch if with_batch else None, 6 if with_batch else None)

    def step(x):
        y = conv(x, graph.edges)
        return score.gate(score.rank(y, graph), graph)

    static = x.clone().requires_grad_()

    def both(static):
        h = step(static)
        return h, torch.autograd.grad(h.square().sum(), static)[0]

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # kernels compile, and rows of edges are made, before
        for _ in range(3):
            both(static)
    torch.cuda.current_stream().wait_stream(stream)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        found = both(static)
    for seed in (1, 2):
        new = graphs(seed)[0].cuda()
        with torch.no_grad():
            static.copy_(new)
        captured.replay()
        expected = both(new.clone().requires_grad_())
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("with_batch", [True, False])
@pytest.mark.parametrize("name", ["lcpool", "topk", "sag", "asap"])
def test_compiles_on_a_gpu(name, with_batch):
    # The order of ASAP's sums follows what is known of the edges, and that is less where a call is
    # traced. LCPool's softmax and gate are kernels of their own where the sizes of the graphs are
    # not known beforehand.
    close = name == "asap" or (name == "lcpool" and with_batch)
    exact = {} if close else {"rtol": 0, "atol": 0}
    pool = make(name).cuda()
    torch._dynamo.reset()
    fast = torch.compile(pool, fullgraph=True, dynamic=True, backend="aot_eager")
    for seed, count in ((0, 6), (1, 9)):
        x, edges, batch = (t.cuda() for t in graphs(seed, num_graphs=count))
        options = {"batch": batch} if with_batch else {}
        for ours, eager in zip(fast(x, edges, **options), pool(x, edges, **options), strict=True):
            if ours is not eager:
                torch.testing.assert_close(ours, eager, **exact)
    with pytest.raises(ValueError, match="'edge_index'"):
        fast(x, edges + 1, **options)
    assert fast(x, edges, **options).x.isfinite().all()


def test_what_is_drawn_on_a_gpu_follows_the_seed_and_leaves_the_callers_numbers():
    device, drawn = torch.device("cuda"), []
    for global_seed in (1, 2):
        torch.manual_seed(global_seed)
        expected = torch.rand(3, device=device), torch.rand(3)
        torch.manual_seed(global_seed)
        with seeded(5, device):
            drawn.append(torch.rand(3, device=device))
        with seeded(5):  # of the CPU alone
            torch.rand(3)
        found = torch.rand(3, device=device), torch.rand(3)
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    assert torch.equal(*drawn)


@pytest.mark.parametrize("name", METRICS)
def test_metrics_are_those_of_the_cpu(name):
    generator = torch.Generator().manual_seed(0)
    plain = torch.randn(3, 50, 4, generator=generator).mul(2)
    # Scores of labels and values tie. Those of classes do not: a softmax of the same numbers in
    # another order rounds otherwise, on each device in its way.
    outputs = {"classes": plain, "labels": plain.round(), "values": plain.round()}
    targets = {
        "classes": torch.randint(4, (3, 50), generator=generator),
        "labels": (torch.rand(3, 50, 4, generator=generator) < 0.5).float(),
        "values": torch.randn(3, 50, 4, generator=generator),
    }
    for task in ("labels", "values"):
        targets[task][0, :9, 1] = torch.nan
    for task, measure in METRICS[name].measures.items():
        found = measure(outputs[task].cuda(), targets[task].cuda()).cpu()
        torch.testing.assert_close(found, measure(outputs[task], targets[task]))


@pytest.mark.parametrize("made", [with_labels, with_values])
def test_labels_and_values_train_on_a_gpu(made):
    graphs = made(60)
    result = train(graphs, "lcpool", runs=3, epochs=3, hidden=8, device="cuda")
    assert len(result.values()) == 3
    assert result.model.outputs(graphs).isfinite().all()
    assert result.runs[0].predictions["loss"].outputs.shape == (6, graphs.num_outputs)


def test_an_estimator_is_read_where_there_is_no_gpu():
    from lcpool import GraphClassifier

    graphs = builtin(num_graphs=40).to("cuda")
    fitted = GraphClassifier("lcpool", epochs=2, hidden=8, device="cuda").fit(graphs)
    here = fitted.predict_proba(graphs)
    read = pickle.loads(pickle.dumps(fitted)).set_params(device="cpu")
    assert not any(p.is_cuda for p in read.model_.network.parameters())
    assert next(fitted.model_.network.parameters()).is_cuda
    torch.testing.assert_close(torch.from_numpy(read.predict_proba(graphs)), torch.from_numpy(here))
