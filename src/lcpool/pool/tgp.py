"""The poolings of torch-geometric-pool ("tgp"), called as PyG's poolings are."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

from torch import Tensor, nn

from lcpool.graph.graph import edge_weight

PREFIX = "tgp:"
INSTALL = (
    "its poolings come with torch-geometric-pool, which also needs torch-scatter: pip install "
    "torch-geometric-pool torch-scatter"
)


class TGPOutput(NamedTuple):
    """A pooled graph, and the sum of the losses of tgp's layer, one value for the batch."""

    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor | None
    batch: Tensor | None
    loss: Tensor | None


class TGPPooling(nn.Module):
    """A pooling of tgp by its name there, for :class:`~lcpool.pool.ForeignPooling`.

    It is made by tgp's ``get_pooler``, which ignores what a layer does not take.

    Args:
        name: a name in ``tgp.poolers.pooler_map``, such as ``"kmis"``.
        in_channels: width of the node features.
        ratio: the ratio of kept nodes, for poolings that take one.
        num_clusters: the number of clusters, for dense poolings.
    """

    def __init__(self, name: str, in_channels: int, ratio: float, num_clusters: int) -> None:
        super().__init__()
        tgp_class(name)
        options = {"in_channels": in_channels, "ratio": ratio, "k": num_clusters}
        # Sparse batches come out of dense poolings too, and one mode of EigenPool keeps the width.
        options |= {"sparse_output": True, "num_modes": 1}
        self.layer: Any = import_module("tgp.poolers").get_pooler(name, **options)

    def reset_parameters(self) -> None:
        self.layer.reset_parameters()

    def forward(
        self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None, batch: Tensor
    ) -> TGPOutput:
        weight = edge_weight(edge_attr, x.dtype)
        out = self.layer(x=x, adj=edge_index, edge_weight=weight, batch=batch)
        loss = sum(out.get_loss_value()) if out.has_loss else None
        return TGPOutput(out.x, out.edge_index, out.edge_weight, out.batch, loss)

    def __repr__(self) -> str:
        return repr(self.layer)


def tgp_class(name: str) -> type[nn.Module]:
    """The class of tgp's pooling; a ``ValueError`` says what is missing."""
    try:
        known: dict[str, type[nn.Module]] = import_module("tgp.poolers").pooler_map
    except ImportError as error:
        raise ValueError(f"cannot import '{PREFIX}{name}': {error}; {INSTALL}.") from error
    if name not in known:
        raise ValueError(f"tgp has no pooling '{name}': choose one of {', '.join(known)}.")
    return known[name]
