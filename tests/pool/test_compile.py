"""Poolings under ``torch.compile``; ``aot_eager`` traces both ways and needs no compiler."""

import pytest
import torch
from operators import make

pytestmark = pytest.mark.slow
BATCHES = ["one graph", "batch", "batch_size"]


@pytest.fixture(autouse=True)
def once():
    """Whatever needs a second compilation raises."""
    torch._dynamo.reset()
    with torch._dynamo.config.patch(error_on_recompile=True):
        yield
    torch._dynamo.reset()


def compiled(pool):
    return torch.compile(pool, fullgraph=True, dynamic=True, backend="aot_eager")


def graphs(seed, sizes, given="batch_size"):
    """Arguments of a pooling: features, edges, and what is said of the batch."""
    generator = torch.Generator().manual_seed(seed)
    batch = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    total = batch.numel()
    edges = torch.randint(0, total, (2, 4 * total), generator=generator)
    edges = edges[:, batch[edges[0]] == batch[edges[1]]]
    x = torch.randn(total, 8, generator=generator, dtype=torch.float64, requires_grad=True)
    options = {"batch": batch, "batch_size": len(sizes)}
    return (x, edges), dict(list(options.items())[: BATCHES.index(given)])


def results(pool, arguments, options):
    out = pool(*arguments, **options)
    grads = torch.autograd.grad(out.x.square().sum(), [arguments[0], *pool.parameters()])
    return [*(item for item in out if item is not None), out.lift(), *grads]


@pytest.mark.parametrize(
    ("name", "given"),
    [*(("lcpool", given) for given in BATCHES), ("lcpool*", "batch"), ("topk", "one graph"),
     ("sag", "batch"), ("asap", "batch"), ("diff", "batch_size"), ("kmis", "batch"),
     ("edge", "batch"), ("cell", "batch")],
)  # fmt: skip
def test_compiles_once_for_graphs_of_all_sizes(name, given):
    pool = make(name)
    fast = compiled(pool)
    for seed, sizes in enumerate([(7, 5, 9), (12, 3), (4, 8, 6, 11)]):
        arguments, options = graphs(seed, sizes, given)
        ours, eager = (results(p, arguments, options) for p in (fast, pool))
        torch.testing.assert_close(ours, eager, rtol=1e-12, atol=1e-12)
    (x, edges), options = graphs(0, (7, 5, 9), given)
    with pytest.raises(ValueError, match="NaN"):
        fast((x * torch.nan).detach().requires_grad_(), edges, **options)


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # which torch looks at itself
@pytest.mark.parametrize(("name", "given"), [("lcpool", "batch"), ("sag", "one graph")])
def test_compiles_as_people_call_it(name, given):
    """By ``torch.compile(pool)``: graphs may break, but nothing else does."""
    pool = make(name)
    with torch._dynamo.config.patch(error_on_recompile=False):
        fast = torch.compile(pool, backend="aot_eager")
        for seed, sizes in enumerate([(7, 5, 9), (12, 3)]):
            arguments, options = graphs(seed, sizes, given)
            ours, eager = (results(p, arguments, options) for p in (fast, pool))
            torch.testing.assert_close(ours, eager, rtol=1e-12, atol=1e-12)


def test_compiles_for_one_size():
    pool = make("lcpool")
    arguments, options = graphs(0, (7, 5, 9), "one graph")
    fast = torch.compile(pool, fullgraph=True, dynamic=False, backend="aot_eager")
    ours, eager = (results(p, arguments, options) for p in (fast, pool))
    torch.testing.assert_close(ours, eager, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("backend", ["torch"], indirect=True)
def test_compiles_without_kernels(backend):
    pool = make("lcpool")
    arguments, options = graphs(0, (7, 5, 9))
    ours, eager = (results(p, arguments, options) for p in (compiled(pool), pool))
    torch.testing.assert_close(ours, eager, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("backend", "name"),
    [*(("numba", name) for name in ("asap", "kmis", "edge", "cell")), ("torch", "asap")],
    indirect=["backend"],
)
def test_weights_and_their_gradients_compile_too(backend, name):
    """Also without a kernel, where autograd adds in another order."""
    pool = make(name)
    fast = compiled(pool)
    for seed, sizes in enumerate([(7, 5, 9), (12, 3), (4, 8, 6, 11)]):
        (x, edges), options = graphs(seed, sizes, "batch")
        weight = torch.rand(edges.size(1), dtype=torch.float64, requires_grad=True)
        found = []
        for p in (fast, pool):
            out = p(x, edges, weight, **options)
            found.append(
                torch.autograd.grad((out.edge_attr.cos().sum() + out.x.sum()), [x, weight])
            )
        for ours, eager in zip(*found, strict=True):
            torch.testing.assert_close(ours, eager)


def test_bad_input_raises_when_compiled_too():
    pool = compiled(make("lcpool", max_edges=99))
    (x, edges), options = graphs(0, (7, 5, 9), "batch")
    x, batch = x.detach(), options["batch"]
    assert pool(x, edges, batch=batch).x.isfinite().all()
    with pytest.raises(ValueError, match="'edge_index'"):
        pool(x, edges + 1, batch=batch)
    with pytest.raises(ValueError, match="batch"):
        pool(x, edges, batch=batch - 1)
    with pytest.raises(ValueError, match="NaN"):
        pool(x * torch.nan, edges, batch=batch)
    complete = torch.cartesian_prod(torch.arange(21), torch.arange(21)).t().contiguous()
    with pytest.raises(ValueError, match=r"121 .*max_edges=99"):
        pool(x, complete, batch=batch * 0)
    assert pool(x, edges, batch=batch).x.isfinite().all()


@pytest.mark.filterwarnings("ignore:LCPooling")
def test_compiles_where_it_would_warn():
    pool = make("lcpool").float()
    (x, edges), options = graphs(0, (7, 5, 9), "batch")
    attr = torch.rand(edges.size(1))
    found, expected = (
        p(x.detach().float(), edges, attr, **options) for p in (compiled(pool), pool)
    )
    torch.testing.assert_close(found.x, expected.x)
    assert found.edge_attr is None
