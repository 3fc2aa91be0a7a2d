r"""The scores of LCSMP, layer by layer.

.. math::
    s = L_s(\mathrm{relu}(L_{fd}(D)) + \mathrm{relu}(L_x(X))), \qquad
    D_i = \textstyle\sum_{k \in N(i)} \mathrm{relu}(L_d(x_i - x_k))

LCPool computes the same scores inside one operator (:mod:`lcpool.ops.fused_lcpool`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from torch import Tensor
from torch.nn.functional import linear

from lcpool.graph.edges import Edges
from lcpool.ops.message import difference_sum

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
    """The scores from layers; ``b_d`` adds the bias of L_d, which counts once per edge."""
    y = L_d(x)
    D = difference_sum(b_d(y), y, edges)
    return L_s(L_fd(D).relu() + L_x(x).relu()).view(-1)


def scores(x: Tensor, edges: Edges, parameters: LCSMPParameters) -> Tensor:
    """The scores from parameters of the type of x."""
    W_d, b_d, W_fd, b_fd, W_x, b_x, w_s, b_s = parameters
    L_fd, L_x, L_s = (
        partial(linear, weight=W, bias=b) for W, b in ((W_fd, b_fd), (W_x, b_x), (w_s, b_s))
    )
    return composed(x, edges, partial(linear, weight=W_d), b_d.add, L_fd, L_x, L_s)
