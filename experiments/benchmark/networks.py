"""What the benchmark needs beside the library's own names: a control, and k-MIS with other k."""

from __future__ import annotations

from torch import Tensor, nn

from lcpool import KMISPooling


class WithoutEdges(nn.Linear):
    """The control: a convolution that reads no edge, so that only the nodes' features are left."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """X·W + b, whatever the edges."""
        return super().forward(x)


class KMIS2(KMISPooling):
    """Kept nodes are more than two hops apart."""

    def __init__(self, in_channels: int) -> None:
        super().__init__(in_channels, k=2)


class KMIS3(KMISPooling):
    """Kept nodes are more than three hops apart."""

    def __init__(self, in_channels: int) -> None:
        super().__init__(in_channels, k=3)
