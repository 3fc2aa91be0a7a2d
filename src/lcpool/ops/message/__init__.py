"""Sums over neighbours that never store a message.

A convolution or a score sums something over the edges into each node. In plain torch every summand
is written to memory, as wide as the features and as long as the edges, read again to be added, and
kept for the gradient. The kernels walk over each node's neighbours and keep the sum in registers:
memory is O(nodes × width) in both passes. Sums are made in the order of the edges, so that the same
input gives the same bits.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lcpool.graph.edges import BOTH_WAYS, BothWays, Edges
from lcpool.ops.kernels import kernels
from lcpool.ops.message import plain
from lcpool.ops.operator import as_operator, gradient_operator, operator


def neighbour_sum(x: Tensor, edges: Edges) -> Tensor:
    """AᵀX: the sum of x_k over the edges (k, i) into each node i."""
    out: Tensor = aggregate(x, *edges.both_ways(x), None)
    return out


def gcn_sum(x: Tensor, edges: Edges) -> Tensor:
    """D^(-1/2) (A + I) D^(-1/2) X, where I replaces the self-loops of A; D counts edges into."""
    roots = gcn_roots(edges.into.ptr, edges.into.node)
    out: Tensor = aggregate(x, *edges.both_ways(x), roots)
    return out


def difference_sum(z: Tensor, y: Tensor, edges: Edges) -> Tensor:
    """Σ_{k ∈ N(i)} relu(z_i − y_k) for each node i; N(i) are the sources of edges into i."""
    out: Tensor = sum_of_differences(z, y.to(z.dtype), *edges.both_ways(z, y))
    return out


@as_operator(
    "gcn_roots(Tensor ptr, Tensor node) -> Tensor",
    lambda ptr, node: ptr.new_empty(ptr.numel() - 1, dtype=torch.float64),
)
def gcn_roots(ptr: Tensor, node: Tensor) -> Tensor:
    """(1 + number of neighbours other than itself)^(-1/2) of each node, in double."""
    return kernels(ptr).gcn_roots(ptr, node)


class Aggregate:
    """The sum over the edges into each node; its gradient is the sum over the edges out of it."""

    @staticmethod
    def forward(
        x: Tensor, ptr: Tensor, node: Tensor, out_ptr: Tensor | None, out_node: Tensor | None,
        roots: Tensor | None,
    ) -> Tensor:  # fmt: skip
        return kernels(x).aggregate(x.contiguous(), ptr, node, roots)

    @staticmethod
    def fake(x: Tensor, *_: Tensor | None) -> Tensor:
        return x.new_empty(x.shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *rows, roots = ctx.saved_tensors
        return aggregate(grad, *BothWays(*rows).reversed, roots), *(None,) * 5


class SumOfDifferences:
    """Σ relu(z_i − y_k); the backward pass computes the signs of the differences again."""

    @staticmethod
    def forward(
        z: Tensor, y: Tensor, ptr: Tensor, node: Tensor, *out: Tensor | None
    ) -> Tensor:  # fmt: skip
        return kernels(y).difference_sum(z.contiguous(), y.contiguous(), ptr, node)

    @staticmethod
    def fake(z: Tensor, *_: Tensor | None) -> Tensor:
        return z.new_empty(z.shape)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return *difference_sum_backward(grad, *ctx.saved_tensors), *(None,) * 4


aggregate = operator(f"aggregate(Tensor x, {BOTH_WAYS}, Tensor? roots) -> Tensor", Aggregate)
sum_of_differences = operator(
    f"difference_sum(Tensor z, Tensor y, {BOTH_WAYS}) -> Tensor", SumOfDifferences
)
difference_sum_backward = gradient_operator(
    f"difference_sum_backward(Tensor grad, Tensor z, Tensor y, {BOTH_WAYS}) -> (Tensor, Tensor)",
    plain.difference_sum_backward,
    (1, 2),
)
