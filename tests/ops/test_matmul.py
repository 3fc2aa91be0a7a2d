"""Products of matrices against double precision, and their bits against those of parts."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lcpool.ops.backends import plain
from lcpool.ops.matmul import Product, matmul, matmul_each

pytest.importorskip("numba", reason="numba is not installed")

from lcpool.ops.backends import cpu
from lcpool.ops.matmul.cpu import COLUMNS, DEPTH

SIZES = st.integers(0, 40)


@pytest.fixture(autouse=True)
def on_any_cpu(monkeypatch):
    """The kernel is right on every CPU, though it is used where it is faster."""
    monkeypatch.setattr("lcpool.ops.matmul.cpu.is_faster", lambda: True)


def draw(*shape, turned=False):
    values = torch.randn(*shape[::-1]).t() if turned else torch.randn(*shape)
    return values.requires_grad_()


@given(
    rows=SIZES, depth=SIZES | st.sampled_from([DEPTH, 2 * DEPTH + 3]), tiles=st.integers(1, 3),
    turned=st.tuples(st.booleans(), st.booleans()), begin=st.sampled_from(["", "row", "out"]),
)  # fmt: skip
@pytest.mark.parametrize("kernels", [cpu, plain])
def test_products_are_those_of_double_precision(kernels, rows, depth, tiles, turned, begin):
    columns = COLUMNS * tiles
    A, B = draw(rows, depth, turned=turned[0]), draw(depth, columns, turned=turned[1])
    out, row = torch.randn(rows, columns), torch.randn(columns)
    plus = {"": None, "row": row, "out": out}[begin]
    expected = A.double() @ B.double() + (0 if plus is None else plus.double())
    with torch.no_grad():
        got = kernels.matmul(A, B, out, plus)
    assert got is out
    torch.testing.assert_close(got.double(), expected.detach(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(64, 50, 3), (3, 50, 3), (50, 3, 64)])
@torch.no_grad()
def test_narrow_products(shape):
    rows, depth, columns = shape
    A, B = draw(depth, rows).t(), draw(depth, columns)
    torch.testing.assert_close(matmul(A, B), A @ B, rtol=1e-4, atol=1e-4)
    out = torch.empty(rows, columns)
    assert matmul(A, B, out) is out
    torch.testing.assert_close(out, A @ B, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("threads", [1, 2])
@torch.no_grad()
def test_a_row_has_the_same_bits_wherever_it_stands(threads):
    """Also where two threads share the rows, and where numbers are not aligned in memory."""
    A, B = draw(3000, 64), draw(64, 128)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        whole = matmul(A, B)
        for first, last in ((0, 1), (1, 2), (5, 700), (2999, 3000)):
            assert torch.equal(matmul(A[first:last], B), whole[first:last])
        shifted = torch.empty(A.numel() + 1)[1:].view_as(A).copy_(A)
        assert torch.equal(matmul(shifted, B), whole)
        gradient = matmul(whole.t(), A)
        assert torch.equal(gradient, matmul(whole.t(), shifted))
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shapes", [[(5, 9, 32), (0, 9, 32), (700, 9, 32)], [(64, 9, 3)] * 3])
@torch.no_grad()
def test_several_products_have_the_bits_of_each(threads, shapes):
    given = [(draw(rows, depth), draw(columns, depth).t()) for rows, depth, columns in shapes]
    products = [
        Product(A, B, torch.empty(len(A), B.size(1)), plus)
        for (A, B), plus in zip(given, (None, torch.randn(shapes[0][2]), None), strict=True)
    ]
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        matmul_each(products)
        for A, B, out, plus in products:
            assert torch.equal(out, matmul(A, B, plus=plus))
    finally:
        torch.set_num_threads(before)


@torch.no_grad()
def test_other_types_and_shapes_are_torchs():
    A, B = draw(5, 4).double(), draw(4, 32).double()
    assert torch.equal(matmul(A, B), A @ B)
    with pytest.raises(RuntimeError):
        matmul(torch.ones(5, 3), torch.ones(4, 32))
    with pytest.raises(RuntimeError):
        matmul(torch.ones(5, 4), torch.ones(4, 32).double())


@torch.no_grad()
def test_infinite_numbers_stay():
    A, B = torch.tensor([[float("inf"), 1.0], [float("nan"), 0.0]]), torch.ones(2, 32)
    assert matmul(A, B)[0].isinf().all()
    assert matmul(A, B)[1].isnan().all()
