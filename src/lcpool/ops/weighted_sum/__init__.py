"""Products with sparse matrices of which every entry has a weight.

MᵀX and the dot products y_i · x_k at the entries (k, i) of M are each other's gradients: the
gradient of MᵀX is a product with M for X, and a dot product an entry for the weights. Nothing as
wide as the features is stored for an entry, and sums are made in the order of the entries.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lcpool.graph.checks import check_lengths
from lcpool.graph.edges import Entries, Neighbours
from lcpool.ops.kernels import kernels
from lcpool.ops.operator import operator


def weighted_sum(x: Tensor, weight: Tensor, entries: Entries) -> Tensor:
    """MᵀX: the sum of w_e x_k over the entries e = (k, i) of M, for each column i."""
    check_lengths(weight=(weight, entries.source.size(0)), x=(x, entries.num_sources))
    weight = weight.to(x.dtype)
    out: Tensor = weighted_sum_operator(x, weight, *rows_both_ways(entries, x, weight))
    return out


def entry_dot(y: Tensor, x: Tensor, entries: Entries) -> Tensor:
    """y_i · x_k for each entry (k, i) of M."""
    check_lengths(x=(x, entries.num_sources), y=(y, entries.num_targets))
    out: Tensor = entry_dot_operator(y, x, *rows_both_ways(entries, x, y))
    return out


def rows_both_ways(entries: Entries, *inputs: Tensor) -> tuple[Tensor | None, ...]:
    """The rows of entries into each column, and out of each row if there will be a gradient."""
    if not torch.is_grad_enabled() or not any(x.requires_grad for x in inputs):
        return *parts(entries.into), None, None, None
    return *parts(entries.into), *parts(entries.out)


def parts(rows: Neighbours) -> tuple[Tensor, Tensor, Tensor | None]:
    """As an operator takes them."""
    return rows.ptr, rows.node, rows.entry


class WeightedSum:
    """MᵀX, from the entries into each column; those out of each row are for the gradient."""

    @staticmethod
    def forward(
        x: Tensor, weight: Tensor, ptr: Tensor, node: Tensor, entry: Tensor | None, *out: Any
    ) -> Tensor:
        """Sum over the entries of each column."""
        given = (x.contiguous(), weight.contiguous(), ptr, node, entry)
        return kernels(x).weighted_sum(*given)

    @staticmethod
    def fake(x: Tensor, weight: Tensor, ptr: Tensor, *_: Any) -> Tensor:
        return x.new_empty(ptr.numel() - 1, x.size(1))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Sum over the entries of each row, and a dot product an entry."""
        x, weight, *rows = ctx.saved_tensors
        into, out = rows[:3], rows[3:]
        of_x, of_weight = ctx.needs_input_grad[:2]
        grad_x = weighted_sum_operator(grad, weight, *out, *into) if of_x else None
        grad_weight = entry_dot_operator(grad, x, *into, *out) if of_weight else None
        return grad_x, grad_weight, *(None,) * 6


class EntryDot:
    """y_i · x_k of each entry (k, i) of M."""

    @staticmethod
    def forward(
        y: Tensor, x: Tensor, ptr: Tensor, node: Tensor, entry: Tensor | None, *out: Any
    ) -> Tensor:
        """Column by column."""
        given = (y.contiguous(), x.contiguous(), ptr, node, entry)
        return kernels(x).entry_dot(*given)

    @staticmethod
    def fake(y: Tensor, x: Tensor, ptr: Tensor, node: Tensor, *_: Any) -> Tensor:
        return x.new_empty(node.shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Products with M and Mᵀ, the gradient being the weights."""
        y, x, *rows = ctx.saved_tensors
        into, out = rows[:3], rows[3:]
        of_y, of_x = ctx.needs_input_grad[:2]
        grad_y = weighted_sum_operator(x, grad, *into, *out) if of_y else None
        grad_x = weighted_sum_operator(y, grad, *out, *into) if of_x else None
        return grad_y, grad_x, *(None,) * 6


ROWS = (
    "Tensor ptr, Tensor node, Tensor? entry, Tensor? out_ptr, Tensor? out_node, Tensor? out_entry"
)
weighted_sum_operator = operator(
    f"weighted_sum(Tensor x, Tensor weight, {ROWS}) -> Tensor", WeightedSum
)
entry_dot_operator = operator(f"entry_dot(Tensor y, Tensor x, {ROWS}) -> Tensor", EntryDot)
