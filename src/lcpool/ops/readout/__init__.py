"""Reductions over the nodes of each graph: the softmax of scores, and the readout."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lcpool.graph.checks import check_lengths
from lcpool.graph.graph import Graph
from lcpool.graph.precision import wide
from lcpool.ops.operator import gradient_operator, operator
from lcpool.ops.readout import plain


def graph_softmax(values: Tensor, graph: Graph) -> Tensor:
    """The softmax over the nodes of each graph, summed in float32 or better."""
    check_lengths(values=(values, graph.num_nodes))
    h = wide(values)
    if graph.batch is None:
        h = h.softmax(dim=0)
    elif graph.sizes is not None:
        h = softmax(h, graph.sizes.ptr)
    else:
        ptr, node = graph.members.ptr, graph.members.node
        h = torch.empty_like(h).index_copy(0, node, softmax(h.index_select(0, node), ptr))
    return h.to(values.dtype)


def readout(x: Tensor, graph: Graph) -> Tensor:
    """Mean ‖ max over the nodes of each graph, ``[batch_size, 2 · channels]``; zeros for none."""
    check_lengths(x=(x, graph.num_nodes))
    rows = wide(x)
    if graph.sizes is not None:
        out, _ = mean_and_max(rows, graph.sizes.ptr)
    else:
        ptr, node = graph.members.ptr, graph.members.node
        out, _ = mean_and_max(rows.index_select(0, node), ptr)
    result: Tensor = out.to(x.dtype)
    return result


class Softmax:
    """exp(v) / Σ exp(v) over the nodes ``ptr[g]`` to ``ptr[g + 1]`` of each graph g."""

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        ctx.save_for_backward(output, inputs[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return softmax_backward(grad, *ctx.saved_tensors), None


class MeanAndMax:
    """Mean ‖ max over the nodes ``ptr[g]`` to ``ptr[g + 1]``, and how many share each maximum."""

    @staticmethod
    def fake(x: Tensor, ptr: Tensor) -> tuple[Tensor, Tensor]:
        graphs, channels = ptr.numel() - 1, x.size(1)
        ties = x.new_empty(graphs, channels, dtype=torch.int32)
        return x.new_empty(graphs, 2 * channels), ties

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs, *output)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, _: None) -> tuple[Tensor | None, None]:
        return None if grad is None else readout_backward(grad, *ctx.saved_tensors), None


softmax = operator("softmax(Tensor values, Tensor ptr) -> Tensor", Softmax)
softmax_backward = gradient_operator(plain.softmax_backward, 1)
mean_and_max = operator("readout(Tensor x, Tensor ptr) -> (Tensor, Tensor)", MeanAndMax)
readout_backward = gradient_operator(plain.readout_backward, 1)
