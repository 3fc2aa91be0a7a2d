"""The paper's two backbones: convolution, pooling, convolution, readout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from lcpool.data import GraphBatch, GraphSet
from lcpool.data.checks import warn_once
from lcpool.graph.edges import Edges
from lcpool.models.conv import CONVS, make_conv, takes_edge_attr
from lcpool.models.own import import_class
from lcpool.models.pooling import edge_attr_keepers, keeps_edge_attr, make_pooling, pooling_name
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
    def reads_edge_attr(self) -> bool:
        """Whether the convolution may read edge attributes."""
        return self.conv == "gine" or ":" in self.conv

    @property
    def own_classes(self) -> tuple[str, ...]:
        """The pooling, convolution and network that are the user's own, as ``module:Class``."""
        return tuple(name for name in (self.pool, self.conv, self.backbone) if ":" in name)


class Output(NamedTuple):
    """The output of a backbone: scores, and the auxiliary loss of each graph, if any."""

    logits: Tensor  # [batch_size, num_outputs]
    graph_loss: Tensor | None  # [batch_size]


class Backbone(nn.Module):
    """A network that predicts of graphs: MLP → conv → (pool → conv) × poolings → readout → MLP.

    Each conv is ``depth`` convolutions. A readout is taken after the last of them. Every hidden
    linear layer and every convolution is followed by the norm, ReLU and dropout.

    A network of your own, ``--backbone module:Class``, is a subclass that puts other layers in the
    places of ``pre``, ``convs``, ``norms``, ``readouts`` or ``post``, or overrides
    ``hierarchical``.

    Args:
        in_channels: width of the input features.
        num_outputs: how many numbers to give per graph: a score per class or label, or values.
        mean_nodes: mean number of nodes per graph, which sets the number of clusters k of DiffPool
            and MinCut: ⌊ratio · ⌊mean⌋⌋ in the first pooling, ⌊ratio · k⌋ in the next.
        architecture: the settings.
        categories: the number of categories of each categorical feature, one-hot in the first
            columns of the input (:attr:`lcpool.data.GraphSet.categories`); they are embedded.
        edge_dim: width of the edge attributes, or None if there are none.

    Attributes:
        edge_dims: width of the edge attributes that the convolutions of each level read, or None:
            those before the first pooling, then those after each.
    """

    def __init__(
        self,
        in_channels: int,
        num_outputs: int,
        mean_nodes: float,
        architecture: Architecture,
        categories: Sequence[int] = (),
        edge_dim: int | None = None,
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
        self.edge_dims = edge_dims(a, edge_dim)
        # The convolutions of level l are l · depth, …, (l + 1) · depth − 1.
        widths = [width for width in self.edge_dims for _ in range(a.depth)]
        self.convs = nn.ModuleList(make_conv(a.conv, hidden, norm, width) for width in widths)
        self.norms = nn.ModuleList(nn.Sequential(*activated()) for _ in widths)
        pools, clusters = [], int(mean_nodes)
        for _ in range(a.poolings):
            clusters = pooled_clusters(a.ratio, clusters)
            pools.append(make_pooling(a.pool, hidden, clusters, a))
        self.pools = nn.ModuleList(pools)
        readouts = [Readout(a.readout, hidden) for _ in range(levels)]
        self.readouts = nn.ModuleList(readouts)
        self.summary: nn.Module = CombinedReadout(self.hierarchical)
        self.post = nn.Sequential(
            nn.Linear(readouts[0].width, hidden), *activated(), nn.Linear(hidden, num_outputs)
        )

    @property
    def hierarchical(self) -> bool:
        """Whether the readouts of all levels are added; else the last one counts alone."""
        return self.architecture.backbone == "hierarchical"

    @classmethod
    def of(cls, graphs: GraphSet, architecture: Architecture) -> Backbone:
        """The network for a set of graphs."""
        mean_nodes = float(graphs.node_counts.double().mean())
        widths = graphs.num_features, graphs.num_outputs
        edge_dim = graphs.num_edge_features or None
        return cls(*widths, mean_nodes, architecture, graphs.categories, edge_dim)

    def forward(self, graphs: GraphBatch) -> Output:
        graph, losses = graphs.graph, []
        x = self.pre(graph.x)
        attributes = self._attributes(graphs, x)
        x = self._convolved(0, x, graph.edges, edge_attr=attributes)
        readouts = [self.readouts[0](x, graph)]
        if attributes is not None and self.edge_dims[1] is not None:
            graph = replace(graph, edge_attr=attributes)
        for level, pool in enumerate(self.pools, start=1):
            width = self.edge_dims[level]
            out = usable(pool, pool(x, graph), x, width)
            if (loss := graph_loss(out, graphs)) is not None:
                losses.append(loss)
            graph = out.graph
            kind = "edge_weight" if width is None else "edge_attr"
            x = self._convolved(level, graph.x, graph.edges, **{kind: graph.edge_attr})
            readouts.append(self.readouts[level](x, graph))
        total = torch.stack(losses).sum(0) if losses else None
        return Output(self.post(self.summary(readouts)), total)

    def _attributes(self, graphs: GraphBatch, x: Tensor) -> Tensor | None:
        """The edge attributes, if the convolutions read them."""
        width, attributes = self.edge_dims[0], graphs.edge_attr
        if width is None:
            return None
        found = 0 if attributes is None else attributes.shape[1:].numel()
        if attributes is None or found != width:
            raise ValueError(f"the network reads {width} attributes per edge, not {found}.")
        return attributes.view(-1, width).to(x.dtype)

    def _convolved(
        self,
        level: int,
        x: Tensor,
        edges: Edges,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
    ) -> Tensor:
        """The features after all convolutions of a level: of the input, or after a pooling."""
        depth = self.architecture.depth
        for i in range(level * depth, (level + 1) * depth):
            x = self.norms[i](convolve(self.convs[i], x, edges, edge_weight, edge_attr))
        return x


def network_class(name: str) -> type[Backbone]:
    """The class of the backbone ``name``: this one, or the user's own as ``module:Class``."""
    if ":" not in name:
        return Backbone
    cls = import_class(name)
    if not (isinstance(cls, type) and issubclass(cls, Backbone)):
        raise TypeError(f"'{name}' must be a subclass of lcpool.models.Backbone, not {cls!r}.")
    return cls


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


def edge_dims(a: Architecture, width: int | None) -> list[int | None]:
    """The width of the edge attributes that the convolutions of each level read, or None.

    The data have ``width`` attributes per edge. After a pooling that makes edges of its own there
    are none, which is said once.
    """
    kind = takes_edge_attr(a.conv)
    if kind is None or (width is None and kind != "needed"):
        return [None] * (a.poolings + 1)
    if width is None:
        raise ValueError(
            f"'{a.conv}' reads edge attributes, and the graphs have none: choose a convolution "
            f"that needs none, such as gin."
        )
    if keeps_edge_attr(a.pool):
        return [width] * (a.poolings + 1)
    *names, last = edge_attr_keepers()
    keep = f"{', '.join(names)} and {last} keep them"
    if kind == "needed" and a.conv not in CONVS:
        raise ValueError(
            f"'{a.conv}' needs 'edge_attr', which {a.pool} does not return: {keep}; or give the "
            f"argument a default of None."
        )
    warn_once(
        f"{a.pool} makes edges of its own: the convolutions after it read no edge attributes "
        f"({keep})."
    )
    return [width] + [None] * a.poolings


def usable(pool: Any, out: Any, x: Tensor, width: int | None = None) -> Pooled:
    """The output of a pooling, if the next convolution can use it, else a ``PoolingError``.

    The convolution reads ``width`` attributes per edge; if None, at most one weight.
    """
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
    attr = out.edge_attr
    if attr is None and width is None:
        return out
    edges = out.graph.edges.room
    if width is not None and (attr is None or attr.shape != (edges, width)):
        found = None if attr is None else list(attr.shape)
        raise PoolingError(
            f"{name}: it returned edge_attr of shape {found}; 'keeps_edge_attr' says that the next "
            f"convolution gets {width} attributes per edge, shape {[edges, width]}."
        )
    if width is None and attr is not None and attr.numel() != edges:
        raise PoolingError(
            f"{name}: it returned edge_attr of shape {list(attr.shape)}; the next "
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
