"""The result of ``select``: which input nodes make up each pooled node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from lcpool.graph.assignment import Assignment
from lcpool.graph.checks import Checks
from lcpool.graph.edges import Entries
from lcpool.graph.graph import Graph
from lcpool.graph.lazy import lazy
from lcpool.graph.sizes import Sizes, counts_of, inverse
from lcpool.ops.operator import is_traced

NAN = (
    "the {} contain NaN: look for NaN or inf in 'x' or in the layer's parameters (a diverged "
    "training leaves them there)."
)
EMPTY = (
    "some clusters have no node; number clusters without gaps: "
    "torch.unique(labels, return_inverse=True)[1]."
)
MIXED = "a cluster has nodes of several graphs; graph.batch_vector() is the graph of each node."


@dataclass(frozen=True, eq=False, repr=False)
class Selection:
    """The pooled nodes, sorted by graph, and the assignment S that says what they are made of.

    Attributes:
        S: the assignment, or a function that makes it when it is first needed.
        batch: the graph of each pooled node, sorted.
        sizes: the number of pooled nodes of each graph, if the host knows it.
        perm: the input node that each pooled node came from; None if there is no such node.
        score: h of these nodes, or None.

    ``merges`` is True if a pooled node stands for its whole cluster (k-MIS, CellPool, DiffPool);
    False if it stands for one kept node, and the others are dropped (TopK, SAG, LCPool).
    """

    merges: ClassVar[bool] = True
    S: Assignment | Callable[[], Assignment]
    batch: Tensor
    sizes: Sizes | None = None
    perm: Tensor | None = None
    score: Tensor | None = None

    def __post_init__(self) -> None:
        if not is_traced() and self.sizes is not None and self.sizes.total != self.num_pooled:
            raise ValueError(f"'sizes' are of {self.sizes.total} nodes, not {self.num_pooled}.")

    @classmethod
    def of(cls, S: Assignment, graph: Graph) -> Selection:
        """The clusters of S, an assignment of the nodes of ``graph``, renumbered by graph.

        Raises:
            ValueError: if a cluster has no node, or nodes of several graphs.
        """
        if S.num_nodes != graph.num_nodes:
            raise ValueError(f"S has {S.num_nodes} rows (labels) for {graph.num_nodes} nodes.")
        checks = Checks()  # not the graph's: a pooling can be wrong where the data are trusted
        checks.adopt(S.checks)
        of_entry = graph.batch_vector()[S.node_index]
        owner = of_entry.new_full((S.num_clusters,), -1).index_put((S.cluster_index,), of_entry)
        owner = checks.require(owner, (owner >= 0).all(), lambda: EMPTY)
        of_one = (owner[S.cluster_index] == of_entry).all()
        owner = checks.require(owner, of_one, lambda: MIXED)
        batch, order = owner.sort(stable=True)
        entries = Entries(
            S.node_index, inverse(order)[S.cluster_index], S.num_nodes, S.num_clusters
        )
        by_graph = Assignment.of_entries(entries, S.weight)
        if is_traced():
            return cls(by_graph, batch)
        # On a GPU, where EMPTY is pending, ``batch`` may contain −1.
        found = checks.fetch(counts_of(batch.clamp(min=0), graph.batch_size))
        return cls(by_graph, batch, Sizes(found, batch.device))

    @property
    def num_pooled(self) -> int:
        """The number of pooled nodes of all graphs together."""
        return self.batch.numel()

    @lazy
    def assignment(self) -> Assignment:
        """S, with a column for each pooled node."""
        return self.S if isinstance(self.S, Assignment) else self.S()

    def assignment_of(self, graph: Graph) -> Assignment:
        """S, for kernels that trust its shape; an error if it does not fit the graph."""
        S, shape = self.assignment, (graph.num_nodes, self.num_pooled)
        if not is_traced() and (S.num_nodes, S.num_clusters) != shape:
            raise ValueError(f"{S} must have {shape[0]} nodes and {shape[1]} clusters.")
        return S

    def __repr__(self) -> str:
        tensors = {name: v for name, v in vars(self).items() if isinstance(v, Tensor)}
        shapes = ", ".join(f"{name}={list(v.shape)}" for name, v in tensors.items())
        return f"{self.__class__.__name__}({shapes})"
