"""The paper's two backbones: convolution, pooling, convolution, readout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from lcpool.data import GraphBatch, GraphSet
from lcpool.graph.edges import Edges
from lcpool.models.conv import make_conv
from lcpool.models.pooling import make_pooling, pooling_name
from lcpool.models.readout import Readout, readout_names
from lcpool.nn.conv import convolve
from lcpool.nn.norm import BatchNorm
from lcpool.ops.topk import check_ratio, share
from lcpool.pool import Pooled, PoolingError
from lcpool.settings import NetworkSettings

NORMS: dict[str, Any] = {"batch": BatchNorm, "layer": nn.LayerNorm, "none": nn.Identity}


@dataclass(frozen=True)
class Architecture(NetworkSettings):
    """The settings of a network, as :class:`lcpool.settings.NetworkSettings` declares them.

    >>> Architecture(pool="LCPool-star", ratio=0.25).pool
    'lcpool*'
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ratio(self.ratio)
        object.__setattr__(self, "pool", pooling_name(self.pool))
        object.__setattr__(self, "readout", "+".join(readout_names(self.readout)))

    @property
    def own_classes(self) -> tuple[str, ...]:
        """The pooling and the convolution that are the user's own, as ``module:Class``."""
        return tuple(name for name in (self.pool, self.conv) if ":" in name)


class Output(NamedTuple):
    """The output of a backbone: class scores, and the auxiliary loss of each graph, if any."""

    logits: Tensor  # [batch_size, num_classes]
    graph_loss: Tensor | None  # [batch_size]


class Backbone(nn.Module):
    """A network that classifies graphs: MLP → conv → (pool → conv) × poolings → readout → MLP.

    Each conv is ``depth`` convolutions. A readout is taken after the last of them. Every hidden
    linear layer and every convolution is followed by the norm, ReLU and dropout.

    Args:
        in_channels: width of the input features.
        num_classes: number of classes.
        mean_nodes: mean number of nodes per graph, which sets the number of clusters k of DiffPool
            and MinCut: ⌊ratio · ⌊mean⌋⌋ in the first pooling, ⌊ratio · k⌋ in the next.
        architecture: the settings.
        categories: the number of categories of each categorical feature, one-hot in the first
            columns of the input (:attr:`lcpool.data.GraphSet.categories`); they are embedded.
    """

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        mean_nodes: float,
        architecture: Architecture,
        categories: Sequence[int] = (),
    ) -> None:
        super().__init__()
        self.architecture = a = architecture
        norm, hidden, levels = NORMS[a.norm], a.hidden, a.poolings + 1

        def activated() -> list[nn.Module]:
            dropout = [nn.Dropout(a.dropout)] if a.dropout else []
            return [norm(hidden), nn.ReLU(), *dropout]

        first = nn.Linear(in_channels, hidden)
        if categories:
            embed(first, sum(categories))
        self.pre = nn.Sequential(first, *activated())
        convs = range(levels * a.depth)  # those of level l are l · depth, …, (l + 1) · depth − 1
        self.convs = nn.ModuleList(make_conv(a.conv, hidden, norm) for _ in convs)
        self.norms = nn.ModuleList(nn.Sequential(*activated()) for _ in convs)
        pools, clusters = [], int(mean_nodes)
        for _ in range(a.poolings):
            clusters = pooled_clusters(a.ratio, clusters)
            pools.append(make_pooling(a.pool, hidden, clusters, a))
        self.pools = nn.ModuleList(pools)
        readouts = [Readout(a.readout, hidden) for _ in range(levels)]
        self.readouts = nn.ModuleList(readouts)
        self.summary: nn.Module = CombinedReadout(a.backbone == "hierarchical")
        self.post = nn.Sequential(
            nn.Linear(readouts[0].width, hidden), *activated(), nn.Linear(hidden, num_classes)
        )

    @classmethod
    def of(cls, graphs: GraphSet, architecture: Architecture) -> Backbone:
        """The network for a set of graphs."""
        mean_nodes = float(graphs.node_counts.double().mean())
        width, categories = graphs.num_features, graphs.categories
        return cls(width, graphs.num_classes, mean_nodes, architecture, categories)

    def forward(self, graphs: GraphBatch) -> Output:
        graph, losses = graphs.graph, []
        x = self._convolved(0, self.pre(graph.x), graph.edges)
        readouts = [self.readouts[0](x, graph)]
        for level, pool in enumerate(self.pools, start=1):
            out = usable(pool, pool(x, graph), x)
            if (loss := graph_loss(out, graphs)) is not None:
                losses.append(loss)
            graph = out.graph
            x = self._convolved(level, graph.x, graph.edges, graph.edge_attr)
            readouts.append(self.readouts[level](x, graph))
        total = torch.stack(losses).sum(0) if losses else None
        return Output(self.post(self.summary(readouts)), total)

    def _convolved(
        self, level: int, x: Tensor, edges: Edges, edge_weight: Tensor | None = None
    ) -> Tensor:
        """The features after all convolutions of a level: of the input, or after a pooling."""
        depth = self.architecture.depth
        for i in range(level * depth, (level + 1) * depth):
            x = self.norms[i](convolve(self.convs[i], x, edges, edge_weight))
        return x


