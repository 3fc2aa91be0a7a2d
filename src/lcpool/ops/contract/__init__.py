"""A' = SᵀAS without its diagonal for clusters that share no node, and which edges make each entry.

Every edge of A contributes to at most one edge of A', so A' never has more edges, and attributes
of any width can be reduced over the edges that become one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from lcpool.graph.edges import Entries, Neighbours
from lcpool.graph.sizes import owners
from lcpool.ops.kernels import kernels
from lcpool.ops.message import weighted_sum
from lcpool.ops.operator import as_operator


class Contracted(NamedTuple):
    """The edges of A', and the edges of A that each is made of.

    Attributes:
        edges: the edges of A', sorted, each once.
        ptr: edge i of A' is made of ``member[ptr[i] : ptr[i + 1]]``.
        member: edges of A, in their order.
    """

    edges: Tensor
    ptr: Tensor
    member: Tensor

    def reduce(self, attr: Tensor, how: str) -> Tensor:
        """Attributes of A as attributes of A': their ``sum``, ``mean`` or ``max``, in any width.

        Edges that share a maximum share its gradient.
        """
        rows = attr.unsqueeze(-1).flatten(1)
        if how == "max":
            owner = owners(self.ptr, self.member.numel()).unsqueeze(-1).expand(-1, rows.size(1))
            out = rows.new_zeros(self.edges.size(1), rows.size(1))
            out = out.scatter_reduce(0, owner, rows[self.member], "amax", include_self=False)
        else:
            into = Neighbours(self.ptr, self.member)
            weight = rows.new_ones(self.member.numel())
            out = weighted_sum(rows, weight, Entries.by_target(into, rows.size(0)))
        if how == "mean":
            out = out / self.ptr.diff().unsqueeze(-1)
        return out.view(out.size(0), *attr.shape[1:])


def contract(edge_index: Tensor, label: Tensor, num_clusters: int) -> Contracted:
    """The edges between clusters.

    Args:
        edge_index: the edges of A.
        label: the cluster of each node, −1 for a node in none, whose edges are dropped.
        num_clusters: the number of clusters.
    """
    return Contracted(*contract_operator(edge_index, label, num_clusters))


def _fake(edge_index: Tensor, label: Tensor, num_clusters: int) -> tuple[Tensor, ...]:
    size: Any
    size, members = (torch.library.get_ctx().new_dynamic_size() for _ in range(2))
    return label.new_empty(2, size), label.new_empty(size + 1), label.new_empty(members)


@as_operator(
    "contract(Tensor edge_index, Tensor label, SymInt num_clusters) -> (Tensor, Tensor, Tensor)",
    _fake,
)
def contract_operator(
    edge_index: Tensor, label: Tensor, num_clusters: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The fields of :class:`Contracted`."""
    return kernels(label).contract(edge_index.contiguous(), label.contiguous(), num_clusters)
