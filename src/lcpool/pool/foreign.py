"""Poolings from elsewhere, PyG's and users' own layers, behind the interface of ours."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from lcpool.graph.graph import Graph
from lcpool.notice import warn_caller
from lcpool.pool.base import Pooling
from lcpool.pool.output import Pooled

CALLED = (
    "a layer is called as pool(x, edge_index, edge_attr, batch) and returns x, edge_index, "
    "edge_attr, batch and what else it likes"
)


class ForeignPooling(Pooling):
    """Any layer that is called as PyG's poolings are: ``layer(x, edge_index, edge_attr, batch)``.

    It returns ``x, edge_index, edge_attr, batch`` and what else it likes. An attribute ``loss`` of
    what it returns, one value or one per graph, counts in training. Whether it pools each graph as
    if it were alone is not known: its runs are trained one at a time.

    Args:
        layer: the layer.
    """

    stackable: ClassVar[bool] = False

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer
        self.emptied = False

    def forward(
        self,
        x: Tensor | Graph,
        edge_index: Tensor | Graph | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        *,
        batch_size: int | None = None,
    ) -> Pooled:
        """Call the layer and check what it returns."""
        graph = self.check(x, edge_index, edge_attr, batch, batch_size)
        out = self.layer(graph.x, graph.edge_index, graph.edge_attr, graph.batch_vector())
        after = self._graph(graph, out)
        items = (after.x, after.edge_index, after.edge_attr, after.batch_vector())
        return Pooled(*items, graph=after, **self._loss_of(out, graph))

    def _graph(self, graph: Graph, out: Any) -> Graph:
        """The graph that came back, once it is known to be one."""
        try:
            x, edge_index, edge_attr, batch = out[:4]
        except (TypeError, ValueError, KeyError) as error:
            self._refuse(f"{CALLED}, not {type(out).__name__}", error)
        try:
            after = Graph.of(x, edge_index, edge_attr, batch, graph.batch_size)
        except (TypeError, ValueError) as error:
            self._refuse(f"it returned a graph that cannot be used: {str(error)[:-1]}; {CALLED}",
                         error)  # fmt: skip
        if after.x.size(1) != graph.x.size(1):
            self._refuse(
                f"it returned features of width {after.x.size(1)} for {graph.x.size(1)}; the "
                f"convolution behind it takes as many as came in"
            )
        self._look_for_emptied(graph, after)
        return Graph(
            after.x, after.edges, after.edge_attr, after.batch, graph.batch_size, after.sizes,
            graph.checks,
        )  # fmt: skip

    def _look_for_emptied(self, before: Graph, after: Graph) -> None:
        """Say once that graphs lose all their nodes: a readout of none is zero."""
        if self.emptied:
            return
        counts = [g.sizes.counts if g.sizes else g.node_counts().cpu() for g in (before, after)]
        lost = int(((counts[0] > 0) & (counts[1] == 0)).sum())
        if lost:
            self.emptied = True
            warn_caller(
                f"{self._name} left {lost} of {before.batch_size} graphs without a node; what a "
                f"network reads from them is zero. Keep at least one node of each graph."
            )

    def _loss_of(self, out: Any, graph: Graph) -> dict[str, Any]:
        """The loss that came with the output, for each graph."""
        loss = getattr(out, "loss", None)
        if loss is None or (not isinstance(loss, Tensor) and loss == 0):
            return {}
        loss = torch.as_tensor(loss, dtype=graph.x.dtype, device=graph.x.device)
        if loss.numel() == 1:
            return {"loss": loss.reshape(())}
        if loss.shape != (graph.batch_size,):
            self._refuse(
                f"the loss of its output must be one value, or one per graph "
                f"([{graph.batch_size}]), not of shape {list(loss.shape)}"
            )
        return {"loss": loss.mean(), "graph_loss": loss}

    @property
    def _name(self) -> str:
        return type(self.layer).__name__

    def __repr__(self) -> str:
        return repr(self.layer)


def as_pooling(layer: nn.Module) -> Pooling:
    """The layer, or what stands for it where it is not one of ours."""
    return layer if isinstance(layer, Pooling) else ForeignPooling(layer)


def make_layer(
    cls: Callable[..., nn.Module], channels: int, ratio: float, num_clusters: int
) -> nn.Module:
    """``cls(channels)``, with ``ratio=`` and ``num_clusters=`` where it takes them."""
    names = inspect.signature(cls).parameters
    given = {"ratio": ratio, "num_clusters": num_clusters}
    return cls(channels, **{name: value for name, value in given.items() if name in names})
