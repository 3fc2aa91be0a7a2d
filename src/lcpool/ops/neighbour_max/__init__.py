"""The maximum over neighbours, without a row of features for each edge."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lcpool.graph.checks import check_lengths
from lcpool.graph.edges import BOTH_WAYS, Edges
from lcpool.graph.precision import wide
from lcpool.ops.kernels import kernels
from lcpool.ops.neighbour_max import plain
from lcpool.ops.operator import gradient_operator, operator


def neighbour_max(x: Tensor, edges: Edges) -> Tensor:
    """The maximum of x_k over the edges (k, i) into each node i, zeros without any.

    Neighbours that share a maximum share its gradient.
    """
    check_lengths(x=(x, edges.num_nodes))
    most: Tensor
    most, *_ = neighbour_max_operator(x, *edges.both_ways(x))
    return most


class NeighbourMax:
    """The maximum over neighbours, and how many share it."""

    results = 1

    @staticmethod
    def forward(x: Tensor, ptr: Tensor, node: Tensor, *out: Tensor | None) -> tuple[Tensor, Tensor]:
        return kernels(x).neighbour_max(x.contiguous(), ptr, node)

    @staticmethod
    def fake(x: Tensor, *_: Tensor | None) -> tuple[Tensor, Tensor]:
        return x.new_empty(x.shape), x.new_empty(x.shape, dtype=torch.int32)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: tuple[Tensor, Tensor]) -> None:
        x, _, _, *out = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(x, *output, *out)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        x, most, ties, out_ptr, out_node = ctx.saved_tensors
        grad_x = neighbour_max_backward(wide(grad) / ties, x, most, out_ptr, out_node)
        return grad_x, None, None, None, None


neighbour_max_operator = operator(
    f"neighbour_max(Tensor x, {BOTH_WAYS}) -> (Tensor, Tensor)", NeighbourMax
)
neighbour_max_backward = gradient_operator(
    "neighbour_max_backward(Tensor share, Tensor x, Tensor most, Tensor out_ptr, Tensor out_node) "
    "-> Tensor",
    plain.neighbour_max_backward,
    (1,),
)
