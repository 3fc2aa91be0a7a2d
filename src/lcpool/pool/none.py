"""No pooling, as a layer: the baseline of a comparison."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from lcpool.graph.assignment import Assignment
from lcpool.graph.graph import Graph
from lcpool.pool.base import Pooling
from lcpool.pool.output import Pooled
from lcpool.pool.selection import Selection


class NoPooling(Pooling):
    r"""Leave graphs as they are: :math:`S = I, X' = X, A' = A`."""

    keeps_connected: ClassVar[bool] = True
    keeps_edge_attr = True
    expressive: ClassVar[bool] = True
    cost: ClassVar[str] = "nothing"

    def select(self, graph: Graph) -> Selection:
        make = partial(_identity, graph.num_nodes, graph.x.device)
        return Selection(make, graph.batch_vector(), graph.sizes)

    def pooled_counts(self, counts: Tensor) -> Tensor:
        return counts

    def pooled(self, graph: Graph, selected: Selection | Assignment) -> Pooled:
        return Pooled.of(graph, self._selection(graph, selected), lifting=self.lift)


def _identity(num_nodes: int, device: torch.device) -> Assignment:
    return Assignment.of_nodes(torch.arange(num_nodes, device=device), num_nodes)
