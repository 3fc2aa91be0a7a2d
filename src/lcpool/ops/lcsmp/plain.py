"""The steps of LCSMP between its matrix products, in plain torch."""

from __future__ import annotations

import torch
from torch import Tensor

from lcpool.ops.message.plain import difference_sum, difference_sum_backward

__all__ = ["combine", "combine_backward", "shifted_difference_backward", "shifted_difference_sum"]


def shifted_difference_sum(YG: Tensor, b_d: Tensor, ptr: Tensor, node: Tensor) -> Tensor:
    y = YG[:, : b_d.numel()]
    return difference_sum(y + b_d, y, ptr, node)


def shifted_difference_backward(
    grad: Tensor, YG: Tensor, b_d: Tensor, ptr: Tensor, node: Tensor, out_ptr: Tensor,
    out_node: Tensor, grad_YG: Tensor, sums: Tensor,
) -> Tensor:  # fmt: skip
    y = YG[:, : b_d.numel()]
    grad_z, grad_y = difference_sum_backward(grad, y + b_d, y, ptr, node, out_ptr, out_node)
    torch.add(grad_z, grad_y, out=grad_YG[:, : b_d.numel()])
    return torch.cat([sums, grad_z.sum(0)])


def combine(F: Tensor, YG: Tensor, b_fd: Tensor, b_x: Tensor, w_s: Tensor, b_s: Tensor) -> Tensor:
    return ((F + b_fd).relu() + (YG[:, F.size(1) :] + b_x).relu()) @ w_s + b_s


def combine_backward(
    grad: Tensor, F: Tensor, YG: Tensor, b_fd: Tensor, b_x: Tensor, w_s: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    f, g = (F + b_fd).relu(), (YG[:, F.size(1) :] + b_x).relu()
    each = grad.unsqueeze(-1) * w_s
    grad_F, grad_G = each.masked_fill(f == 0, 0.0), each.masked_fill(g == 0, 0.0)
    sums = torch.cat([grad_F.sum(0), grad_G.sum(0), grad @ (f + g), grad.sum().view(1)])
    return grad_F, torch.cat([torch.empty_like(grad_G), grad_G], dim=1), sums
