"""PyG's convolutions in fewer steps: same parameters, same names, same results.

PyG's GCN rewrites the edges to add self-loops, for which a GPU synchronises. Here the term of the
node itself is added beside the sum.

After DiffPool and MinCut every graph has k nodes and all k² weighted edges. One message per edge
would cost k² rows of features; a batched product of the k × k weights with k rows gives the same
as PyG's dense convolutions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.nn.inits import reset

from lcpool.graph.edges import Edges, loop_weights
from lcpool.graph.graph import check_channels, check_edge_attr
from lcpool.graph.graph import edge_weight as one_weight
from lcpool.graph.precision import wide
from lcpool.ops.message import gcn_sum, neighbour_sum, weighted_sum


def convolve(
    conv: Callable[..., Any],
    x: Tensor,
    edges: Edges,
    edge_weight: Tensor | None = None,
    edge_attr: Tensor | None = None,
) -> Tensor:
    """``conv(x, edges)``, with the weights third and ``edge_attr=``, if there are any."""
    check_channels(conv, x)
    weights = () if edge_weight is None else (edge_weight,)
    attributes = {} if edge_attr is None else {"edge_attr": edge_attr}
    out: Tensor = conv(x, edges_for(conv, edges), *weights, **attributes)
    return out


def edges_for(layer: Any, edges: Edges) -> Any:
    """The :class:`Edges` for a layer that takes them, else the index ``[2, num_edges]``."""
    return edges if getattr(layer, "takes_edges", False) else edges.index


def faster(conv: Callable[..., Any]) -> Callable[..., Any]:
    """The faster class for a class of PyG, if this module has one, else the class itself."""
    known = {pyg.GCNConv: FastGCNConv, pyg.GraphConv: FastGraphConv, pyg.LEConv: FastLEConv}
    return known.get(conv, conv)


class OnEdges:
    """A convolution of PyG that also takes :class:`Edges`, which may be sorted already."""

    aggr: Any

    @property
    def takes_edges(self) -> bool:
        """False with an option that :meth:`on` does not implement: then PyG's own code runs."""
        return self.aggr == "add" and no_one_reads_messages(self)

    def on(self, x: Tensor, edges: Edges, edge_weight: Tensor | None) -> Tensor:
        """The convolution, with one weight per edge or none."""
        raise NotImplementedError

    def forward(
        self, x: Any, edge_index: Any, edge_weight: Tensor | None = None, *more: Any, **named: Any
    ) -> Tensor:
        if isinstance(edge_index, Edges):
            return self.on(x, edge_index, edge_weight)
        if self.takes_edges and are_plain(x, edge_index):
            edges = Edges(edge_index, x.size(0), like=x)
            check_edge_attr(edge_weight, edges.index)
            return self.on(x, edges, one_weight(edge_weight, x.dtype))
        out: Tensor = super().forward(x, edge_index, edge_weight, *more, **named)  # type: ignore[misc]
        return out


class FastGCNConv(OnEdges, pyg.GCNConv):  # type: ignore[misc]
    """PyG's ``GCNConv``, faster with the default options."""

    @property
    def takes_edges(self) -> bool:
        loops = self.normalize and self.add_self_loops and not self.improved
        return loops and not self.cached and super().takes_edges

    def on(self, x: Tensor, edges: Edges, edge_weight: Tensor | None) -> Tensor:
        x = self.lin(x)
        if edge_weight is None:
            out = gcn_sum(x, edges)
        elif edges.complete is not None:
            out = gcn_complete(x, edge_weight.view(-1, edges.complete, edges.complete))
        else:
            out = gcn_sparse(x, edges, edge_weight)
        return out if self.bias is None else out + self.bias


class FastGraphConv(OnEdges, pyg.GraphConv):  # type: ignore[misc]
    """PyG's ``GraphConv``, faster with the default options."""

    def on(self, x: Tensor, edges: Edges, edge_weight: Tensor | None) -> Tensor:
        out: Tensor = self.lin_rel(weighted_neighbours(x, edges, edge_weight)) + self.lin_root(x)
        return out


