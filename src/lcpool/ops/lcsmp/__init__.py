r"""The scores of LCSMP: as a composition of layers, and as one operator.

.. math::
    s = L_s(\mathrm{relu}(L_{fd}(D)) + \mathrm{relu}(L_x(X))), \qquad
    D_i = \textstyle\sum_{k \in N(i)} \mathrm{relu}(L_d(x_i - x_k))

Layer by layer these are some thirty operations, counted both ways, each of which reads and writes
the features of all nodes, and is a launch on a GPU. The operator does what lies between the matrix
products in two kernels each way, and X·W_d and X·W_x as one product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from lcpool.graph.edges import Edges
from lcpool.graph.sizes import owners
from lcpool.ops.kernels import kernels
from lcpool.ops.message import ROWS, both_ways, difference_sum
from lcpool.ops.operator import operator

Layer = Callable[[Tensor], Tensor]


class LCSMPParameters(NamedTuple):
    """The weights and biases of L_d, L_fd, L_x and L_s."""

    W_d: Tensor
    b_d: Tensor
    W_fd: Tensor
    b_fd: Tensor
    W_x: Tensor
    b_x: Tensor
    w_s: Tensor
    b_s: Tensor


def composed(
    x: Tensor, edges: Edges, L_d: Layer, b_d: Layer, L_fd: Layer, L_x: Layer, L_s: Layer
) -> Tensor:
    """The scores by layers; L_d comes without its bias, which ``b_d`` adds: it counts once."""
    y = L_d(x)
    D = difference_sum(b_d(y), y, edges)
    return L_s(L_fd(D).relu() + L_x(x).relu()).view(-1)


def scores(x: Tensor, edges: Edges, parameters: LCSMPParameters) -> Tensor:
    """The scores by one operator.

    Args:
        x: node features, ``[num_nodes, channels]``, of the parameters' type.
        edges: A.
        parameters: of the layers.
    """
    s: Tensor = lcsmp(x, *parameters, *both_ways(edges, x, *parameters))[0]
    return s


class LCSMPScores:
    """The scores; and what their gradients need: W = [W_d; W_x], YG = XWᵀ, D and F = DW_fdᵀ."""

    results = 1

    @staticmethod
    def forward(
        x: Tensor, W_d: Tensor, b_d: Tensor, W_fd: Tensor, b_fd: Tensor, W_x: Tensor, b_x: Tensor,
        w_s: Tensor, b_s: Tensor, ptr: Tensor, node: Tensor, *out: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
        """Three products, a sum over neighbours, and the rest."""
        kernel, W = kernels(x), torch.cat([W_d, W_x])
        YG = torch.mm(x, W.t())
        D = kernel.shifted_difference_sum(YG, b_d, ptr, node)
        F = torch.mm(D, W_fd.t())
        return kernel.combine(F, YG, b_fd, b_x, w_s.view(-1), b_s), W, YG, D, F

    @staticmethod
    def fake(x: Tensor, W_d: Tensor, *_: Tensor | None) -> tuple[Tensor, ...]:
        width, channels = W_d.shape
        YG, D, F = (x.new_empty(x.size(0), size) for size in (2 * width, width, width))
        return x.new_empty(x.size(0)), W_d.new_empty(2 * width, channels), YG, D, F

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*output[1:], *inputs)
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
        """Of x and of the parameters."""
        if grad is None:
            return (None,) * 13
        W, YG, D, F, x, *parameters, ptr, node, out_ptr, out_node = ctx.saved_tensors
        given, rows = LCSMPParameters(*parameters), (ptr, node, out_ptr, out_node)
        if torch.is_grad_enabled():  # The gradient's own gradient is asked for.
            s = by_layers(x, given, rows)
            found = gradients_again([s], [grad], [x, *given], ctx.needs_input_grad)
        else:
            of_x, *of_parameters = lcsmp_backward(
                grad, W, YG, D, F, x, given.b_d, given.W_fd, given.b_fd, given.b_x, given.w_s, *rows
            )
            found = [of_x, *take_apart(*of_parameters)]
        return *found, None, None, None, None


def take_apart(of_W: Tensor, of_W_fd: Tensor, sums: Tensor) -> list[Tensor]:
    """The gradients of the parameters one by one."""
    width = of_W_fd.size(0)
    of_W_d, of_W_x = torch.split_with_sizes(of_W, [width, width])
    of_b_fd, of_b_x, of_w_s, of_b_s, of_b_d = torch.split_with_sizes(
        sums, [width, width, width, 1, width]
    )
    return [of_W_d, of_b_d, of_W_fd, of_b_fd, of_W_x, of_b_x, of_w_s.view(1, -1), of_b_s]


def gradients_again(
    outputs: Sequence[Tensor],
    grads: Sequence[Tensor],
    inputs: Sequence[Tensor],
    wanted: Sequence[bool],
) -> list[Tensor | None]:
    """The gradients of those inputs of which one is wanted, with gradients again."""
    some = [value for value, want in zip(inputs, wanted, strict=False) if want]
    found = iter(torch.autograd.grad(outputs, some, grads, create_graph=True))
    return [next(found) if want else None for want in wanted[: len(inputs)]]


def by_layers(x: Tensor, parameters: LCSMPParameters, rows: Sequence[Tensor]) -> Tensor:
    """The scores by layers that have gradients again."""
    W_d, b_d, W_fd, b_fd, W_x, b_x, w_s, b_s = parameters
    ptr, node, out_ptr, out_node = rows
    index = torch.stack([node, owners(ptr, node.numel())])
    edges = Edges.of_rows(index, x.size(0), (out_ptr, out_node, ptr, node))
    L_fd, L_x, L_s = (
        partial(linear, weight=W, bias=b) for W, b in ((W_fd, b_fd), (W_x, b_x), (w_s, b_s))
    )
    return composed(x, edges, partial(linear, weight=W_d), b_d.add, L_fd, L_x, L_s)


class LCSMPBackward:
    """The gradients of x, W, W_fd and [b_fd ‖ b_x ‖ w_s ‖ b_s ‖ b_d]."""

    @staticmethod
    def forward(
        grad: Tensor, W: Tensor, YG: Tensor, D: Tensor, F: Tensor, x: Tensor, b_d: Tensor,
        W_fd: Tensor, b_fd: Tensor, b_x: Tensor, w_s: Tensor, ptr: Tensor, node: Tensor,
        out_ptr: Tensor, out_node: Tensor, past: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
        """The products' gradients, and what flows between them.

        That of x is added to what flows ``past`` the scores, in place, where something does.
        """
        kernel, grad = kernels(x), grad.contiguous()
        grad_F, grad_YG, sums = kernel.combine_backward(grad, F, YG, b_fd, b_x, w_s.view(-1))
        grad_D = torch.mm(grad_F, W_fd)
        sums = kernel.shifted_difference_backward(
            grad_D, YG, b_d, ptr, node, out_ptr, out_node, grad_YG, sums
        )
        of_x = torch.mm(grad_YG, W) if past is None else past.addmm_(grad_YG, W)
        return of_x, torch.mm(grad_YG.t(), x), torch.mm(grad_F.t(), D), sums

    @staticmethod
    def fake(
        grad: Tensor, W: Tensor, YG: Tensor, D: Tensor, F: Tensor, x: Tensor, b_d: Tensor,
        W_fd: Tensor, *_: Tensor,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        like = (value.new_empty(value.shape) for value in (x, W, W_fd))
        return *like, b_d.new_empty(4 * b_d.numel() + 1)


PARAMETERS = (
    "Tensor W_d, Tensor b_d, Tensor W_fd, Tensor b_fd, Tensor W_x, Tensor b_x, "
    "Tensor w_s, Tensor b_s"
)
lcsmp = operator(
    f"lcsmp(Tensor x, {PARAMETERS}, {ROWS}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    LCSMPScores,
)
lcsmp_backward = operator(
    "lcsmp_backward(Tensor grad, Tensor W, Tensor YG, Tensor D, Tensor F, Tensor x, Tensor b_d, "
    f"Tensor W_fd, Tensor b_fd, Tensor b_x, Tensor w_s, {ROWS}) "
    "-> (Tensor, Tensor, Tensor, Tensor)",
    LCSMPBackward,
)
