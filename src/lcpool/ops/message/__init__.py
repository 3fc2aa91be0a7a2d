"""Sums over neighbours that never store a message.

A convolution or a score sums something over the edges into each node. In plain torch every summand
is written to memory, as wide as the features and as long as the edges, read again to be added, and
kept for the gradient. The kernels walk over each node's neighbours and keep the sum in registers:
memory is O(nodes × width) both ways, and sums are made in the order of the edges, so that the same
input gives the same bits.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lcpool.graph.edges import Edges
from lcpool.ops.kernels import kernels
from lcpool.ops.message import plain
from lcpool.ops.operator import operator


def neighbour_sum(x: Tensor, edges: Edges) -> Tensor:
    """Aᵀ X: the sum of x_k over the edges (k, i) into each node i."""
    out: Tensor = aggregate(x, *both_ways(edges, x), None)
    return out


def gcn_sum(x: Tensor, edges: Edges) -> Tensor:
    """D^(-1/2) (A + I) D^(-1/2) X, where self-loops of A give way to I and D counts edges into."""
    roots = gcn_roots(edges.into.ptr, edges.into.node)
    out: Tensor = aggregate(x, *both_ways(edges, x), roots)
    return out


def difference_sum(z: Tensor, y: Tensor, edges: Edges) -> Tensor:
    """Σ_{k ∈ N(i)} relu(z_i − y_k) for each node i, N(i) being the sources of edges into i."""
    out: Tensor = sum_of_differences(z, y.to(z.dtype), *both_ways(edges, z, y))
    return out


Ways = tuple[Tensor, Tensor, Tensor | None, Tensor | None]


def both_ways(edges: Edges, *inputs: Tensor) -> Ways:
    """The rows of edges into each node, and of those out of it if there will be a gradient."""
    into = edges.into
    if not torch.is_grad_enabled() or not any(x.requires_grad for x in inputs):
        return into.ptr, into.node, None, None
    return into.ptr, into.node, edges.out.ptr, edges.out.node


class GCNRoots:
    """(1 + number of neighbours but itself)^(-1/2) of each node."""

    @staticmethod
    def forward(ptr: Tensor, node: Tensor) -> Tensor:
        """In double."""
        return kernels(ptr).gcn_roots(ptr, node)

    @staticmethod
    def fake(ptr: Tensor, node: Tensor) -> Tensor:
        return ptr.new_empty(ptr.numel() - 1, dtype=torch.float64)


class Aggregate:
    """The sum over neighbours; the gradient is the sum over neighbours the other way."""

    @staticmethod
    def forward(
        x: Tensor,
        ptr: Tensor,
        node: Tensor,
        out_ptr: Tensor | None,
        out_node: Tensor | None,
        roots: Tensor | None,
    ) -> Tensor:
        """Sum over the edges into each node."""
        return kernels(x).aggregate(x.contiguous(), ptr, node, roots)

    @staticmethod
    def fake(x: Tensor, *_: Tensor | None) -> Tensor:
        return x.new_empty(x.shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Sum over the edges out of each node."""
        ptr, node, out_ptr, out_node, roots = ctx.saved_tensors
        return aggregate(grad, out_ptr, out_node, ptr, node, roots), None, None, None, None, None


class SumOfDifferences:
    """Σ relu(z_i − y_k) with the signs of the differences found again on the way back."""

    @staticmethod
    def forward(
        z: Tensor,
        y: Tensor,
        ptr: Tensor,
        node: Tensor,
        out_ptr: Tensor | None,
        out_node: Tensor | None,
    ) -> Tensor:
        """Sum over the edges into each node."""
        return kernels(y).difference_sum(z.contiguous(), y.contiguous(), ptr, node)

    @staticmethod
    def fake(z: Tensor, *_: Tensor | None) -> Tensor:
        return z.new_empty(z.shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Where z_i > y_k, the gradient of i flows to z_i and, negative, to y_k."""
        again = torch.is_grad_enabled()  # The gradient's own gradient is asked for.
        spread = plain.difference_sum_backward if again else spread_differences
        return *spread(grad, *ctx.saved_tensors), None, None, None, None


class SpreadDifferences:
    """The gradient of :class:`SumOfDifferences`."""

    @staticmethod
    def forward(grad: Tensor, z: Tensor, y: Tensor, *rows: Tensor) -> tuple[Tensor, Tensor]:
        """By edges into each node for z, out of it for y."""
        inputs = (values.contiguous() for values in (grad, z, y))
        return kernels(y).difference_sum_backward(*inputs, *rows)

    @staticmethod
    def fake(grad: Tensor, z: Tensor, y: Tensor, *rows: Tensor) -> tuple[Tensor, Tensor]:
        return z.new_empty(z.shape), y.new_empty(y.shape)


ROWS = "Tensor ptr, Tensor node, Tensor? out_ptr, Tensor? out_node"
gcn_roots = operator("gcn_roots(Tensor ptr, Tensor node) -> Tensor", GCNRoots)
aggregate = operator(f"aggregate(Tensor x, {ROWS}, Tensor? roots) -> Tensor", Aggregate)
sum_of_differences = operator(
    f"difference_sum(Tensor z, Tensor y, {ROWS}) -> Tensor", SumOfDifferences
)
spread_differences = operator(
    f"difference_sum_backward(Tensor grad, Tensor z, Tensor y, {ROWS}) -> (Tensor, Tensor)",
    SpreadDifferences,
)