class FastGINConv(OnEdges, pyg.GINConv):  # type: ignore[misc]
    """PyG's ``GINConv`` with ε = 0 and an MLP of two layers, faster.

    x_i' = W₂ relu(norm(W₁ (x_i + Σ_j e_ji x_j) + b₁)) + b₂, with e_ji = 1 if there are no weights.
    PyG's layer takes no weights; its dense version for pooled graphs does, as here.

    Args:
        in_channels: width of the input.
        out_channels: width of the hidden layer and of the output.
        norm: the class of the normalisation between the two layers, called with its width.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        norm: Callable[[int], nn.Module] = nn.BatchNorm1d,
    ) -> None:
        super().__init__(two_layers(in_channels, out_channels, norm))
        self.in_channels = in_channels
        # A number in place of PyG's buffer: it never changes, and runs can be stacked.
        del self.eps
        self.eps: float = 0.0

    def reset_parameters(self) -> None:
        reset(self.nn)

    def on(self, x: Tensor, edges: Edges, edge_weight: Tensor | None) -> Tensor:
        out: Tensor = self.nn(x + weighted_neighbours(x, edges, edge_weight))
        return out


class FastLEConv(OnEdges, pyg.LEConv):  # type: ignore[misc]
    """PyG's ``LEConv``, the local extremum convolution, faster with the default options."""

    def on(self, x: Tensor, edges: Edges, edge_weight: Tensor | None) -> Tensor:
        """Σ_j e_ji (W₁x_j − W₂x_i) + W₃x_i, with Σ e_ji as one more column of Σ e_ji W₁x_j."""
        # Two large numbers are subtracted: not in 16 bits.
        a, b = wide(self.lin1(x)), wide(self.lin2(x))
        terms = torch.cat([a, torch.ones_like(a[:, :1])], dim=-1)
        if edge_weight is None:
            total = neighbour_sum(terms, edges)
        else:
            total = weighted_sum(terms, edge_weight, edges.entries)
        out: Tensor = (total[:, :-1] - total[:, -1:] * b).to(x.dtype) + self.lin3(x)
        return out


def two_layers(
    in_channels: int, out_channels: int, norm: Callable[[int], nn.Module]
) -> nn.Sequential:
    """The MLP of GIN: linear, norm, ReLU, linear."""
    return nn.Sequential(
        nn.Linear(in_channels, out_channels),
        norm(out_channels),
        nn.ReLU(),
        nn.Linear(out_channels, out_channels),
    )


def weighted_neighbours(x: Tensor, edges: Edges, edge_weight: Tensor | None) -> Tensor:
    """Σ_j e_ji x_j for each node i, with e_ji = 1 if there are no weights."""
    if edge_weight is None:
        return neighbour_sum(x, edges)
    if edges.complete is not None:
        return aggregate(edge_weight.view(-1, edges.complete, edges.complete), x)
    return weighted_sum(x, edge_weight, edges.entries)


def are_plain(x: Any, edge_index: Any) -> bool:
    """Whether there is one matrix of features, and edges as a dense index."""
    tensors = type(x) is Tensor and type(edge_index) is Tensor
    return tensors and x.dim() == 2 and edge_index.layout == torch.strided


def no_one_reads_messages(conv: Any) -> bool:
    """Whether neither an explainer nor a hook needs PyG's single messages."""
    steps = ("propagate", "message", "aggregate", "message_and_aggregate", "edge_update")
    kinds = ("_forward_pre_hooks", "_forward_hooks")
    hooked = any(getattr(conv, f"_{step}{kind}") for step in steps for kind in kinds)
    return conv.flow == "source_to_target" and not conv.explain and not hooked


def gcn_sparse(x: Tensor, edges: Edges, edge_weight: Tensor) -> Tensor:
    """D^(-1/2) (A + I) D^(-1/2) X, where I has a self-loop for each node without one in A."""
    weight = edge_weight.to(x.dtype)
    if edges.loops is False:
        own = weight.new_ones(x.size(0), 1)
    else:
        own = loop_weights(edges.index, weight, x.size(0)).unsqueeze(-1)
        weight = weight.masked_fill(edges.index[0] == edges.index[1], 0.0)
    degree = own + weighted_sum(torch.ones_like(own), weight, edges.entries)
    positive = degree > 0
    root = degree.where(positive, 1.0).rsqrt().where(positive, 0.0)  # gradient 0 where it is 0
    x = root * x
    return root * (own * x + weighted_sum(x, weight, edges.entries))


def gcn_complete(x: Tensor, A: Tensor) -> Tensor:
    """D^(-1/2) Â D^(-1/2) X as in PyG's ``DenseGCNConv``: Â is A with ones on the diagonal.

    A degree counts as at least 1, so that an empty cluster has finite gradients.
    """
    eye = torch.eye(A.size(-1), dtype=A.dtype, device=A.device)
    A = A * (1 - eye) + eye
    root = A.sum(1).clamp(min=1).rsqrt()
    return aggregate(root.unsqueeze(-1) * A * root.unsqueeze(1), x)


def aggregate(A: Tensor, x: Tensor) -> Tensor:
    """Σ_j A[j, i] x_j for each node i of each graph."""
    return (A.mT @ x.view(A.size(0), A.size(1), -1)).view(x.size(0), -1)
