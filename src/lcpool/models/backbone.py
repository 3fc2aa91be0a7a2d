"""The paper's two backbones: convolution, pooling, convolution, readout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from lcpool.data import GraphBatch, GraphSet
from lcpool.models.pooling import make_pooling, pooling_name
from lcpool.nn.conv import FastGCNConv, FastGraphConv, convolve
from lcpool.nn.norm import BatchNorm
from lcpool.ops.readout import readout
from lcpool.ops.topk import check_ratio, share
from lcpool.pool import Pooled, PoolingError
from lcpool.settings import NetworkSettings

CONVS: dict[str, Any] = {"gcn": FastGCNConv, "graphconv": FastGraphConv}
NORMS = {"batch": BatchNorm, "layer": nn.LayerNorm, "none": None}


@dataclass(frozen=True)
class Architecture(NetworkSettings):
    """Everything that shapes a network, apart from the data.

    Its fields are the settings that :class:`lcpool.settings.NetworkSettings` declares.

    >>> Architecture(pool="LCPool-star", ratio=0.25).pool
    'lcpool*'
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ratio(self.ratio)
        object.__setattr__(self, "pool", pooling_name(self.pool))


class Output(NamedTuple):
    """What a backbone makes of a batch.

    Items:
        logits: scores of the classes, ``[batch_size, num_classes]``.
        graph_loss: auxiliary losses of each graph, ``[batch_size]``, or None.
    """

    logits: Tensor
    graph_loss: Tensor | None


class Backbone(nn.Module):
    """pre-MLP → conv → (pool → conv) × poolings → readout → post-MLP.

    Args:
        in_channels: width of the input features.
        num_classes: number of classes.
        mean_nodes: the graphs' mean number of nodes, which sets k of dense assignment:
            ⌊ratio · ⌊mean⌋⌋, and ⌊ratio · k⌋ further on.
        architecture: the rest.
    """

    def __init__(
        self, in_channels: int, num_classes: int, mean_nodes: float, architecture: Architecture
    ) -> None:
        super().__init__()
        self.architecture = a = architecture
        conv, hidden = CONVS[a.conv], a.hidden
        self.pre = nn.Sequential(
            nn.Linear(in_channels, hidden), make_norm(a.norm, hidden), nn.ReLU()
        )
        self.convs = nn.ModuleList(conv(hidden, hidden) for _ in range(a.poolings + 1))
        self.norms = nn.ModuleList(
            nn.Sequential(make_norm(a.norm, hidden), nn.ReLU()) for _ in range(a.poolings + 1)
        )
        pools, clusters = [], int(mean_nodes)
        for _ in range(a.poolings):
            clusters = pooled_clusters(a.ratio, clusters)
            pools.append(make_pooling(a.pool, hidden, clusters, a))
        self.pools = nn.ModuleList(pools)
        self.summary: nn.Module = Summary(a.backbone == "hierarchical")
        self.post = nn.Sequential(
            nn.Linear(2 * hidden, hidden), make_norm(a.norm, hidden), nn.ReLU(),
            nn.Linear(hidden, num_classes),
        )  # fmt: skip

    @classmethod
    def of(cls, graphs: GraphSet, architecture: Architecture) -> Backbone:
        """The network for a set of graphs."""
        mean_nodes = float(graphs.node_counts.double().mean())
        return cls(graphs.num_features, graphs.num_classes, mean_nodes, architecture)

    def forward(self, graphs: GraphBatch) -> Output:
        """Score the classes of each graph."""
        graph, losses = graphs.graph, []
        x = self.pre(graph.x)
        x = self.norms[0](convolve(self.convs[0], x, graph.edges))
        readouts = [readout(x, graph)]
        for conv, norm, pool in zip(self.convs[1:], self.norms[1:], self.pools, strict=True):
            out = usable(pool, pool(x, graph), x)
            losses.append(graph_loss(out, graphs))
            graph = out.graph
            x = norm(convolve(conv, graph.x, graph.edges, graph.edge_attr))
            readouts.append(readout(x, graph))
        return Output(self.post(self.summary(readouts)), _total(losses))


class Summary(nn.Module):
    """What the readouts come to: hierarchical, their sum, else the last."""

    def __init__(self, hierarchical: bool) -> None:
        super().__init__()
        self.hierarchical = hierarchical

    def forward(self, readouts: list[Tensor]) -> Tensor:
        """One row a graph."""
        return torch.stack(readouts).sum(0) if self.hierarchical else readouts[-1]


def usable(pool: Any, out: Any, x: Tensor) -> Pooled:
    """What a pooling gave, if the convolution behind it can use it."""
    name = pool.class_name
    if not isinstance(out, Pooled):
        raise PoolingError(f"{name}: 'forward' must return a Pooled, not {type(out).__name__}.")
    if out.x.size(1) != x.size(1) or out.x.dtype != x.dtype:
        raise PoolingError(
            f"{name}: it returned features of width {out.x.size(1)} and {out.x.dtype} for width "
            f"{x.size(1)} and {x.dtype}; the convolution behind it takes what came in."
        )
    if x.size(0) and not out.x.size(0):
        raise PoolingError(f"{name}: it kept no node of any graph; keep at least one of each.")
    if out.edge_attr is not None and out.edge_attr.numel() != out.edge_index.size(1):
        raise PoolingError(
            f"{name}: it returned edge_attr of shape {list(out.edge_attr.shape)}; the convolutions "
            f"here read one weight per edge."
        )
    return out


def graph_loss(out: Pooled, graphs: GraphBatch) -> Tensor | None:
    """The auxiliary loss of each graph; one that was given for all counts for each with nodes."""
    if out.graph_loss is not None or not isinstance(out.loss, Tensor):
        return out.graph_loss
    return out.loss.expand(graphs.batch_size).where(graphs.graph.node_counts() > 0, 0.0)


def pooled_clusters(ratio: float, nodes: int) -> int:
    """K of dense assignment: ⌊ratio · nodes⌋, or the ratio itself if it is a number of nodes."""
    return ratio if isinstance(ratio, int) else int(share(ratio) * nodes)


def _total(losses: Sequence[Tensor | None]) -> Tensor | None:
    found = [loss for loss in losses if loss is not None]
    return torch.stack(found).sum(0) if found else None


def make_norm(name: str, channels: int) -> nn.Module:
    """A norm by name."""
    norm = NORMS[name]
    return nn.Identity() if norm is None else norm(channels)
