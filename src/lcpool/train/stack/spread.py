"""The value of its run for every row, on a GPU: one launch for all runs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lcpool.train.stack.rows import RunRows


def padded(x: Tensor, rows: RunRows) -> Tensor:
    """``[runs, longest, channels]``: the rows of each run, filled up with zeros."""
    if not rows.even:
        x = x.new_zeros(len(rows.counts) * rows.longest, x.size(-1)).index_copy_(0, rows.place, x)
    return x.reshape(len(rows.counts), rows.longest, -1)


class Spread(torch.autograd.Function):
    """The value of its run for every row."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, rows: RunRows) -> Tensor:
        """``values[r]`` for each row of run r."""
        ctx.rows = rows
        return values.index_select(0, rows.run)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        """The sum over the rows of each run."""
        return padded(grad, ctx.rows).sum(1), None
