"""The local assignment matrix S, sparse: S[i, j] is what node i contributes to cluster j."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from lcpool.ops.checks import Checks, check_count, check_range
from lcpool.ops.edges import Entries
from lcpool.ops.kernels import kernels
from lcpool.ops.lazy import lazy
from lcpool.ops.operator import is_traced
from lcpool.ops.weights import weighted_sum


@dataclass(frozen=True, eq=False)
class Assignment:
    """S in coordinates. Entries that stand twice are added.

    Attributes:
        node: row i of each entry, the contributor.
        cluster: column j of each entry.
        value: the entries, or None for ones.
        num_nodes: rows of S.
        num_clusters: columns of S.
    """

    node: Tensor
    cluster: Tensor
    value: Tensor | None
    num_nodes: int
    num_clusters: int

    def __post_init__(self) -> None:
        if not is_traced():
            check_count("num_nodes", self.num_nodes)
            check_count("num_clusters", self.num_clusters)
        if self.node.dim() != 1 or self.node.shape != self.cluster.shape:
            raise ValueError(
                f"an assignment needs a node and a cluster for each entry, not shapes "
                f"{list(self.node.shape)} and {list(self.cluster.shape)}."
            )
        if self.value is not None and self.value.shape != self.node.shape:
            raise ValueError(
                f"an assignment of {self.node.numel()} entries needs as many values, not shape "
                f"{list(self.value.shape)}."
            )

    @classmethod
    def of(cls, entries: Entries, value: Tensor) -> Assignment:
        """Nodes are sources, clusters are targets."""
        S = cls(entries.source, entries.target, value, entries.num_sources, entries.num_targets)
        S.__dict__["entries"] = entries
        return S

    @lazy
    def entries(self) -> Entries:
        """The entries by node and by cluster, once it is known that there are such."""
        checks = Checks()
        S = self.checked(checks)
        checks.settle()
        return Entries(S.node.long(), S.cluster.long(), S.num_nodes, S.num_clusters)

    def checked(self, checks: Checks) -> Assignment:
        """S, once it is known that its entries are of nodes and clusters."""
        node = check_range("assignment.node", self.node, self.num_nodes, "node", checks)
        cluster = check_range(
            "assignment.cluster", self.cluster, self.num_clusters, "cluster", checks
        )
        return replace(self, node=node, cluster=cluster)

    def reduce(self, x: Tensor) -> Tensor:
        """SᵀX: the features of the clusters."""
        check_rows(x, self.num_nodes)
        return self._sum(x, self.entries)

    def lift(self, x: Tensor) -> Tensor:
        """S X': the features of the clusters brought back to the nodes they came from."""
        check_rows(x, self.num_clusters)
        return self._sum(x, self.entries.reversed)

    def _sum(self, x: Tensor, entries: Entries) -> Tensor:
        value = x.new_ones(self.node.numel()) if self.value is None else self.value
        out = weighted_sum(x.unsqueeze(-1).flatten(1), value, entries)
        return out.view(out.size(0), *x.shape[1:])

    def columns(self, perm: Tensor, checks: Checks | None = None) -> Assignment:
        """S' = S(:, î): the clusters in ``perm`` alone, in its order."""
        found = None
        if not is_traced():
            found = kernels(perm).columns(self.node, self.cluster, perm, self.num_clusters)
        if found is None:
            new_id = positions(perm, self.num_clusters).index_select(0, self.cluster)
            kept = nonzero(new_id >= 0, checks)
            found = kept, *(index.index_select(0, kept) for index in (self.node, new_id))
        kept, node, cluster = found
        value = None if self.value is None else self.value.index_select(0, kept)
        return Assignment(node, cluster, value, self.num_nodes, perm.numel())

    def row_means(self) -> Assignment:
        """Entries that count once each and rows that sum to one: :meth:`lift` takes plain means."""
        columns = max(self.num_clusters, 1)
        keys = torch.unique(self.node * columns + self.cluster)
        node, cluster = keys // columns, keys % columns
        lengths = torch.bincount(node, minlength=self.num_nodes)
        return Assignment(
            node, cluster, 1 / lengths[node].double(), self.num_nodes, self.num_clusters
        )

    def is_local(self, edge_index: Tensor) -> bool:
        """Prerequisite 1: s_ij ≠ 0 only where I + A is not zero. For a square S."""
        edges = edge_index[0] * self.num_clusters + edge_index[1]
        loop = self.node == self.cluster
        entries = self.node * self.num_clusters + self.cluster
        stray = ~(loop | torch.isin(entries, edges))
        return not bool((stray if self.value is None else stray & (self.value != 0)).any())

    def to_dense(self) -> Tensor:
        """S as a dense matrix, for small graphs and tests."""
        value = torch.ones_like(self.node, dtype=torch.float) if self.value is None else self.value
        dense = value.new_zeros(self.num_nodes, self.num_clusters)
        return dense.index_put((self.node, self.cluster), value, accumulate=True)


def selection(perm: Tensor, num_nodes: int) -> Assignment:
    """I(:, î): every kept node is a cluster of its own (proposition 3)."""
    clusters = torch.arange(perm.numel(), device=perm.device)
    return Assignment(perm, clusters, None, num_nodes, perm.numel())


def clusters(
    edge_index: Tensor, perm: Tensor, num_nodes: int, checks: Checks | None = None
) -> Assignment:
    """(I + A)(:, î): each kept node with all that have an edge into it (prerequisite 4)."""
    target = positions(perm, num_nodes).index_select(0, edge_index[1])
    into_kept = nonzero(target >= 0, checks)
    itself = torch.arange(perm.numel(), device=perm.device)
    node = torch.cat([perm, edge_index[0].index_select(0, into_kept)])
    cluster = torch.cat([itself, target.index_select(0, into_kept)])
    return Assignment(node, cluster, None, num_nodes, perm.numel())


def check_rows(x: Tensor, rows: int) -> None:
    """Raise unless ``x`` holds floating-point features of so many rows."""
    if not x.is_floating_point() or x.dim() == 0 or x.size(0) != rows:
        raise ValueError(
            f"expected floating-point features of {rows} rows, not {x.dtype} of shape "
            f"{list(x.shape)}."
        )


def positions(perm: Tensor, size: int) -> Tensor:
    """Where each index stands in ``perm``, −1 where it does not."""
    where = perm.new_full((size,), -1)
    where[perm] = torch.arange(perm.numel(), device=perm.device)
    return where


def nonzero(mask: Tensor, checks: Checks | None = None) -> Tensor:
    """The indices where ``mask`` holds; pending ``checks`` are read with their number."""
    if checks is None or mask.device.type == "cpu" or is_traced():
        return mask.nonzero().view(-1)
    (size,) = checks.read(mask.sum())
    return torch.nonzero_static(mask, size=size).view(-1)
