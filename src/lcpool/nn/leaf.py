"""The smallest layers with parameters, beside torch's ``Linear``."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class Bias(nn.Module):
    """x + b, for a bias that must be told apart from its linear layer.

    Args:
        channels: width of b.
        fan_in: width of the layer's input, which bounds the first values as in ``nn.Linear``.
    """

    def __init__(self, channels: int, fan_in: int) -> None:
        super().__init__()
        self.fan_in = fan_in
        self.bias = nn.Parameter(torch.empty(channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw b anew."""
        bound = 1 / math.sqrt(max(self.fan_in, 1))
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        """X + b."""
        return x + self.bias.to(x.dtype)


class Projection(nn.Module):
    r"""The projection on a learned direction: :math:`Xp / \lVert p \rVert`.

    Args:
        channels: width of p.
        normalize: divide by the length of p.
    """

    def __init__(self, channels: int, normalize: bool = True) -> None:
        super().__init__()
        self.normalize = normalize
        self.weight = nn.Parameter(torch.empty(1, channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw p anew."""
        bound = 1 / math.sqrt(self.weight.size(-1))
        nn.init.uniform_(self.weight, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        """One value a row, ``[rows]``."""
        return project(x, self.weight, self.normalize)


def project(x: Tensor, weight: Tensor, normalize: bool) -> Tensor:
    """Xp, divided by the length of p if ``normalize``."""
    value = x @ weight.view(-1)
    return value / weight.norm(p=2, dim=-1) if normalize else value
