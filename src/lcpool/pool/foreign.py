"""Poolings from elsewhere, PyG's and users' own layers, behind the interface of ours."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

from torch import Tensor, nn

from lcpool.graph.graph import Graph
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

    def select(self, graph: Graph) -> Any:
        """What the layer returns; which nodes it joined is not known."""
        return self.layer(graph.x, graph.edge_index, graph.edge_attr, graph.batch_vector())

    def pooled(self, graph: Graph, selected: Any) -> Pooled:
        """What the layer returned, checked."""
        after = self._graph(graph, selected)
        items = (after.x, after.edge_index, after.edge_attr, after.batch_vector())
        return Pooled(*items, graph=after, **self._loss_of(selected, graph))

    def _graph(self, graph: Graph, out: Any) -> Graph:
        """The graph that came back, once it is known to be one."""
        if not isinstance(out, tuple | list) or len(out) < 4:
            count = f" of {len(out)} items" if isinstance(out, tuple | list) else ""
            self._refuse(f"{CALLED}, not {type(out).__name__}{count}")
        x, edge_index, edge_attr, batch = out[:4]
        try:
            after = Graph.of(x, edge_index, edge_attr, batch, graph.batch_size)
        except (TypeError, ValueError) as error:
            what = str(error).rstrip(".")
            self._refuse(f"it returned a graph that cannot be used: {what}; {CALLED}", error)
        self._say_emptied(graph.host_counts(), after.host_counts())
        return Graph(
            after.x, after.edges, after.edge_attr, after.batch, graph.batch_size, after.sizes,
            graph.checks,
        )  # fmt: skip

    def _loss_of(self, out: Any, graph: Graph) -> dict[str, Any]:
        """The loss that came with the output, for each graph."""
        loss = getattr(out, "loss", None)
        if loss is None or (not isinstance(loss, Tensor) and loss == 0):
            return {}
        value = loss
        if isinstance(loss, int | float):
            value = graph.x.new_tensor(float(loss))
        if isinstance(value, Tensor) and value.numel() == 1:
            return {"loss": value.reshape(())}
        if not isinstance(value, Tensor) or value.shape != (graph.batch_size,):
            kind = list(value.shape) if isinstance(value, Tensor) else type(value).__name__
            self._refuse(
                f"the loss of its output must be one value, or one per graph "
                f"([{graph.batch_size}]), not {kind}"
            )
        return {"loss": value.mean(), "graph_loss": value}

    @property
    def class_name(self) -> str:
        """The layer's."""
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
