"""Sparse matrix products by sorted joins, in plain torch: no ``torch.sparse``, gradients included.

``torch.sparse`` products fault or run out of memory on GPUs and have no CPU gradient for the
pattern this package needs. A join does: entry (i, n) of the left matrix meets every entry (n, j) of
row n on the right, and meetings with the same (i, j) are added.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from lcpool.ops.checks import Checks
from lcpool.ops.sizes import row_pointers

# Meetings that one join may hold at a time. They take 16 to 40 bytes each.
MAX_MEETINGS = 2**24


@dataclass(frozen=True)
class Entries:
    """A sparse matrix in coordinates; ``value`` is None for ones."""

    row: Tensor
    col: Tensor
    value: Tensor | None

    def between(self, start: int, stop: int) -> Entries:
        """The entries ``start`` to ``stop``."""
        value = None if self.value is None else self.value[start:stop]
        return Entries(self.row[start:stop], self.col[start:stop], value)


@dataclass(frozen=True)
class Rows:
    """A sparse matrix by rows: row i holds the entries ``ptr[i]`` to ``ptr[i + 1]``."""

    ptr: Tensor
    entries: Entries

    @classmethod
    def of(cls, row: Tensor, col: Tensor, value: Tensor | None, num_rows: int) -> Rows:
        """Sort the entries by row; within a row they keep their order."""
        row, order = row.sort(stable=True)
        value = None if value is None else value.index_select(0, order)
        return cls(row_pointers(row, num_rows), Entries(row, col[order], value))

    @property
    def lengths(self) -> Tensor:
        """The number of entries of each row."""
        return self.ptr.diff()


def multiply(left: Entries, right: Rows, num_cols: int, checks: Checks) -> Entries:
    """The product, its entries sorted by row and column, each position once."""
    lengths = right.lengths[left.col]
    (total,) = checks.read(lengths.sum())
    meeting = torch.arange(lengths.numel(), device=lengths.device)
    here = meeting.repeat_interleave(lengths, output_size=total)
    first = right.ptr[left.col] - (lengths.cumsum(0) - lengths)
    there = torch.arange(total, device=lengths.device) + first[here]
    keys = left.row[here] * num_cols + right.entries.col[there]
    if left.value is None and right.entries.value is None:
        keys = torch.unique(keys)
        return Entries(keys // num_cols, keys % num_cols, None)
    keys, place = torch.unique(keys, return_inverse=True)
    sides = ((left.value, here), (right.entries.value, there))
    met = [value.index_select(0, at) for value, at in sides if value is not None]
    value = met[0] if len(met) == 1 else met[0] * met[1]
    value = value.new_zeros(keys.numel()).index_add(0, place, value)
    return Entries(keys // num_cols, keys % num_cols, value)


class TripleProduct:
    """(Sᵀ A) S in blocks of whole rows, so that a block's meetings fit in memory.

    Args:
        Sr: the rows of Sᵀ.
        A: the rows of A.
        S: the rows of S.
        num_cols: the number of columns of S.
        checks: pending verdicts, read with the first size.

    Attributes:
        work: the number of all meetings, which the number of entries cannot exceed.
    """

    def __init__(self, Sr: Rows, A: Rows, S: Rows, num_cols: int, checks: Checks) -> None:
        self.Sr, self.A, self.S, self.num_cols, self.checks = Sr, A, S, num_cols, checks
        work = meetings(Sr, A, S)
        self.work, size = checks.read(work.sum(), Sr.ptr[-1])
        self.cuts = [0, size]
        if self.work > MAX_MEETINGS:
            block = (work.cumsum(0) - work) // MAX_MEETINGS
            first = torch.nonzero(block.diff()).view(-1) + 1
            self.cuts[1:1] = Sr.ptr[first].tolist()

    def blocks(self) -> Iterator[Entries]:
        """The entries of the product, block after block, sorted."""
        num_nodes = max(self.A.ptr.numel() - 1, 1)
        for start, stop in pairwise(self.cuts):
            left = self.Sr.entries.between(start, stop)
            half = multiply(left, self.A, num_nodes, self.checks)
            yield multiply(half, self.S, self.num_cols, self.checks)


def meetings(Sr: Rows, A: Rows, S: Rows) -> Tensor:
    """How often each row of Sᵀ meets an entry in either join of (Sᵀ A) S, at the most."""
    through = A.lengths.index_add(0, A.entries.row, S.lengths[A.entries.col])
    work = through.new_zeros(Sr.ptr.numel() - 1)
    return work.index_add_(0, Sr.entries.row, through[Sr.entries.col])
