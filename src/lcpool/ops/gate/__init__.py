"""X' = (X ⊙ h)(î, :): the features of the kept nodes, each times its score."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from lcpool.ops.gate import plain
from lcpool.ops.kernels import kernels
from lcpool.ops.operator import gradient_operator, operator


class Gate:
    """(X ⊙ h)(î, :) and h(î); each node is kept at most once."""

    @staticmethod
    def forward(x: Tensor, h: Tensor, perm: Tensor) -> tuple[Tensor, Tensor]:
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
        x, h, perm = ctx.saved_tensors
        if grad is None:
            grad = x.new_zeros(perm.numel(), x.size(1))
        return *gate_backward(grad, grad_score, x, h, perm), None


gate = operator("gate(Tensor x, Tensor h, Tensor perm) -> (Tensor, Tensor)", Gate)
gate_backward = gradient_operator(
    "gate_backward(Tensor grad, Tensor? grad_score, Tensor x, Tensor h, Tensor perm) "
    "-> (Tensor, Tensor)",
    plain.gate_backward,
    (2, 3),
)
