"""Every kernel is an operator that torch knows, and says the truth about itself."""

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.library import opcheck

from lcpool.graph.edges import Edges
from lcpool.ops import (  # noqa: F401 - they define operators
    cells,
    connect,
    contract,
    fused_lcpool,
    independent_set,
    matching,
    message,
    readout,
    topk,
)
from lcpool.ops.message import difference_sum, gcn_sum, neighbour_max, neighbour_sum

EDGES = Edges(torch.tensor([[0, 1, 1, 2, 2, 3, 3], [1, 0, 2, 1, 3, 2, 3]]), 4)
ROWS = EDGES.rows()
PTR = torch.tensor([0, 3, 3, 4])
COUNTS, KEPT = torch.tensor([3, 1]), torch.tensor([2, 1])


def features(*shape, grad=True):
    generator = torch.Generator().manual_seed(len(shape))
    return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_(grad)


def samples():
    """Arguments of each operator by its name."""
    x, z = features(4, 3), features(4, 3).detach().flip(0).requires_grad_()
    roots, plain = torch.rand(4, dtype=torch.float64), x.detach()
    h, out = torch.rand(4, dtype=torch.float64), torch.rand(3, 6, dtype=torch.float64)
    batch, perm = torch.tensor([0, 0, 0, 1]), torch.tensor([2, 0, 3])
    yield "aggregate", (x, *ROWS, None)
    yield "aggregate", (x, *ROWS, roots)
    yield "gcn_roots", ROWS[:2]
    yield "difference_sum", (z, x, *ROWS)
    yield "difference_sum_backward", (plain, z.detach(), plain, *ROWS)
    rows = EDGES.entries.both_ways(x)
    yield "weighted_sum", (x, features(7), *rows)
    yield "weighted_sum", (x, features(7), *rows._replace(entry=None))
    yield "entry_dot", (z, x, *rows)
    yield "neighbour_max", (x, *ROWS)
    yield "neighbour_max_backward", (plain, plain, plain, *ROWS[2:])
    yield "softmax", (features(4), PTR)
    yield "softmax_backward", (h, h, PTR)
    yield "readout", (x, PTR)
    yield "readout_backward", (out, plain, PTR, out, torch.ones(3, 3, dtype=torch.int32))
    yield "keep_counts", (0.5, COUNTS)
    yield "keep_counts", (2, COUNTS)
    yield "total", (KEPT,)
    yield "begins", (KEPT,)
    yield "topk", (h, COUNTS, torch.tensor([0, 3, 4]), torch.tensor([0, 2, 3]), 3)
    yield "gate", (x, features(4), perm)
    yield "gate_backward", (plain[:3], None, plain, h, perm)
    yield "gate_backward", (plain[:3], h[:3], plain, h, perm)
    yield "sorted_rows", (EDGES.index[1], EDGES.index[0], 4)
    parameters = [
        features(*shape) for shape in ((2, 3), (2,), (2, 2), (2,), (2, 3), (2,), (1, 2), (1,))
    ]
    graphs = (COUNTS, torch.tensor([0, 3, 4]), torch.tensor([0, 2, 3]))
    yield "lcsmp", (x, *parameters, *ROWS)
    products = torch.ops.lcpool.lcsmp(x.detach(), *(p.detach() for p in parameters), *ROWS)[1:]
    scored = [*products, x.detach(), *(p.detach() for p in parameters), *ROWS]
    yield "lcsmp_backward", (plain[:, 0].contiguous(), scored)
    yield "lcpool", (x, *parameters, *ROWS, *graphs, 3)
    values = [torch.rand(*shape, dtype=torch.float64) for shape in ((4, 3), (4, 4), (4, 2), (4, 2))]
    saved = [perm, batch[perm], torch.tensor([1, -1, 0, 2]), torch.tensor(1), h, *values]
    saved += [plain, *(parameter.detach() for parameter in parameters), *ROWS, *graphs]
    yield "lcpool_backward", (plain[:3], None, saved)
    yield "lcpool_backward", (plain[:3], h[:3], saved)
    yield "connect_clusters", (EDGES.index, [], 4, perm, batch, COUNTS, KEPT, True, 100, 3)
    yield (
        "connect_clusters",
        (EDGES.index, list(EDGES.rows()), 4, perm, batch, COUNTS, KEPT, False, 9, 2),
    )
    entries = (EDGES.index, torch.tensor([0, 1, 2, 3]), torch.tensor([0, 0, 1, 1]))
    sizes = ([], 4, 2)
    yield "connect_assignment", (*entries, features(7), features(4), *sizes, True, 100)
    graphs = ([batch, COUNTS, KEPT, torch.tensor([0, 2, 3])], 4, 3)
    yield "connect_assignment", (*entries, features(7), features(4), *graphs, False, 100)
    found, kept = torch.tensor([[0, 0, 1, 1], [0, 1, 0, 1]]), [torch.empty(0).long()] * 3
    values = (torch.rand(7, dtype=torch.float64), h)
    yield "connect_assignment_backward", (h, found, *kept, h[:0], *entries, *values, *sizes)
    place, whole = torch.tensor([2, 0, 3, 1]), (torch.tensor([4]), torch.tensor([0, 4]))
    yield "independent_set", (place, *ROWS[2:], 2, *whole)
    into, taken = EDGES.entries.into, torch.tensor([5, 0, 6, 2, 1, 4, 3])
    yield "matching", (taken, EDGES.index, into.ptr, into.entry, *whole)
    yield "matching", (taken, EDGES.index, into.ptr, None, *whole)
    yield "nearest_kept", (*ROWS[2:], place, torch.tensor([1, 3]), *whole)
    yield "best_of_components", (*ROWS[2:], place, *whole)
    yield "contract", (EDGES.index, torch.tensor([0, 1, 1, -1]), 2)
    yield "in_range", (EDGES.index, 4, "edge_index", "node")
    yield "graph_count", (batch,)
    yield "label_count", (batch,)
    yield "require", (perm, torch.tensor(True), "never")


SAMPLES = list(samples())


def test_every_operator_is_checked():
    names = {name for name in torch._C._dispatch_get_all_op_names() if name.startswith("lcpool::")}
    assert names == {f"lcpool::{name}" for name, _ in SAMPLES}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "arguments"), SAMPLES, ids=[name for name, _ in SAMPLES])
def test_operators_keep_their_promises(name, arguments):
    """The schema, the shapes, the registration of the gradient, and compiling with its gradient."""
    opcheck(getattr(torch.ops.lcpool, name).default, arguments)


SUMS = {
    "neighbour_sum": (neighbour_sum, 1),
    "gcn_sum": (gcn_sum, 1),
    "difference_sum": (difference_sum, 2),
    "neighbour_max": (neighbour_max, 1),
}


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("name", SUMS)
def test_gradients_of_sums(name):
    function, count = SUMS[name]
    inputs = [features(4, 1) + i for i in range(count)]
    assert torch.autograd.gradcheck(lambda *x: function(*x, EDGES), inputs)


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize(
    ("function", "shape"),
    [(readout.softmax, (4,)), (lambda *inputs: readout.mean_and_max(*inputs)[0], (4, 1))],
)
def test_gradients_over_graphs(function, shape):
    assert torch.autograd.gradcheck(lambda x: function(x, PTR), (features(*shape),))


def test_fake_tensors_are_not_computed_with():
    """Outside of a compiler, too: planning memory, say."""
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        x = mode.from_tensor(torch.randn(4, 3))
        assert gcn_sum(x, EDGES).shape == (4, 3)
