"""PyG's convolutions, in fewer steps.

The parameters, their names and the results are PyG's. PyG's GCN rewrites the edges to add
self-loops, for which a GPU must be waited for; here a node's own term is added beside the sum.

After DiffPool and MinCut every graph has k nodes and all k² weighted edges: a message an edge would
cost k² rows of features, and a batched product of the k × k weights with k rows gives the same as
PyG's dense convolutions, which are what follows these poolings in PyG.
"""

from __future__ import annotations

from typing import Any

import torch
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
        x = self.lin(x)
        if complete is not None and edge_weight is not None:
            out = gcn_complete(x, edge_weight.view(-1, complete, complete))
        else:
            out = gcn_sparse(x, edge_index, edge_weight)
        return out if self.bias is None else out + self.bias


def gcn_sparse(x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Tensor:
    """D^(-1/2) (A + I) D^(-1/2) X, where I stands for the self-loops that A has not."""
    source, target = edge_index
    loop = source == target
    if edge_weight is None:
        weight, own = (~loop).to(x.dtype), x.new_ones(x.size(0))
    else:
        weight = edge_weight.masked_fill(loop, 0.0)
        # Edges that are no loops write to a row past the last.
        place = source.masked_fill(~loop, x.size(0))
        own = edge_weight.new_ones(x.size(0) + 1).scatter(0, place, edge_weight)[:-1]
    root = inverse_root(own.index_add(0, target, weight)).unsqueeze(-1)
    x = root * x
    rows = x.index_select(0, source) * weight.unsqueeze(-1)
    return root * (own.unsqueeze(-1) * x).index_add(0, target, rows)


def gcn_complete(x: Tensor, A: Tensor) -> Tensor:
    """D^(-1/2) Â D^(-1/2) X as in PyG's ``DenseGCNConv``: Â is A with ones on the diagonal.

    No degree counts less than 1, so that a cluster nobody is in has finite gradients.
    """
    eye = torch.eye(A.size(-1), dtype=A.dtype, device=A.device)
    A = A * (1 - eye) + eye
    root = A.sum(1).clamp(min=1).rsqrt()
    return aggregate(root.unsqueeze(-1) * A * root.unsqueeze(1), x)


def inverse_root(degree: Tensor) -> Tensor:
    """d^(-1/2), and 0 with gradient 0 where d is not positive."""
    positive = degree > 0
    return degree.where(positive, 1.0).rsqrt().where(positive, 0.0)


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
