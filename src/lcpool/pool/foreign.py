"""Pooling layers that are not an ``lcpool.Pooling``, such as PyG's, as one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from lcpool.graph.graph import Graph
from lcpool.pool.base import Pooling, shape_of
from lcpool.pool.output import Pooled

CALLED = (
    "a layer is called as pool(x, edge_index, edge_attr, batch) and must return x, edge_index, "
    "edge_attr, batch and anything after them"
)


class ForeignPooling(Pooling):
    """Any layer that is called as PyG's poolings are: ``layer(x, edge_index, edge_attr, batch)``.

    It must return ``x, edge_index, edge_attr, batch`` and anything after them: ``perm`` and
    ``score``, if they are what PyG's poolings return there. If its output has an attribute
    ``loss``, one value or one per graph, that is added in training. Whether it pools each graph
    independently is not known, so its runs are trained one at a time.
    """

    stackable: ClassVar[bool] = False

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def select(self, graph: Graph) -> Any:
        """The output of the layer; S is not known."""
        return self.layer(graph.x, graph.edge_index, graph.edge_attr, graph.batch_vector())

    def pooled(self, graph: Graph, selected: Any) -> Pooled:
        after = self._graph(graph, selected)
        return Pooled.of(
            after, **_kept(selected[4:], graph, after), **self._loss_of(selected, graph)
        )

    def _graph(self, graph: Graph, out: Any) -> Graph:
        """The pooled graph in the output of the layer, checked."""
        if not isinstance(out, tuple | list) or len(out) < 4:
            count = f" of {len(out)} items" if isinstance(out, tuple | list) else ""
            self._refuse(f"{CALLED}, not {type(out).__name__}{count}")
        x, edge_index, edge_attr, batch = out[:4]
        try:
            after = Graph.of(x, edge_index, edge_attr, batch, graph.batch_size)
        except (TypeError, ValueError) as error:
            what = str(error).rstrip(".")
            self._refuse(f"it returned a graph that cannot be used: {what}; {CALLED}", error)
        self._warn_of_empty(graph.host_counts(), after.host_counts())
        return replace(after, checks=graph.checks)

    def _loss_of(self, out: Any, graph: Graph) -> dict[str, Any]:
        """The loss in the output of the layer, for ``Pooled``."""
        loss = getattr(out, "loss", None)
        if loss is None or (isinstance(loss, int | float) and loss == 0):
            return {}
        if isinstance(loss, int | float):
            loss = graph.x.new_tensor(float(loss))
        if isinstance(loss, Tensor) and loss.numel() == 1:
            return {"loss": loss.reshape(())}
        if not isinstance(loss, Tensor) or loss.shape != (graph.batch_size,):
            self._refuse(
                f"the loss of its output must be one value, or one per graph "
                f"([{graph.batch_size}]), not {shape_of(loss)}"
            )
        return {"loss": loss.mean(), "graph_loss": loss}

    @property
    def class_name(self) -> str:
        return type(self.layer).__name__

    def __repr__(self) -> str:
        return repr(self.layer)


def _kept(items: Sequence[Any], graph: Graph, after: Graph) -> dict[str, Any]:
    """``perm`` and ``score`` in what a layer returned after ``batch``, if they can be these."""
    perm, score, *_ = (*items, None, None)
    count, last = after.num_nodes, graph.num_nodes - 1
    if not isinstance(perm, Tensor) or perm.dtype != torch.int64 or perm.shape != (count,):
        return {}
    if last < 0:
        return {}
    inside = perm.clamp(0, last)
    same = graph.batch_vector()[inside] == after.batch_vector()
    if not ((perm == inside) & same).all():
        return {}
    found: dict[str, Any] = {"perm": perm}
    if isinstance(score, Tensor) and score.is_floating_point() and score.numel() == count:
        found["score"] = score.view(-1)
    return found


def as_pooling(layer: nn.Module) -> Pooling:
    """The layer itself if it is a :class:`Pooling`, else a :class:`ForeignPooling` of it."""
    return layer if isinstance(layer, Pooling) else ForeignPooling(layer)


def make_layer(
    cls: Callable[..., nn.Module], channels: int, ratio: float, num_clusters: int
) -> nn.Module:
    """``cls(channels)``, with ``ratio=`` and ``num_clusters=`` where it takes them."""
    names = inspect.signature(cls).parameters
    given = {"ratio": ratio, "num_clusters": num_clusters}
    return cls(channels, **{name: value for name, value in given.items() if name in names})
