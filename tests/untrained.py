"""Models that were never trained, for what does not depend on training."""

from __future__ import annotations

import torch
from torch import nn
from torch_geometric.data import Data

from lcpool.data import GraphSet
from lcpool.models import Architecture, Backbone
from lcpool.train import Model


def untrained(graphs: GraphSet, pool: str = "lcpool", seed: int = 0, **settings) -> Model:
    torch.manual_seed(seed)
    network = Backbone.of(graphs, Architecture(pool=pool, hidden=8, **settings))
    model = Model.of(network.eval(), graphs)
    if graphs.task == "values":
        model.scale = torch.tensor([[0.0], [1.0]]).repeat(1, graphs.num_outputs)
    return model


class Silent(nn.Module):
    """A layer that gives the graph as it is, and does not tell what became of its nodes."""

    def __init__(self, in_channels: int) -> None:
        super().__init__()

    def forward(self, x, edge_index, edge_attr, batch):
        return x, edge_index, None, batch, "something else"


def labelled(rows: list[Data]) -> GraphSet:
    for number, row in enumerate(rows):
        row.y = number % 2
    return GraphSet.from_graphs(rows, "labelled")
