r"""A second reading of the paper: the networks of its author's public harness.

As it stood when the paper appeared, that harness differs from the paper's text (`READING.md`):

    pre     linear → BatchNorm                            no ReLU
    level   convolution → ReLU → BatchNorm                the text: convolution → BatchNorm → ReLU
    pooling → BatchNorm → convolution                     hierarchical: also without pooling
    readout sum ‖ max                                     a setting: ``readout = "sum+max"``
    weights of pooled graphs are dropped                  ASAP, DiffPool, MinCut
    epoch   lowest validation loss, auxiliary terms in    a setting: ``selection_loss = "total"``
    SAG and ASAP are PyG's                                as ``torch_geometric.nn:SAGPooling``

The layer LCPool was never committed there: it is the one of this library. Everything else (split
8:1:1, Adam, learning rate, batch, patience, post-MLP) is as in the first reading. The grids are in
``results/harness``, and ``python -m paper harness`` compares both readings with the paper.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from lcpool.graph.edges import Edges
from lcpool.models import Backbone
from lcpool.nn.conv import convolve
from lcpool.nn.norm import BatchNorm
from lcpool.settings import BACKBONES


class Harness(Backbone):
    """The harness's network; :class:`Hierarchical` and :class:`Plain` say what is read out."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        a = self.architecture
        if (a.norm, a.readout, a.dropout) != ("batch", "sum+max", 0):
            raise ValueError(
                "the harness has batch norm, readout sum+max and no dropout: pass "
                "--readout sum+max and leave the others at their defaults."
            )
        linear, norm, _relu = self.pre
        self.pre = nn.Sequential(linear, norm)
        self.norms = nn.ModuleList(
            nn.Sequential(nn.ReLU(), BatchNorm(a.hidden)) for _ in self.norms
        )
        normed = a.pool != "nopool" or self.hierarchical
        for level in range(1, a.poolings + 1):
            norm = BatchNorm(a.hidden) if normed else nn.Identity()
            self.convs[level * a.depth] = Behind(norm, self.convs[level * a.depth])


class Hierarchical(Harness):
    """Reads out after every convolution, and adds."""

    hierarchical = True


class Plain(Harness):
    """Reads out after the last convolution."""

    hierarchical = False


# The names of the networks in a grid.
NETWORKS = {
    f"{cls.__module__}:{cls.__name__}": name
    for cls, name in zip((Hierarchical, Plain), BACKBONES, strict=True)
}
# Its poolings that are not this library's, by the paper's names.
POOLINGS = {
    "torch_geometric.nn:SAGPooling": "sagpool",
    "torch_geometric.nn:ASAPooling": "asapool",
}


class Behind(nn.Module):
    """The convolution behind a pooling: of normalised features, and of edges without weights.

    A weight of zero, as on the diagonal of MinCut's A', is no edge.
    """

    takes_edges = True

    def __init__(self, norm: nn.Module, conv: nn.Module) -> None:
        super().__init__()
        self.norm, self.conv = norm, conv

    def forward(self, x: Tensor, edges: Edges, edge_weight: Tensor | None = None) -> Tensor:
        if edge_weight is not None:
            edges = Edges.trusted(edges.index[:, edge_weight.view(-1) != 0], x.size(0))
        return convolve(self.conv, self.norm(x), edges)


def outside_mlps(name: str) -> bool:
    """Whether a tensor of the network is a BatchNorm's outside its two MLPs.

    The harness does not reset these between runs.
    """
    return name.startswith("norms.") or ".norm." in name
