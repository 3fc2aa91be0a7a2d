"""X' = (X ⊙ h)(î, :): the features of the kept nodes, each times its score."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lcpool.ops.gate import plain
from lcpool.ops.kernels import kernels
from lcpool.ops.operator import operator


class Gate:
    """(X ⊙ h)(î, :) and h(î). No node is kept twice: each gets its gradient from one place."""

    @staticmethod
    def forward(x: Tensor, h: Tensor, perm: Tensor) -> tuple[Tensor, Tensor]:
        """Gather and multiply."""
        return kernels(x).gate(x.contiguous(), h.contiguous(), perm)

    @staticmethod
    def fake(x: Tensor, h: Tensor, perm: Tensor) -> tuple[Tensor, Tensor]:
        return x.new_empty(perm.numel(), x.size(1)), h.new_empty(perm.numel())

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(
        ctx: Any, grad: Tensor | None, grad_score: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        """Back to where it came from; nothing for nodes that were dropped."""
        x, h, perm = ctx.saved_tensors
        if grad is None:
            grad = x.new_zeros(perm.numel(), x.size(1))
        again = torch.is_grad_enabled()  # The gradient's own gradient is asked for.
        return *(plain.gate_backward if again else gate_backward)(
            grad, grad_score, x, h, perm
        ), None


class GateBackward:
    """The gradient of :class:`Gate`."""

    @staticmethod
    def forward(
        grad: Tensor, grad_score: Tensor | None, x: Tensor, h: Tensor, perm: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Of x and h."""
        of_score = None if grad_score is None else grad_score.contiguous()
        inputs = (grad.contiguous(), of_score, x.contiguous(), h.contiguous(), perm)
        return kernels(x).gate_backward(*inputs)

    @staticmethod
    def fake(
        grad: Tensor, grad_score: Tensor | None, x: Tensor, h: Tensor, perm: Tensor
    ) -> tuple[Tensor, Tensor]:
        return x.new_empty(x.shape), h.new_empty(h.shape)


gate = operator("gate(Tensor x, Tensor h, Tensor perm) -> (Tensor, Tensor)", Gate)
gate_backward = operator(
    "gate_backward(Tensor grad, Tensor? grad_score, Tensor x, Tensor h, Tensor perm) "
    "-> (Tensor, Tensor)",
    GateBackward,
)
