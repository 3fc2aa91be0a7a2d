"""PyG's convolutions, with a short cut for the complete graphs that dense assignment makes.

After DiffPool and MinCut every graph has k nodes and all k² weighted edges. A message an edge would
cost k² rows of features; a batched product of the k × k weights with k rows gives the same.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch_geometric.nn import GCNConv, GraphConv


class GCN(GCNConv):  # type: ignore[misc]
    """PyG's ``GCNConv``; ``complete`` is k where the edges are all k² of each graph, sorted."""

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        complete: int | None = None,
    ) -> Any:
        """Convolve."""
        if complete is None or edge_weight is None:
            return super().forward(x, edge_index, edge_weight)
        A = edge_weight.view(-1, complete, complete)
        root = A.sum(1).pow(-0.5)
        root = root.masked_fill(root.isinf(), 0.0)
        A = root.unsqueeze(-1) * A * root.unsqueeze(1)
        out = aggregate(A, self.lin(x))
        return out if self.bias is None else out + self.bias


class GraphConvolution(GraphConv):  # type: ignore[misc]
    """PyG's ``GraphConv``; ``complete`` is k where the edges are all k² of each graph, sorted."""

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        complete: int | None = None,
    ) -> Any:
        """Convolve."""
        if complete is None or edge_weight is None:
            return super().forward(x, edge_index, edge_weight)
        A = edge_weight.view(-1, complete, complete)
        return self.lin_rel(aggregate(A, x)) + self.lin_root(x)


def aggregate(A: Tensor, x: Tensor) -> Tensor:
    """Σ_j A[j, i] x_j for each node i of each graph."""
    return (A.mT @ x.view(A.size(0), A.size(1), -1)).view(x.size(0), -1)
