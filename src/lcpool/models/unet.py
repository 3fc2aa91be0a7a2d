"""A U-Net for graphs: features of single nodes, with context from pooled graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch_geometric.nn.inits import reset
from torch_geometric.nn.resolver import activation_resolver

from lcpool.graph.graph import Graph
from lcpool.nn.arguments import check_arguments
from lcpool.nn.conv import FastGCNConv, convolve
from lcpool.pool import CellPooling, Pooled, Pooling


class GraphUNet(nn.Module):
    r"""A U-Net: pool ``depth`` times, go back up by ``lift``, and join with the way down.

    .. math::
        X_0 &= \mathrm{conv}(X), \quad
        X_{t+1} = \mathrm{conv}(\mathrm{pool}(X_t)) \quad (t < \mathrm{depth})

        Y_{\mathrm{depth}} &= X_{\mathrm{depth}}, \quad
        Y_t = \mathrm{conv}(X_t + \mathrm{lift}(Y_{t+1}))

    The result Y_0 has a row per input node. The arguments are those of PyG's ``GraphUNet``, and
    ``pool`` chooses the pooling. Differences from PyG: PyG squares A before each pooling to keep
    the graph together, and gives dropped nodes zeros on the way up. Here, with the default
    :class:`~lcpool.CellPooling`, a connected graph stays connected without squaring, and each node
    gets the features of its cell.

    Args:
        in_channels: width of the node features.
        hidden_channels: width of all hidden features.
        out_channels: width of the result.
        depth: how often to pool.
        pool_ratios: the ratio of kept nodes, one for all poolings or one for each.
        sum_res: add the features of the way down; else put them beside those of the way up.
        act: the activation after each convolution but the last.
        pool: makes a pooling of a width and a ratio, such as ``LCPooling``.

    Example:
        >>> network = GraphUNet(3, 16, 2, depth=2)
        >>> path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
        >>> network(torch.randn(4, 3), path).shape
        torch.Size([4, 2])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        depth: int,
        pool_ratios: float | Sequence[float] = 0.5,
        sum_res: bool = True,
        act: str | Callable[[Tensor], Tensor] = "relu",
        pool: Callable[[int, float], Pooling] = CellPooling,
    ) -> None:
        super().__init__()
        check_arguments(in_channels=in_channels, hidden_channels=hidden_channels)
        if depth < 1:
            raise ValueError(f"'depth' must be at least 1, not {depth}.")
        ratios = list(pool_ratios) if isinstance(pool_ratios, Sequence) else [pool_ratios] * depth
        if len(ratios) != depth:
            raise ValueError(f"'pool_ratios' must be one number or {depth}, not {len(ratios)}.")
        self.sum_res, self.act = sum_res, activation_resolver(act)
        hidden = hidden_channels
        joined = hidden if sum_res else 2 * hidden
        self.pools = nn.ModuleList(pool(hidden, ratio) for ratio in ratios)
        widths = [in_channels, *[hidden] * depth]
        self.down = nn.ModuleList(FastGCNConv(width, hidden) for width in widths)
        ends = [out_channels, *[hidden] * (depth - 1)]
        self.up = nn.ModuleList(FastGCNConv(joined, width) for width in ends)

    def reset_parameters(self) -> None:
        for part in self.children():
            reset(part)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor | None = None) -> Tensor:
        """Features of all nodes, ``[num_nodes, out_channels]``."""
        graph = Graph.of(x, edge_index, None, batch)
        levels: list[Graph] = []
        pooled: list[Pooled] = []
        x = self.act(conv(self.down[0], graph.x, graph))
        for pool, down in zip(self.pools, self.down[1:], strict=True):
            levels.append(replace(graph, x=x))
            pooled.append(pool(levels[-1]))
            graph = pooled[-1].graph
            x = self.act(conv(down, graph.x, graph))
        for t in reversed(range(len(levels))):
            before, lifted = levels[t].x, pooled[t].lift(x)
            x = before + lifted if self.sum_res else torch.cat([before, lifted], dim=1)
            x = conv(self.up[t], x, levels[t])
            x = self.act(x) if t else x
        return x


def conv(layer: nn.Module, x: Tensor, graph: Graph) -> Tensor:
    """A convolution on a graph, by the weights of its edges if it has some."""
    return convolve(layer, x, graph.edges, graph.edge_attr)
