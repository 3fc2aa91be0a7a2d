r"""The scores of LCSMP: as a composition of layers, and as one operator.

.. math::
    s = L_s(\mathrm{relu}(L_{fd}(D)) + \mathrm{relu}(L_x(X))), \qquad
    D_i = \textstyle\sum_{k \in N(i)} \mathrm{relu}(L_d(x_i - x_k))

Layer by layer these are some thirty operations, counted both ways, each of which reads and writes
the features of all nodes, and is a launch on a GPU. The operator does what lies between the matrix
products in two kernels each way, and X·W_d and X·W_x as one product.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from lcpool.ops.edges import Edges, Neighbours
from lcpool.ops.kernels import kernels
from lcpool.ops.message import difference_sum

Layer = Callable[[Tensor], Tensor]


def composed(
    x: Tensor, edges: Edges, L_d: Layer, b_d: Layer, L_fd: Layer, L_x: Layer, L_s: Layer
) -> Tensor:
    """The scores by its layers; L_d comes without its bias, which ``b_d`` adds: it counts once."""
    y = L_d(x)
    D = difference_sum(b_d(y), y, edges)
    return L_s(L_fd(D).relu() + L_x(x).relu()).view(-1)


def scores(x: Tensor, edges: Edges, parameters: list[Tensor]) -> Tensor:
    """The scores by one operator, where the device has kernels.

    Args:
        x: node features, ``[num_nodes, channels]``, of the parameters' type.
        edges: A.
        parameters: W_d, b_d, W_fd, b_fd, W_x, b_x, w_s and b_s.
    """
    if torch.is_autocast_enabled(x.device.type):
        with torch.autocast(x.device.type, enabled=False):  # What ranks nodes is not rounded.
            return scores(x, edges, parameters)
    into, out = edges.into, edges.out
    found: Tensor = lcsmp(x.contiguous(), *parameters, into.ptr, into.node, out.ptr, out.node)[0]
    return found


@torch.library.custom_op("lcpool::lcsmp", mutates_args=())
def lcsmp(
    x: Tensor, W_d: Tensor, b_d: Tensor, W_fd: Tensor, b_fd: Tensor, W_x: Tensor, b_x: Tensor,
    w_s: Tensor, b_s: Tensor, into_ptr: Tensor, into: Tensor, out_ptr: Tensor, out: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The scores; and what their gradients need: YG = [XW_dᵀ ‖ XW_xᵀ], D and F = DW_fdᵀ."""
    compiled: Any = kernels(x)
    YG = x @ torch.cat([W_d, W_x]).t()
    D = compiled.shifted_difference_sum(YG, b_d, into_ptr, into)
    F = D @ W_fd.t()
    return compiled.combine(F, YG, b_fd, b_x, w_s.view(-1), b_s), YG, D, F


@lcsmp.register_fake
def _(x: Tensor, W_d: Tensor, *rest: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    shapes = ((), (2 * W_d.size(0),), (W_d.size(0),), (W_d.size(0),))
    s, YG, D, F = (x.new_empty(x.size(0), *shape) for shape in shapes)
    return s, YG, D, F


@torch.library.custom_op("lcpool::lcsmp_backward", mutates_args=())
def lcsmp_backward(
    grad: Tensor, YG: Tensor, D: Tensor, F: Tensor, x: Tensor, W_d: Tensor, b_d: Tensor,
    W_fd: Tensor, b_fd: Tensor, W_x: Tensor, b_x: Tensor, w_s: Tensor, b_s: Tensor,
    into_ptr: Tensor, into: Tensor, out_ptr: Tensor, out: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of x, [W_d; W_x], b_d, W_fd, [b_fd; b_x; w_s] and b_s."""
    compiled: Any = kernels(x)
    grad = grad.contiguous()
    grad_F, grad_YG, sums = compiled.combine_backward(grad, F, YG, b_fd, b_x, w_s.view(-1))
    rows = (into_ptr, into, out_ptr, out)
    of_b_d = compiled.shifted_difference_backward(grad_F @ W_fd, YG, b_d, *rows, grad_YG)
    of_x, of_W = grad_YG @ torch.cat([W_d, W_x]), grad_YG.t() @ x
    return of_x, of_W, of_b_d, grad_F.t() @ D, sums, grad.sum().view_as(b_s)


@lcsmp_backward.register_fake
def _(
    grad: Tensor, YG: Tensor, D: Tensor, F: Tensor, *inputs: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    x, W_d, b_d, W_fd, _, _, _, _, b_s = map(torch.empty_like, inputs[:9])
    return x, torch.cat([W_d, W_d]), b_d, W_fd, b_d.new_empty(3, b_d.numel()), b_s


def _keep(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*output[1:], *inputs)
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, grad: Tensor | None, *rest: Any) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * 13
    inputs, rows = ctx.saved_tensors[3:12], ctx.saved_tensors[12:]
    if not torch.is_grad_enabled():
        of_x, of_W, of_b_d, of_W_fd, sums, of_b_s = lcsmp_backward(grad, *ctx.saved_tensors)
        (of_W_d, of_W_x), (of_b_fd, of_b_x, of_w_s) = of_W.chunk(2), sums
        found = (of_x, of_W_d, of_b_d, of_W_fd, of_b_fd, of_W_x, of_b_x, of_w_s.view(1, -1), of_b_s)
        return *found, None, None, None, None
    # The gradient's own gradient is asked for.
    wanted = [v for v, w in zip(inputs, ctx.needs_input_grad, strict=False) if w]
    found = iter(torch.autograd.grad(_again(*inputs, *rows), wanted, grad, create_graph=True))
    return *(next(found) if w else None for w in ctx.needs_input_grad[:9]), None, None, None, None


def _again(
    x: Tensor, W_d: Tensor, b_d: Tensor, W_fd: Tensor, b_fd: Tensor, W_x: Tensor, b_x: Tensor,
    w_s: Tensor, b_s: Tensor, *rows: Tensor,
) -> Tensor:  # fmt: skip
    """The same scores by layers."""
    layers = [
        partial(linear, weight=W_d), b_d.add, partial(linear, weight=W_fd, bias=b_fd),
        partial(linear, weight=W_x, bias=b_x), partial(linear, weight=w_s, bias=b_s),
    ]  # fmt: skip
    return composed(x, Edges.of_rows(Neighbours(*rows[:2]), Neighbours(*rows[2:])), *layers)


lcsmp.register_autograd(_backward, setup_context=_keep)
