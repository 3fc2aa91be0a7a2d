"""Products of float32 matrices in AVX-512, for CPUs to which MKL gives none.

MKL, by which torch multiplies, gives AMD's CPUs its code for AVX2, which is half as fast as theirs
can be. The kernel here computes ``ROWS`` × ``COLUMNS`` numbers of the result at a time, which stay
in registers along the sum. So each number is one chain of fused multiply-adds in one order,
whatever stands beside it. Loops do not bring numba to that, so the innermost part is written in
LLVM's own instructions.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import llvmlite.binding
import numpy as np
import torch
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from torch import Tensor

from lcpool.ops.matmul import plain
from lcpool.ops.threads import compiled, in_parts

if TYPE_CHECKING:
    from lcpool.ops.matmul import Product

__all__ = ["matmul", "matmul_each"]

# 16 registers hold sums, 2 a part of a row of B, and 8 numbers of A: AVX-512 has 32.
LANES, VECTORS, ROWS = 16, 2, 8
COLUMNS = LANES * VECTORS
DEPTH = 256  # of a block of the sum, whose part of B stays in the cache
PER_THREAD = 2**21  # multiplications from which on a second thread pays


@cache
def is_faster() -> bool:
    """Whether this CPU has AVX-512, and MKL does not use it."""
    name, features = llvmlite.binding.get_host_cpu_name(), llvmlite.binding.get_host_cpu_features()
    return name.startswith("znver") and bool(features.get("avx512f"))


def matmul(A: Tensor, B: Tensor, out: Tensor | None, plus: Tensor | None) -> Tensor:
    # Whatever the number of rows, for a run's result must not depend on the other runs.
    if is_tiled(A, B):
        return multiply(A, B, out, plus)
    if plus is None and is_tiled(B.t(), A.t()):  # the gradient of a weight of narrow features
        turned = multiply(B.t(), A.t(), None, None).t()
        return turned if out is None else out.copy_(turned)
    return plain.matmul(A, B, out, plus)


def matmul_each(products: Sequence[Product]) -> None:
    A, B, *_ = products[0]
    if len(products) < torch.get_num_threads() or not is_tiled(A, B):
        for product in products:
            matmul(*product)
        return
    # A thread computes whole products: for less than one of them, to wake another hardly pays.
    given = [product._replace(B=by_rows(product.B)) for product in products]
    table = np.array([numbers(*product) for product in given])
    work = sum(product.out.numel() * product.A.size(1) for product in given)
    in_parts(multiply_products, len(given), work, PER_THREAD, table)


def is_tiled(A: Tensor, B: Tensor) -> bool:
    """Whether the kernel computes A B; what does not fit together torch refuses."""
    floats, fit = A.dtype == B.dtype == torch.float32, A.size(1) == B.size(0)
    return floats and fit and B.size(1) % COLUMNS == 0 and is_faster()


def multiply(A: Tensor, B: Tensor, out: Tensor | None, plus: Tensor | None) -> Tensor:
    """The product of float32 matrices; B has whole tiles of ``COLUMNS``."""
    out = A.new_empty(A.size(0), B.size(1)) if out is None else out
    B, groups, work = by_rows(B), -(-A.size(0) // ROWS), out.numel() * A.size(1)
    in_parts(multiply_rows, groups, work, PER_THREAD, *numbers(A, B, out, plus))
    return out


def by_rows(B: Tensor) -> Tensor:
    """The same matrix, the numbers of a row side by side."""
    return B if B.stride(1) == 1 else B.contiguous()


def numbers(A: Tensor, B: Tensor, out: Tensor, plus: Tensor | None) -> tuple[int, ...]:
    """What :func:`multiply_rows` takes: addresses, steps and sizes."""
    begin = (0, 0)
    if plus is not None:
        begin = (plus.data_ptr(), plus.stride(0) if plus.dim() == 2 else 0)
    return (
        A.data_ptr(), *A.stride(), B.data_ptr(), B.stride(0), out.data_ptr(), out.stride(0), *begin,
        *out.shape, A.size(1),
    )  # fmt: skip


def tile(rows: int) -> Any:
    """``rows`` × ``COLUMNS`` numbers of C = c + A B, in registers along the sum.

    All arguments are integers: addresses, steps in numbers, and the length of the sum; c is zero
    where its address is.
    """
    float32, lanes = ir.FloatType(), ir.VectorType(ir.FloatType(), LANES)
    places = [(r, v) for r in range(rows) for v in range(VECTORS)]

    def generate(builder: ir.IRBuilder, args: list[ir.Value]) -> None:
        A, a_row, a_step, B, b_step, C, c_row, begin, begin_row, depth = args
        integer = depth.type
        four = integer(4)

        def address(base: ir.Value, *steps: ir.Value) -> ir.Value:
            for step in steps:
                base = builder.add(base, builder.mul(step, four))
            return base

        def load(kind: ir.Type, base: ir.Value, place: int = 0) -> ir.Value:
            pointer = builder.inttoptr(address(base, integer(place)), kind.as_pointer())
            return builder.load(pointer, align=4)

        def rows_of(base: ir.Value, step: ir.Value) -> list[ir.Value]:
            return [address(base, builder.mul(integer(r), step)) for r in range(rows)]

        zero = ir.Constant(lanes, [0.0] * LANES)
        of_A, of_C = rows_of(A, a_row), rows_of(C, c_row)
        with builder.if_else(builder.icmp_signed("!=", begin, integer(0))) as (given, otherwise):
            with given:
                of_begin = rows_of(begin, begin_row)
                loaded = [load(lanes, of_begin[r], v * LANES) for r, v in places]
                after_given = builder.block
            with otherwise:
                after_otherwise = builder.block
        first = []
        for value in loaded:
            joined = builder.phi(lanes)
            joined.add_incoming(value, after_given)
            joined.add_incoming(zero, after_otherwise)
            first.append(joined)

        before = builder.block
        loop, done = builder.append_basic_block("sum"), builder.append_basic_block("done")
        builder.cbranch(builder.icmp_signed(">", depth, integer(0)), loop, done)
        builder.position_at_end(loop)
        k, sums = builder.phi(integer), [builder.phi(lanes) for _ in places]
        row_of_B = address(B, builder.mul(k, b_step))
        b = [load(lanes, row_of_B, v * LANES) for v in range(VECTORS)]
        none = ir.Constant(lanes, ir.Undefined)
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        a = []
        for base in of_A:
            number = load(float32, address(base, builder.mul(k, a_step)))
            alone = builder.insert_element(none, number, ir.IntType(32)(0))
            a.append(builder.shuffle_vector(alone, none, everywhere))
        add = builder.module.declare_intrinsic(
            f"llvm.fma.v{LANES}f32", fnty=ir.FunctionType(lanes, [lanes] * 3)
        )
        added = [builder.call(add, (a[r], b[v], s)) for (r, v), s in zip(places, sums, strict=True)]
        following = builder.add(k, integer(1))
        k.add_incoming(integer(0), before)
        k.add_incoming(following, loop)
        for total, start, result in zip(sums, first, added, strict=True):
            total.add_incoming(start, before)
            total.add_incoming(result, loop)
        builder.cbranch(builder.icmp_signed("<", following, depth), loop, done)

        builder.position_at_end(done)
        results = [builder.phi(lanes) for _ in places]
        for result, start, value in zip(results, first, added, strict=True):
            result.add_incoming(start, before)
            result.add_incoming(value, loop)
        for (r, v), result in zip(places, results, strict=True):
            to = address(of_C[r], integer(v * LANES))
            builder.store(result, builder.inttoptr(to, lanes.as_pointer()), align=4)

    @intrinsic
    def compute(typing, A, a_row, a_step, B, b_step, C, c_row, begin, begin_row, depth):
        def code(context, builder, signature, args):
            generate(builder, args)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 10), code

    return compute


whole, single = tile(ROWS), tile(1)


@compiled
def multiply_rows(
    start, stop, A, a_row, a_step, B, b_step, C, c_row, begin, begin_row, rows, columns, depth
):  # fmt: skip
    """Some groups of ``ROWS`` rows of C = c + A B; addresses in bytes, steps in numbers."""
    last = min(stop * ROWS, rows)
    for k in range(0, max(depth, 1), DEPTH):
        length = min(DEPTH, depth - k)
        if k > 0:
            begin, begin_row = C, c_row
        for column in range(0, columns, COLUMNS):
            b = B + 4 * (k * b_step + column)
            i = start * ROWS
            while i < last:
                a, c = A + 4 * (i * a_row + k * a_step), C + 4 * (i * c_row + column)
                at = begin + 4 * (i * begin_row + column) if begin else begin
                if last - i >= ROWS:
                    whole(a, a_row, a_step, b, b_step, c, c_row, at, begin_row, length)
                    i += ROWS
                else:
                    single(a, a_row, a_step, b, b_step, c, c_row, at, begin_row, length)
                    i += 1


@compiled
def multiply_products(start, stop, table):
    """Some whole products, each a row of ``table``."""
    for p in range(start, stop):
        A, a_row, a_step, B, b_step, C, c_row, begin, begin_row, rows, columns, depth = table[p]
        multiply_rows(
            0, -(-rows // ROWS), A, a_row, a_step, B, b_step, C, c_row, begin, begin_row, rows,
            columns, depth,
        )  # fmt: skip
