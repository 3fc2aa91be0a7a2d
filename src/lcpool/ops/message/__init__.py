"""Sums and maxima over neighbours that never store a message.

A convolution or a score sums something over the edges into each node. In plain torch every summand
is written to memory, as wide as the features and as long as the edges, read again to be added, and
kept for the gradient. The kernels walk over each node's neighbours and keep the sum in registers:
memory is O(nodes × width) in both passes. Sums are made in the order of the edges, so that the same
input gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lcpool.graph.checks import check_lengths
from lcpool.graph.edges import (
    BOTH_WAYS,
    ENTRIES_BOTH_WAYS,
    BothWays,
    Edges,
    Entries,
    EntriesBothWays,
)
from lcpool.graph.precision import wide
from lcpool.ops.kernels import kernels
from lcpool.ops.message import plain
from lcpool.ops.operator import as_operator, gradient_operator, operator

TensorOperator = Callable[..., Tensor]


def neighbour_sum(x: Tensor, edges: Edges) -> Tensor:
    """AᵀX: the sum of x_k over the edges (k, i) into each node i."""
    check_lengths(x=(x, edges.num_nodes))
    return aggregate(x, *edges.both_ways(x), None)


def gcn_sum(x: Tensor, edges: Edges) -> Tensor:
    """D^(-1/2) (A + I) D^(-1/2) X, where I replaces the self-loops of A; D counts edges into."""
    check_lengths(x=(x, edges.num_nodes))
    roots = gcn_roots(edges.into.ptr, edges.into.node)
    return aggregate(x, *edges.both_ways(x), roots)


def difference_sum(z: Tensor, y: Tensor, edges: Edges) -> Tensor:
    """Σ_{k ∈ N(i)} relu(z_i − y_k) for each node i; N(i) are the sources of edges into i."""
    check_lengths(z=(z, edges.num_nodes), y=(y, edges.num_nodes))
    return sum_of_differences(z, y.to(z.dtype), *edges.both_ways(z, y))


def weighted_sum(x: Tensor, weight: Tensor, entries: Entries) -> Tensor:
    """MᵀX: the sum of w_e x_k over the entries e = (k, i) of M, for each column i."""
    check_lengths(weight=(weight, entries.source.size(0)), x=(x, entries.num_sources))
    weight = weight.to(x.dtype)
    return weighted_sum_operator(x, weight, *entries.both_ways(x, weight))


def entry_dot(y: Tensor, x: Tensor, entries: Entries) -> Tensor:
    """y_i · x_k for each entry (k, i) of M."""
    check_lengths(x=(x, entries.num_sources), y=(y, entries.num_targets))
    return entry_dot_operator(y, x, *entries.both_ways(x, y))


def neighbour_max(x: Tensor, edges: Edges) -> Tensor:
    """The maximum of x_k over the edges (k, i) into each node i, zeros without any.

    Neighbours that share a maximum share its gradient.
    """
    check_lengths(x=(x, edges.num_nodes))
    return neighbour_max_operator(x, *edges.both_ways(x))[0]


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
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *rows, roots = ctx.saved_tensors
        return aggregate(grad, *BothWays(*rows).reversed, roots), *(None,) * 5


class SumOfDifferences:
    """Σ relu(z_i − y_k); the backward pass computes the signs of the differences again."""

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return *difference_sum_backward(grad, *ctx.saved_tensors), *(None,) * 4


class WeightedSum:
    """MᵀX, from the entries into each column."""

    @staticmethod
    def fake(x: Tensor, weight: Tensor, ptr: Tensor, *_: Any) -> Tensor:
        return x.new_empty(ptr.numel() - 1, x.size(1))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, *rows = ctx.saved_tensors
        rows = EntriesBothWays(*rows)
        of_x, of_weight = ctx.needs_input_grad[:2]
        grad_x = weighted_sum_operator(grad, weight, *rows.reversed) if of_x else None
        grad_weight = entry_dot_operator(grad, x, *rows) if of_weight else None
        return grad_x, grad_weight, *(None,) * 6


class EntryDot:
    """y_i · x_k of each entry (k, i) of M."""

    @staticmethod
    def fake(y: Tensor, x: Tensor, ptr: Tensor, node: Tensor, *_: Any) -> Tensor:
        return x.new_empty(node.shape)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        y, x, *rows = ctx.saved_tensors
        rows = EntriesBothWays(*rows)
        of_y, of_x = ctx.needs_input_grad[:2]
        grad_y = weighted_sum_operator(x, grad, *rows) if of_y else None
        grad_x = weighted_sum_operator(y, grad, *rows.reversed) if of_x else None
        return grad_y, grad_x, *(None,) * 6


class NeighbourMax:
    """The maximum over neighbours, and how many share it."""

    results = 1

    @staticmethod
    def fake(x: Tensor, *_: Tensor | None) -> tuple[Tensor, Tensor]:
        return x.new_empty(x.shape), x.new_empty(x.shape, dtype=torch.int32)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: tuple[Tensor, Tensor]) -> None:
        x, _, _, *out = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(x, *output, *out)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        x, most, ties, out_ptr, out_node = ctx.saved_tensors
        grad_x = neighbour_max_backward(wide(grad) / ties, x, most, out_ptr, out_node)
        return grad_x, None, None, None, None


aggregate: TensorOperator = operator(
    f"aggregate(Tensor x, {BOTH_WAYS}, Tensor? roots) -> Tensor", Aggregate
)
sum_of_differences: TensorOperator = operator(
    f"difference_sum(Tensor z, Tensor y, {BOTH_WAYS}) -> Tensor", SumOfDifferences
)
difference_sum_backward = gradient_operator(plain.difference_sum_backward, 1, 2)
weighted_sum_operator: TensorOperator = operator(
    f"weighted_sum(Tensor x, Tensor weight, {ENTRIES_BOTH_WAYS}) -> Tensor", WeightedSum
)
entry_dot_operator: TensorOperator = operator(
    f"entry_dot(Tensor y, Tensor x, {ENTRIES_BOTH_WAYS}) -> Tensor", EntryDot
)
neighbour_max_operator: Callable[..., tuple[Tensor, Tensor]] = operator(
    f"neighbour_max(Tensor x, {BOTH_WAYS}) -> (Tensor, Tensor)", NeighbourMax
)
neighbour_max_backward = gradient_operator(plain.neighbour_max_backward, 1)
