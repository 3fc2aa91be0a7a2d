import math

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lcpool.ops.kernels import kernels
from lcpool.ops.topk import gate

each = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
pytestmark = pytest.mark.usefixtures("backend")
VALUES = (0.0, -0.0, 1.0, -1.0, 1e-40, -1e-40, math.inf, -math.inf, math.nan, 0.5)


@each
@given(
    graphs=st.lists(st.lists(st.sampled_from(VALUES), max_size=70), min_size=1, max_size=5),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_the_best_of_each_graph_as_torch_sorts(graphs, dtype):
    """Falling, NaN first, both zeros the same, ties to the lower index."""
    ranks = [torch.tensor(values, dtype=dtype) for values in graphs]
    counts = torch.tensor([len(values) for values in graphs])
    ptr, kept = (torch.cat([counts.new_zeros(1), c.cumsum(0)]) for c in (counts, (counts + 1) // 2))
    perm, batch = kernels(ptr).topk(torch.cat(ranks), counts, ptr, kept, int(kept[-1]))
    best = [rank.argsort(descending=True, stable=True)[: (len(rank) + 1) // 2] for rank in ranks]
    assert (
        perm.tolist()
        == torch.cat([start + b for start, b in zip(ptr, best, strict=False)]).tolist()
    )
    assert batch.tolist() == [g for g, b in enumerate(best) for _ in b]


def test_graphs_of_many_nodes():
    """More than are compared one by one."""
    rank = torch.randn(40_000, generator=torch.manual_seed(0)).round(decimals=2)
    sizes = torch.tensor([20_000, 20_000])
    ptr, kept = torch.tensor([0, 20_000, 40_000]), torch.tensor([0, 3, 4])
    perm, _ = kernels(ptr).topk(rank, sizes, ptr, kept, 4)
    first, second = (part.argsort(descending=True, stable=True) for part in rank.split(20_000))
    assert perm.tolist() == [*first[:3].tolist(), 20_000 + int(second[0])]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("scored", [True, False])
def test_gate_and_its_gradients(dtype, scored):
    generator, perm = torch.manual_seed(0), torch.tensor([3, 1, 7])
    x = torch.randn(9, 5, generator=generator).to(dtype).requires_grad_()
    h = torch.rand(9, generator=generator).to(dtype).requires_grad_()
    grads = [torch.randn(3, 5).to(dtype), torch.randn(3).to(dtype)]
    expected = (x[perm] * h[perm].unsqueeze(-1), h[perm])
    outputs = gate(x, h, perm)
    torch.testing.assert_close(outputs, expected)
    found = [
        torch.autograd.grad(out[: 1 + scored], (x, h), grads[: 1 + scored])
        for out in (outputs, expected)
    ]
    torch.testing.assert_close(*found)


def test_the_gradients_gradient_of_the_gate():
    x, h = torch.randn(4, 2, dtype=torch.float64), torch.rand(4, dtype=torch.float64)
    inputs, perm = (x.requires_grad_(), h.requires_grad_()), torch.tensor([2, 0])
    assert torch.autograd.gradgradcheck(lambda x, h: gate(x, h, perm), inputs)