@torch.no_grad()
def embed(layer: nn.Linear, columns: int) -> None:
    """Let the first ``columns`` of the input be categories, one-hot, that are embedded.

    The product of a one-hot row with W is a column of W. So the layer computes
    Σ_c E_c[x_c] + W x + b with an ``nn.Embedding`` E_c per categorical feature c, whose rows are
    these columns, and a linear layer of the other features x. The initial values are theirs.
    """
    embedding, numbers = layer.weight[:, :columns], layer.weight[:, columns:]
    nn.init.normal_(embedding)
    bound = 1 / math.sqrt(max(numbers.size(1), 1))
    nn.init.uniform_(numbers, -bound, bound)


class CombinedReadout(nn.Module):
    """One row per graph from the readouts of all convolutions: hierarchical their sum, or the last.

    A layer of its own, so that runs with either backbone can be stacked.
    """

    def __init__(self, hierarchical: bool) -> None:
        super().__init__()
        self.hierarchical = hierarchical

    def forward(self, readouts: list[Tensor]) -> Tensor:
        return torch.stack(readouts).sum(0) if self.hierarchical else readouts[-1]


def usable(pool: Any, out: Any, x: Tensor) -> Pooled:
    """The output of a pooling, if the next convolution can use it, else a ``PoolingError``."""
    name = pool.class_name
    if not isinstance(out, Pooled):
        raise PoolingError(f"{name}: 'forward' must return a Pooled, not {type(out).__name__}.")
    if out.x.size(1) != x.size(1) or out.x.dtype != x.dtype:
        raise PoolingError(
            f"{name}: it returned features of width {out.x.size(1)} and {out.x.dtype}; the next "
            f"convolution needs those of its input, width {x.size(1)} and {x.dtype}."
        )
    if x.size(0) and not out.x.size(0):
        raise PoolingError(f"{name}: it kept no node of any graph; keep at least one of each.")
    if out.edge_attr is not None and out.edge_attr.numel() != out.edge_index.size(1):
        raise PoolingError(
            f"{name}: it returned edge_attr of shape {list(out.edge_attr.shape)}; the next "
            f"convolution needs one weight per edge."
        )
    return out


def graph_loss(out: Pooled, graphs: GraphBatch) -> Tensor | None:
    """The auxiliary loss of each graph; one loss for the batch counts for each graph with nodes."""
    if out.graph_loss is not None or not isinstance(out.loss, Tensor):
        return out.graph_loss
    return out.loss.expand(graphs.batch_size).where(graphs.graph.node_counts() > 0, 0.0)


def pooled_clusters(ratio: float, nodes: int) -> int:
    """k of dense assignment: ⌊ratio · nodes⌋, or the ratio itself if it is a number of nodes."""
    return ratio if isinstance(ratio, int) else int(share(ratio) * nodes)
