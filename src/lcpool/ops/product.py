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

# Meetings that one join may hold at a time. They take 16 to 40 bytes each.
MAX_MEETINGS = 2**25


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
        ptr = torch.searchsorted(row, torch.arange(num_rows + 1, device=row.device))
        return cls(ptr, Entries(row, col[order], None if value is None else value[order]))

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
    met = [m.value[at] for m, at in ((left, here), (right.entries, there)) if m.value is not None]
    value = met[0] if len(met) == 1 else met[0] * met[1]
    value = value.new_zeros(keys.numel()).index_add(0, place, value)
    return Entries(keys // num_cols, keys % num_cols, value)


def triple_product(Sr: Rows, A: Rows, S: Rows, num_cols: int, checks: Checks) -> Iterator[Entries]:
    """(Sᵀ A) S in blocks of whole rows, so that a block's meetings fit in memory.

    Args:
        Sr: the rows of Sᵀ.
        A: the rows of A.
        S: the rows of S.
        num_cols: the number of columns of S.
        checks: pending verdicts, read with the first size.

    Yields:
        The entries of the product, block after block, sorted.
    """
    num_nodes = A.ptr.numel() - 1
    # work[i]: how often row i of Sᵀ meets, through A, an entry of S.
    work = A.entries.row.new_zeros(num_nodes)
    work.index_add_(0, A.entries.row, S.lengths[A.entries.col])
    work = work.new_zeros(num_cols).index_add_(0, Sr.entries.row, work[Sr.entries.col])
    for start, stop in _blocks(work, Sr.ptr, checks):
        half = multiply(Sr.entries.between(start, stop), A, max(num_nodes, 1), checks)
        yield multiply(half, S, num_cols, checks)


def _blocks(work: Tensor, ptr: Tensor, checks: Checks) -> list[tuple[int, int]]:
    """Cut rows into runs of about ``MAX_MEETINGS`` work; each as a range of entries."""
    total, size = checks.read(work.sum(), ptr[-1])
    if total <= MAX_MEETINGS:
        return [(0, size)]
    block = (work.cumsum(0) - work) // MAX_MEETINGS
    first = torch.nonzero(block.diff()).view(-1) + 1
    cuts = [0, *ptr[first].tolist(), size]
    return list(pairwise(cuts))
