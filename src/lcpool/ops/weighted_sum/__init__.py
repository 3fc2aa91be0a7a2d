"""Products with a weighted sparse matrix M: MᵀX, and y_i · x_k for each entry (k, i).

They are each other's gradients: the gradient of MᵀX is a product with M for X, and a dot product
per entry for the weights. Nothing as wide as the features is stored per entry, and sums are made in
the order of the entries.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from lcpool.graph.checks import check_lengths
from lcpool.graph.edges import ENTRIES_BOTH_WAYS, Entries, EntriesBothWays
from lcpool.ops.kernels import kernels
from lcpool.ops.operator import operator


def weighted_sum(x: Tensor, weight: Tensor, entries: Entries) -> Tensor:
    """MᵀX: the sum of w_e x_k over the entries e = (k, i) of M, for each column i."""
    check_lengths(weight=(weight, entries.source.size(0)), x=(x, entries.num_sources))
    weight = weight.to(x.dtype)
    out: Tensor = weighted_sum_operator(x, weight, *entries.both_ways(x, weight))
    return out


def entry_dot(y: Tensor, x: Tensor, entries: Entries) -> Tensor:
    """y_i · x_k for each entry (k, i) of M."""
    check_lengths(x=(x, entries.num_sources), y=(y, entries.num_targets))
    out: Tensor = entry_dot_operator(y, x, *entries.both_ways(x, y))
    return out


class WeightedSum:
    """MᵀX, from the entries into each column."""

    @staticmethod
    def forward(
        x: Tensor, weight: Tensor, ptr: Tensor, node: Tensor, entry: Tensor | None, *out: Any
    ) -> Tensor:
        return kernels(x).weighted_sum(x.contiguous(), weight.contiguous(), ptr, node, entry)

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
    def forward(
        y: Tensor, x: Tensor, ptr: Tensor, node: Tensor, entry: Tensor | None, *out: Any
    ) -> Tensor:
        return kernels(x).entry_dot(y.contiguous(), x.contiguous(), ptr, node, entry)

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


weighted_sum_operator = operator(
    f"weighted_sum(Tensor x, Tensor weight, {ENTRIES_BOTH_WAYS}) -> Tensor", WeightedSum
)
entry_dot_operator = operator(
    f"entry_dot(Tensor y, Tensor x, {ENTRIES_BOTH_WAYS}) -> Tensor", EntryDot
)
