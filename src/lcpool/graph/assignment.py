"""S: which input nodes make up each pooled node."""

from __future__ import annotations

import torch
from torch import Tensor

from lcpool.graph.checks import (
    Checks,
    check_count,
    check_device,
    check_index,
    check_range,
    check_weights,
)
from lcpool.graph.edges import Entries
from lcpool.graph.lazy import lazy
from lcpool.ops.message import weighted_sum
from lcpool.ops.operator import as_operator, is_traced, new_size

# With more empty clusters than this, tables with a row per cluster would fill the memory.
MAX_EMPTY_CLUSTERS = 2**20
NO_LABELS = "'labels' must be numbers of clusters, or −1 for a node without one; one is less."


class Assignment:
    r"""The assignment matrix S: :math:`s_{ij}` is the weight of node i in cluster j.

    .. math::
        X' = S^\top X, \qquad A' = S^\top A S

    S is sparse, in coordinates. The fields have the names and the order of PyG's ``SelectOutput``.
    Duplicate entries are added.

    Args:
        node_index: row i of each entry, ``[num_entries]``.
        num_nodes: rows of S.
        cluster_index: column j of each entry, ``[num_entries]``.
        num_clusters: columns of S.
        weight: the entries, ``[num_entries]``; ones by default.

    Indices out of range, negative ones included, raise a ``ValueError``; on a GPU when S is first
    used.

    Example:
        >>> S = Assignment.of_labels(torch.tensor([0, 0, 1, -1]))
        >>> S
        Assignment(num_nodes=4, num_clusters=2, entries=3)
        >>> S.reduce(torch.tensor([[1.0], [2.0], [3.0], [4.0]])).tolist()
        [[3.0], [3.0]]
    """

    def __init__(
        self,
        node_index: Tensor,
        num_nodes: int,
        cluster_index: Tensor,
        num_clusters: int,
        weight: Tensor | None = None,
    ) -> None:
        if not is_traced():
            check_count("num_nodes", num_nodes)
            check_count("num_clusters", num_clusters)
        node = check_index("node_index", node_index)
        cluster = check_index("cluster_index", cluster_index, node)
        if node.dim() != 1 or node.shape != cluster.shape:
            raise ValueError(
                f"'node_index' and 'cluster_index' must have one shape, [num_entries], not "
                f"{list(node.shape)} and {list(cluster.shape)}."
            )
        if weight is not None:
            check_weights("weight", weight)
            check_device("weight", weight, node)
        if weight is not None and weight.shape != node.shape:
            raise ValueError(
                f"'weight' must have shape {list(node.shape)}, one per entry, not "
                f"{list(weight.shape)}."
            )
        self.checks, self.weight = Checks(), weight
        self.num_nodes, self.num_clusters = num_nodes, num_clusters
        self.node_index = check_range("node_index", node, num_nodes, "node", self.checks)
        self.cluster_index = check_range(
            "cluster_index", cluster, num_clusters, "cluster", self.checks
        )

    @classmethod
    def trusted(
        cls,
        node_index: Tensor,
        num_nodes: int,
        cluster_index: Tensor,
        num_clusters: int,
        weight: Tensor | None = None,
        checks: Checks | None = None,
    ) -> Assignment:
        """S whose indices are known to be in range, or pending: kernels read memory by them."""
        S = Assignment.__new__(Assignment)
        S.checks, S.weight = checks or Checks(), weight
        S.node_index, S.num_nodes = node_index, num_nodes
        S.cluster_index, S.num_clusters = cluster_index, num_clusters
        return S

    @classmethod
    def of_labels(cls, labels: Tensor, num_clusters: int | None = None) -> Assignment:
        """Clusters that share no node: node i belongs to cluster ``labels[i]``, or to none if −1.

        Clusters must be numbered without gaps (``torch.unique(labels, return_inverse=True)[1]``
        closes them). Without ``num_clusters`` there are 1 + the largest label, for which a GPU
        synchronises.
        """
        labels = check_index("labels", labels)
        if labels.dim() != 1:
            raise ValueError(f"'labels' must have one dimension, not shape {list(labels.shape)}.")
        checks = Checks()
        if labels.numel():
            labels = checks.require(labels, labels.min() >= -1, lambda: NO_LABELS)
        if num_clusters is None:
            num_clusters = label_count(labels)
        nodes = nonzero(labels >= 0, checks)
        return cls(nodes, labels.numel(), labels.index_select(0, nodes), num_clusters)

    @classmethod
    def of_nodes(cls, perm: Tensor, num_nodes: int) -> Assignment:
        """I(:, î): each node of ``perm`` is a cluster (proposition 3)."""
        clusters = torch.arange(perm.numel(), device=perm.device)
        return cls(perm, num_nodes, clusters, perm.numel())

    @classmethod
    def of_entries(cls, entries: Entries, weight: Tensor | None) -> Assignment:
        """From entries whose sources are nodes and whose targets are clusters."""
        S = cls.trusted(
            entries.source, entries.num_sources, entries.target, entries.num_targets, weight
        )
        S.entries = entries
        return S

    def with_weight(self, weight: Tensor | None) -> Assignment:
        """The same entries with other weights."""
        size = (self.num_nodes, self.cluster_index, self.num_clusters)
        S = Assignment.trusted(self.node_index, *size, weight, self.checks)
        if "entries" in vars(self):
            S.entries = self.entries
        return S

    @lazy
    def entries(self) -> Entries:
        """The entries by node and by cluster."""
        self.checks.settle()
        return Entries(self.node_index, self.cluster_index, self.num_nodes, self.num_clusters)

    def reduce(self, x: Tensor) -> Tensor:
        """SᵀX: the features of the clusters, ``[num_clusters, channels]``."""
        check_rows(x, self.num_nodes, "input node")
        return self._sum(x, self.entries)

    def lift(self, x: Tensor) -> Tensor:
        """S X': the features of the clusters brought back to their nodes."""
        check_rows(x, self.num_clusters, "pooled node")
        return self._sum(x, self.entries.reversed)

    def _sum(self, x: Tensor, entries: Entries) -> Tensor:
        weight = x.new_ones(self.node_index.numel()) if self.weight is None else self.weight
        out = weighted_sum(x.unsqueeze(-1).flatten(1), weight, entries)
        return out.view(out.size(0), *x.shape[1:])

    def columns(self, perm: Tensor, checks: Checks | None = None) -> Assignment:
        """S' = S(:, î): only the clusters in ``perm``, in its order."""
        if perm.device.type == "cpu":
            perm = check_range("perm", perm, self.num_clusters, "cluster", Checks())
        new_id = positions(perm, self.num_clusters).index_select(0, self.cluster_index)
        kept = nonzero(new_id >= 0, checks)
        node, cluster = self.node_index.index_select(0, kept), new_id.index_select(0, kept)
        weight = None if self.weight is None else self.weight.index_select(0, kept)
        return Assignment.trusted(node, self.num_nodes, cluster, perm.numel(), weight, self.checks)

    def distinct(self) -> tuple[Tensor, Tensor, Tensor]:
        """Node and cluster of all distinct entries, sorted, and the number of each entry there."""
        self.checks.settle()
        columns = max(self.num_clusters, 1)
        keys, entry = torch.unique(
            self.node_index * columns + self.cluster_index, return_inverse=True
        )
        return keys // columns, keys % columns, entry

    def labels(self, perm: Tensor | None = None) -> Tensor:
        r"""The cluster of largest weight of each node, ``[num_nodes]``: :math:`\arg\max_j s_{ij}`.

        −1 for a node without one. Ties go to the cluster that has the node as its centre, if
        ``perm`` tells the centre of each cluster, then to the lower number.
        """
        node, cluster, entry = self.distinct()
        weight = torch.ones_like(entry) if self.weight is None else self.weight.detach()
        weight = weight.new_zeros(node.numel()).index_add(0, entry, weight)
        own = torch.zeros_like(node) if perm is None else (perm[cluster] == node).long()
        # Stable sorts, the least important key first; entries of weight 0 do not count.
        order = cluster.argsort(stable=True)
        for key, descending in ((own, True), (weight, True), (node, False)):
            order = order[key[order].argsort(stable=True, descending=descending)]
        order = order[weight[order] != 0]
        node, cluster = node[order], cluster[order]
        first = torch.ones_like(node, dtype=torch.bool)
        first[1:] = node[1:] != node[:-1]
        labels: Tensor = node.new_full((self.num_nodes,), -1)
        return labels.index_put((node[first],), cluster[first])

    def strays(self, edge_index: Tensor) -> Tensor:
        """Which entries of a square S are at zeros of I + A, ``[num_entries]``."""
        edges = edge_index[0] * self.num_clusters + edge_index[1]
        loop = self.node_index == self.cluster_index
        entries = self.node_index * self.num_clusters + self.cluster_index
        stray = ~(loop | torch.isin(entries, edges))
        return stray if self.weight is None else stray & (self.weight != 0)

    def is_local(self, edge_index: Tensor) -> bool:
        """Prerequisite 1: s_ij ≠ 0 only where I + A is not zero. For a square S."""
        return not bool(self.strays(edge_index).any())

    def to_dense(self) -> Tensor:
        """S as a dense matrix, for small graphs and tests."""
        self.checks.settle()
        weight = self.weight
        if weight is None:
            weight = torch.ones_like(self.node_index, dtype=torch.get_default_dtype())
        dense = weight.new_zeros(self.num_nodes, self.num_clusters)
        return dense.index_put((self.node_index, self.cluster_index), weight, accumulate=True)

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}(num_nodes={self.num_nodes}, "
            f"num_clusters={self.num_clusters}, entries={self.node_index.numel()})"
        )


