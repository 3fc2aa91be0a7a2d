"""Sums over neighbours that never store a message.

A convolution or a score sums something over the edges into each node. In plain torch every summand
is written to memory, as wide as the features and as long as the edges, read again to be added, and
kept for the gradient. The kernels walk over each node's neighbours and keep the sum in registers:
memory is O(nodes × width) both ways, and sums are made in the order of the edges, so that the same
input gives the same bits.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from lcpool.ops.edges import Edges
from lcpool.ops.kernels import kernels
from lcpool.ops.precision import wide


def neighbour_sum(x: Tensor, edges: Edges) -> Tensor:
    """Aᵀ X: the sum of x_k over the edges (k, i) into each node i."""
    compiled = kernels(x)
    if compiled is not None:
        out: Tensor = Aggregate.apply(x, edges, None, compiled)  # type: ignore[no-untyped-call]
        return out
    source, target = edges.index
    rows = wide(x.index_select(0, source))
    return torch.zeros_like(x, dtype=rows.dtype).index_add(0, target, rows).to(x.dtype)


def gcn_sum(x: Tensor, edges: Edges) -> Tensor:
    """D^(-1/2) (A + I) D^(-1/2) X, where self-loops of A give way to I and D counts edges into."""
    compiled = kernels(x)
    if compiled is not None:
        roots = compiled.gcn_roots(edges.into.ptr, edges.into.node)
        out: Tensor = Aggregate.apply(x, edges, roots, compiled)  # type: ignore[no-untyped-call]
        return out
    source, target = edges.index
    weight = wide((source != target).to(x.dtype))
    root = weight.new_ones(x.size(0)).index_add(0, target, weight).rsqrt().unsqueeze(-1)
    scaled = root * x
    rows = scaled.index_select(0, source) * weight.unsqueeze(-1)
    return (root * scaled.index_add(0, target, rows)).to(x.dtype)


def difference_sum(z: Tensor, y: Tensor, edges: Edges) -> Tensor:
    """Σ_{k ∈ N(i)} relu(z_i − y_k) for each node i, N(i) being the sources of edges into i."""
    compiled = kernels(y)
    if compiled is not None and z.dtype == y.dtype:
        z, y = z.contiguous(), y.contiguous()
        out: Tensor = DifferenceSum.apply(z, y, edges, compiled)  # type: ignore[no-untyped-call]
        return out
    return plain_difference_sum(z, y, edges)


def plain_difference_sum(z: Tensor, y: Tensor, edges: Edges) -> Tensor:
    """:func:`difference_sum` edge by edge."""
    source, target = edges.index
    message = wide((z.index_select(0, target) - y.index_select(0, source)).relu_())
    return torch.zeros_like(y, dtype=message.dtype).index_add_(0, target, message).to(y.dtype)


class Aggregate(torch.autograd.Function):
    """The sum over neighbours; the gradient is the sum over neighbours the other way."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, edges: Edges, roots: Tensor | None, compiled: ModuleType
    ) -> Tensor:
        """Sum over the edges into each node."""
        ctx.edges, ctx.roots, ctx.compiled = edges, roots, compiled
        out: Tensor = compiled.aggregate(x.contiguous(), edges.into.ptr, edges.into.node, roots)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        """Sum over the edges out of each node."""
        edges = ctx.edges.reversed
        out: Tensor = Aggregate.apply(grad, edges, ctx.roots, ctx.compiled)  # type: ignore[no-untyped-call]
        return out, None, None, None


class DifferenceSum(torch.autograd.Function):
    """Σ relu(z_i − y_k) with the signs of the differences found again on the way back."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, y: Tensor, edges: Edges, compiled: ModuleType) -> Tensor:
        """Sum over the edges into each node."""
        ctx.save_for_backward(z, y)
        ctx.edges, ctx.compiled = edges, compiled
        out: Tensor = compiled.difference_sum(z, y, edges.into.ptr, edges.into.node)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        """Where z_i > y_k, the gradient of i flows to z_i and, negative, to y_k."""
        (z, y), edges = ctx.saved_tensors, ctx.edges
        if torch.is_grad_enabled():  # The gradient's own gradient is asked for.
            wanted = [v for v, w in zip((z, y), ctx.needs_input_grad, strict=False) if w]
            total = plain_difference_sum(z, y, edges)
            found = iter(torch.autograd.grad(total, wanted, grad, create_graph=True))
            grad_z, grad_y = (next(found) if w else None for w in ctx.needs_input_grad[:2])
            return grad_z, grad_y, None, None
        into, out = edges.into, edges.out
        grad_z, grad_y = ctx.compiled.difference_sum_backward(
            grad.contiguous(), z, y, into.ptr, into.node, out.ptr, out.node
        )
        return grad_z, grad_y, None, None
