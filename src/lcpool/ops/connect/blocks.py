"""A' in blocks of rows, for graphs whose A' does not fit in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from operator import index
from pathlib import Path
from typing import IO, Protocol

import numpy as np
import torch
from numpy.lib import format as npy
from torch import Tensor

from lcpool.atomic import whole_file
from lcpool.graph.checks import Checks, check_count, check_edge_index, check_number
from lcpool.ops.connect import check_perm
from lcpool.ops.kernels import kernels

# 256 MiB of indices.
EDGES_PER_BLOCK = 2**24


class RowSearch(Protocol):
    """Finds rows of A'."""

    def most_edges(self) -> Tensor:
        """A bound on the entries of each row, much faster to find than the entries."""

    def rows(self, start: int, stop: int, in_pairs: bool = False) -> Tensor:
        """The entries of rows ``start`` to ``stop``, sorted, as edges ``[2, num_edges]``, int64.

        ``in_pairs``, they are int32, source and target side by side in memory, as in a file.
        """


class Blocks:
    """A list of the edges of A' in blocks of rows: each block is computed when you read it.

    ``len(blocks)``, ``blocks[i]`` and ``for edges in blocks`` work as for a list. It keeps its own
    copy of the graph, so you may delete ``edge_index``: in 32-bit numbers where kernels are
    compiled for the CPU, else in 64-bit ones. A pickle holds the graph, not the blocks.

    Attributes:
        rows: the pooled nodes whose edges each block holds.
    """

    def __init__(self, search: RowSearch, rows: list[range]) -> None:
        self.search, self.rows = search, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> Tensor:
        rows = self.rows[index(number)]
        return self.search.rows(rows.start, rows.stop)

    def __iter__(self) -> Iterator[Tensor]:
        return map(self.__getitem__, range(len(self)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(rows={self.rows[-1].stop}, blocks={len(self)})"

    def save(
        self,
        path: str | os.PathLike[str],
        progress: Callable[[list[range]], Iterable[range]] = iter,
    ) -> Tensor:
        """Write all edges into a ``.npy`` file, and map it into memory.

        The file holds an array of 32-bit integers of shape ``[2, num_edges]`` in Fortran order,
        which ``numpy.load(path, mmap_mode="r")`` opens. It gets its name when it is complete; until
        then a file of this name stays as it was.

        Args:
            path: the file to write, or to replace.
            progress: shows how many blocks of :attr:`rows` are done: ``rich.progress.track``,
                ``tqdm.tqdm``.

        Returns:
            The edges of A', ``[2, num_edges]``, int32, mapped from the file. Changes to the tensor
            do not change the file.
        """
        path = Path(path)
        if path.is_dir():
            raise ValueError(f"'{path}' is a folder; name a file in it: '{path / 'pooled.npy'}'.")
        with whole_file(path) as file:
            num_edges = 0
            write_header(file, num_edges)
            for rows in progress(self.rows):
                edges = self.search.rows(rows.start, rows.stop, in_pairs=True)
                file.write(edges.t().cpu().numpy().data)
                num_edges += edges.size(1)
            file.seek(0)
            write_header(file, num_edges)
        return torch.from_numpy(np.load(path, mmap_mode="c"))


def write_header(file: IO[bytes], num_edges: int) -> None:
    """Write numpy's header, which has the same length for any ``num_edges``."""
    shape = {"descr": "<i4", "fortran_order": True, "shape": (2, num_edges)}
    npy.write_array_header_1_0(file, shape)


def cluster_connect_blocks(
    edge_index: Tensor,
    perm: Tensor,
    num_nodes: int,
    self_loops: bool = True,
    edges_per_block: int = EDGES_PER_BLOCK,
) -> Blocks:
    r"""Connect kept nodes whose clusters touch, in blocks of rows: A' may exceed memory.

    .. math::
        A' = \mathrm{ones}(A + A^\top A + A^2 + A^\top A^2)(\hat{i}, \hat{i})

    The blocks together are the result of :func:`~lcpool.cluster_connect`. A block takes at most
    about 40 bytes per edge and, in every thread, 5 bytes per node.

    Args:
        edge_index: source and target of each edge, ``[2, num_edges]``, int64 or int32.
        perm: the kept nodes î, each once, in the order that numbers the pooled graph.
        num_nodes: the number of nodes; they, and the edges, must be fewer than 2³¹.
        self_loops: keep the diagonal of A', as the formula gives it.
        edges_per_block: the most edges of a block. Rows are not divided: one that may be longer, of
            a node near a hub, is a block by itself.

    Returns:
        What can be iterated over, indexed, or written into a file that is mapped into memory
        (:meth:`Blocks.save <lcpool.Blocks.save>`).

    Example:
        >>> path = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4], [1, 0, 2, 1, 3, 2, 4, 3]])
        >>> kept = torch.tensor([0, 3, 4])
        >>> blocks = cluster_connect_blocks(path, kept, 5, self_loops=False, edges_per_block=8)
        >>> for rows, edges in zip(blocks.rows, blocks):
        ...     print(rows, edges.tolist())
        range(0, 2) [[0, 1, 1], [1, 0, 2]]
        range(2, 3) [[2], [1]]
    """
    check_count("num_nodes", num_nodes)
    check_number("edges_per_block", edges_per_block)
    if edges_per_block < 1:
        raise ValueError(f"'edges_per_block' must be at least 1, not {edges_per_block}.")
    checks = Checks()
    edge_index = check_edge_index(edge_index, num_nodes, checks, like=None, widen=False)
    perm = check_perm(perm, num_nodes, checks, like=edge_index)
    checks.settle()
    search = kernels(perm).cluster_search(edge_index, perm, num_nodes, self_loops)
    return Blocks(search, cut(search.most_edges(), edges_per_block))


def cut(most_edges: Tensor, edges_per_block: int) -> list[range]:
    """Ranges of rows, each as long as ``edges_per_block`` allows; one empty range for no rows."""
    ends = most_edges.cumsum(0).cpu()
    rows, start, done = [], 0, 0
    while start < ends.numel():
        stop = int(torch.searchsorted(ends, done + edges_per_block, right=True))
        stop = max(stop, start + 1)
        rows.append(range(start, stop))
        start, done = stop, int(ends[stop - 1])
    return rows or [range(0)]
