"""What selecting gives: which input nodes make up each pooled node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import torch
from torch import Tensor

from lcpool.graph.assignment import Assignment
from lcpool.graph.checks import Checks
from lcpool.graph.edges import Entries
from lcpool.graph.graph import Graph
from lcpool.graph.lazy import lazy
from lcpool.graph.sizes import Sizes
from lcpool.ops.operator import is_traced


@dataclass(frozen=True, eq=False)
class Selection:
    """The pooled nodes, sorted by graph, and S, which says what they are made of.

    Attributes:
        make: gives S; called when it is first asked for.
        batch: the graph of each pooled node, sorted.
        sizes: how many pooled nodes each graph has, where the host knows.
        perm: the input node that each pooled node stands on; None where it stands on none.
        score: h of these nodes, or None.
    """

    make: Callable[[], Assignment]
    batch: Tensor
    sizes: Sizes | None = None
    perm: Tensor | None = None
    score: Tensor | None = None

    @classmethod
    def of(cls, S: Assignment, graph: Graph) -> Selection:
        """The clusters of S, renumbered so that they are sorted by graph.

        Args:
            S: the assignment.
            graph: what it assigns the nodes of.

        Raises:
            ValueError: if a cluster has no node, or nodes of several graphs.
        """
        if S.num_nodes != graph.num_nodes:
            raise ValueError(f"S has {S.num_nodes} rows (labels) for {graph.num_nodes} nodes.")
        checks = Checks()  # not the graph's: a pooling can be wrong where the data are trusted
        S = S.checked(checks)
        of_entry = graph.batch_vector()[S.node_index]
        owner = of_entry.new_full((S.num_clusters,), -1).index_put((S.cluster_index,), of_entry)
        owner = checks.require(owner, (owner >= 0).all(), lambda: EMPTY)
        of_one = (owner[S.cluster_index] == of_entry).all()
        owner = checks.require(owner, of_one, lambda: MIXED)
        batch, order = owner.sort(stable=True)
        number = torch.empty_like(order)
        number[order] = torch.arange(order.numel(), device=order.device)
        entries = Entries(S.node_index, number[S.cluster_index], S.num_nodes, S.num_clusters)
        make = partial(itself, Assignment.of_entries(entries, S.weight))
        if is_traced():
            return cls(make, batch)
        found = checks.fetch(batch.bincount(minlength=graph.batch_size))
        return cls(make, batch, Sizes(found, batch.device))

    @property
    def num_pooled(self) -> int:
        """The number of pooled nodes of all graphs together."""
        return self.batch.numel()

    def at(self, index: Tensor) -> Self:
        """Some of the pooled nodes alone; ``index`` must rise, so that they stay sorted."""
        perm, score = (None if v is None else v[index] for v in (self.perm, self.score))
        make = partial(_columns, self, index)
        return replace(self, make=make, batch=self.batch[index], sizes=None, perm=perm, score=score)

    @lazy
    def assignment(self) -> Assignment:
        """S, with a column for each pooled node."""
        return self.make()

    @property
    def made(self) -> Assignment | Callable[[], Assignment]:
        """S if it was asked for, else what makes it."""
        found: Assignment | None = self.__dict__.get("assignment")
        return self.make if found is None else found


EMPTY = (
    "a cluster must have nodes, and some have none; number clusters without gaps: "
    "torch.unique(labels, return_inverse=True)[1]."
)
MIXED = "the nodes of a cluster must be of one graph; look at graph.batch_vector()."


def _columns(S: Selection, index: Tensor) -> Assignment:
    return S.assignment.columns(index)


def itself(S: Assignment) -> Assignment:
    """S, where it is made already."""
    return S