def clusters(
    edge_index: Tensor, perm: Tensor, num_nodes: int, checks: Checks | None = None
) -> Assignment:
    """(I + A)(:, î): each kept node and all nodes with an edge into it (prerequisite 4)."""
    target = positions(perm, num_nodes).index_select(0, edge_index[1])
    into_kept = nonzero(target >= 0, checks)
    itself = torch.arange(perm.numel(), device=perm.device)
    node = torch.cat([perm, edge_index[0].index_select(0, into_kept)])
    cluster = torch.cat([itself, target.index_select(0, into_kept)])
    return Assignment.trusted(node, num_nodes, cluster, perm.numel())


def check_rows(x: Tensor, rows: int, member: str) -> None:
    """Raise unless ``x`` holds floating-point features and has ``rows`` rows."""
    if not x.is_floating_point() or x.dim() == 0 or x.size(0) != rows:
        raise ValueError(
            f"'x' must have floating-point features in {rows} rows, one per {member}, not "
            f"{x.dtype} of shape {list(x.shape)}."
        )


def positions(perm: Tensor, size: int) -> Tensor:
    """The position of each index in ``perm``, −1 if it is not there; −1 in ``perm`` is no index."""
    where = perm.new_full((size + 1,), -1)  # the last is the one that −1 means
    where[perm] = torch.arange(perm.numel(), device=perm.device)
    return where[:size]


def nonzero(mask: Tensor, checks: Checks | None = None) -> Tensor:
    """The indices where ``mask`` is true; pending ``checks`` are read with their number."""
    if checks is None or mask.device.type == "cpu" or is_traced():
        return mask.nonzero().view(-1)
    (size,) = checks.read(mask.sum())
    return torch.nonzero_static(mask, size=size).view(-1)


@as_operator("label_count(Tensor labels) -> SymInt", lambda labels: new_size())
def label_count(labels: Tensor) -> int:
    """The number of clusters: 1 + the largest label."""
    count = int(labels.max()) + 1 if labels.numel() else 0
    if count - labels.numel() > MAX_EMPTY_CLUSTERS:
        raise ValueError(
            f"'labels' has the label {count - 1:,} for {labels.numel():,} nodes. Number clusters "
            f"without gaps: torch.unique(labels, return_inverse=True)[1]."
        )
    return count
