r"""LCPool but for its edges as one operator.

.. math::
    s = \mathrm{LCSMP}(X, A), \quad h = \mathrm{softmax}(s), \quad \hat{i} = \mathrm{topk}(s), \quad
    X' = (X \odot h)(\hat{i}, :)

The gradient of X comes in two parts, through X' and through s. Here the product that ends the
second is added to the first in place.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from lcpool.graph.graph import Graph
from lcpool.ops.gate.plain import gate
from lcpool.ops.kernels import kernels
from lcpool.ops.lcsmp import (
    PARAMETERS,
    LCSMPBackward,
    LCSMPParameters,
    LCSMPScores,
    by_layers,
    gradients_again,
    take_apart,
)
from lcpool.ops.message import ROWS, both_ways
from lcpool.ops.operator import operator
from lcpool.ops.readout.plain import softmax
from lcpool.ops.topk import KeepPlan, Kept


class GatedTopK(NamedTuple):
    """The kept nodes and their features.

    Attributes:
        X: X' = (X ⊙ h)(î, :).
        score: h(î).
        perm: î.
        batch: the graph of each.
        place: where each node stands in î, −1 where it was dropped.
        h: the softmax of the scores over each graph.
        ok: 1 if all h are numbers.
    """

    X: Tensor
    score: Tensor
    perm: Tensor
    batch: Tensor
    place: Tensor
    h: Tensor
    ok: Tensor


def score_and_select(
    x: Tensor, graph: Graph, plan: KeepPlan, parameters: LCSMPParameters
) -> tuple[Tensor, Tensor, Kept, Tensor]:
    """X', h(î), î, and whether all h are numbers.

    Args:
        x: node features, ``[num_nodes, channels]``, of the parameters' type.
        graph: A, and the graphs, whose nodes stand together.
        plan: how many nodes each graph keeps.
        parameters: LCSMP's.
    """
    sizes, kept = plan.sizes, plan.kept
    X, score, perm, batch, ok, place, *_ = lcpool(
        x, *parameters, *both_ways(graph.edges, x, *parameters),
        sizes.counts, sizes.ptr, kept.ptr, kept.total,
    )  # fmt: skip
    return X, score, Kept(perm, batch, place), ok


class LCPool:
    """X', h(î), î, its graphs, a verdict, the place of each node in î; h, and LCSMP's values."""

    results = 6

    @staticmethod
    def forward(
        x: Tensor, W_d: Tensor, b_d: Tensor, W_fd: Tensor, b_fd: Tensor, W_x: Tensor, b_x: Tensor,
        w_s: Tensor, b_s: Tensor, ptr: Tensor, node: Tensor, out_ptr: Tensor | None,
        out_node: Tensor | None, counts: Tensor, graph_ptr: Tensor, kept_ptr: Tensor, num_kept: int,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        """Score, then select."""
        x = x.contiguous()
        s, *values = LCSMPScores.forward(x, W_d, b_d, W_fd, b_fd, W_x, b_x, w_s, b_s, ptr, node)
        kept = kernels(x).softmax_topk_gate(x, s, counts, graph_ptr, kept_ptr, num_kept)
        return (
            kept.X, kept.score, kept.perm, kept.batch, kept.ok, kept.place, kept.h, *values,
        )  # fmt: skip

    @staticmethod
    def fake(x: Tensor, W_d: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        *_, kept_ptr, num_kept = rest
        nodes, kept = kept_ptr.new_empty(x.size(0)), kept_ptr.new_empty(num_kept)
        s, *values = LCSMPScores.fake(x, W_d)
        X, score = x.new_empty(num_kept, x.size(1)), x.new_empty(num_kept)
        return X, score, kept, kept.clone(), kept_ptr.new_empty(()), nodes, s, *values

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*output[2:], *inputs[:-1])
        ctx.mark_non_differentiable(*output[2:])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(
        ctx: Any, grad: Tensor | None, grad_score: Tensor | None, *_: Any
    ) -> tuple[Tensor | None, ...]:
        """Of x and of the parameters."""
        (
            perm, _, _, place, h, W, YG, D, F, x, *parameters, ptr, node, out_ptr, out_node,
            counts, graph_ptr, kept_ptr,
        ) = ctx.saved_tensors  # fmt: skip
        given, rows = LCSMPParameters(*parameters), [ptr, node, out_ptr, out_node]
        grad = h.new_zeros(perm.numel(), x.size(1)) if grad is None else grad
        if torch.is_grad_enabled():  # The gradient's own gradient is asked for.
            outputs = gate(x, softmax(by_layers(x, given, rows), graph_ptr), perm)
            grads = [grad, h.new_zeros(perm.numel()) if grad_score is None else grad_score]
            found = gradients_again(outputs, grads, [x, *given], ctx.needs_input_grad)
        else:
            inputs = [x, given.b_d, given.W_fd, given.b_fd, given.b_x, given.w_s]
            of_x, *of_parameters = lcpool_backward(
                grad, grad_score, [perm, place, h], [W, YG, D, F], inputs, rows, counts, graph_ptr,
                kept_ptr,
            )  # fmt: skip
            found = [of_x, *take_apart(*of_parameters)]
        return *found, *[None] * 8


class LCPoolBackward:
    """The gradients of x, W = [W_d; W_x], W_fd and [b_fd ‖ b_x ‖ w_s ‖ b_s ‖ b_d]."""

    @staticmethod
    def forward(
        grad: Tensor, grad_score: Tensor | None, chosen: list[Tensor], values: list[Tensor],
        inputs: list[Tensor], rows: list[Tensor], counts: Tensor, graph_ptr: Tensor,
        kept_ptr: Tensor,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        """What flows past the scores, and then through them."""
        (perm, place, h), (W, YG, D, F) = chosen, values
        x, b_d, W_fd, b_fd, b_x, w_s = inputs
        ptr, node, out_ptr, out_node = rows
        x = x.contiguous()
        kernel, grad = kernels(h), grad.contiguous()
        grad_score = None if grad_score is None else grad_score.contiguous()
        of_s, past = kernel.softmax_topk_gate_backward(
            grad, grad_score, x, perm, place, h, counts, graph_ptr, kept_ptr
        )
        return LCSMPBackward.forward(
            of_s, W, YG, D, F, x, b_d, W_fd, b_fd, b_x, w_s, ptr, node, out_ptr, out_node, past
        )

    @staticmethod
    def fake(
        grad: Tensor, grad_score: Tensor | None, chosen: list[Tensor], values: list[Tensor],
        inputs: list[Tensor], *_: Any,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        return LCSMPBackward.fake(grad, *values, *inputs)


lcpool = operator(
    f"lcpool(Tensor x, {PARAMETERS}, {ROWS}, Tensor counts, Tensor graph_ptr, Tensor kept_ptr, "
    f"SymInt num_kept) -> ({', '.join(['Tensor'] * 11)})",
    LCPool,
)
lcpool_backward = operator(
    "lcpool_backward(Tensor grad, Tensor? grad_score, Tensor[] chosen, Tensor[] values, "
    "Tensor[] inputs, Tensor[] rows, Tensor counts, Tensor graph_ptr, Tensor kept_ptr) "
    "-> (Tensor, Tensor, Tensor, Tensor)",
    LCPoolBackward,
)
