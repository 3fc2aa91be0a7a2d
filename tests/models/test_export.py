"""A trained network leaves Python's hands by ``torch.export``."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from lcpool import LCPooling
from lcpool.data import GraphBatch, builtin
from lcpool.graph.graph import Graph
from lcpool.models import Architecture, Backbone

GRAPHS = builtin(num_graphs=20)


class Classifier(nn.Module):
    """A backbone that takes tensors."""

    def __init__(self, backbone):
        super().__init__()
        self.backbone = backbone

    def forward(self, x, edge_index, batch):
        return self.backbone(GraphBatch(Graph.of(x, edge_index, batch=batch), None, batch)).logits


def tensors(*index):
    batch = GRAPHS.batch(torch.tensor(index))
    return batch.x, batch.edge_index, batch.batch


@pytest.mark.parametrize(
    ("pool", "conv", "strict", "more"),
    [
        ("lcpool", "gcn", False, {}),
        ("lcpool*", "graphconv", True, {}),
        ("asapool", "gcn", False, {"readout": "mean+std"}),
        ("diffpool", "gcn", False, {"readout": "softmax"}),
        ("mincutpool", "gcn", True, {}),
        ("lcpool", "gin", True, {"depth": 2, "dropout": 0.5, "readout": "sum+max"}),
        ("topkpool", "torch_geometric.nn:SAGEConv", False, {"readout": "set2set"}),
        ("lcpool", "torch_geometric.nn:GATConv", False, {"readout": "attentional"}),
    ],
)
@pytest.mark.filterwarnings("ignore:The tensor attributes .*lstm")  # torch's, of any LSTM
def test_an_exported_backbone_scores_other_graphs_as_before(pool, conv, strict, more):
    torch.manual_seed(0)
    architecture = Architecture(hidden=8, pool=pool, conv=conv, poolings=2, **more)
    model = Classifier(Backbone.of(GRAPHS, architecture)).eval()
    nodes, edges = torch.export.Dim("nodes"), torch.export.Dim("edges", min=3)
    shapes = ({0: nodes}, {1: edges}, {0: nodes})
    with torch.no_grad():
        program = torch.export.export(
            model, tensors(0, 1, 2, 3), dynamic_shapes=shapes, strict=strict
        )
        for index in ((4, 5, 6, 7, 8, 9, 10), (11,), (12, 12, 13)):
            given = tensors(*index)
            torch.testing.assert_close(program.module()(*given), model(*given))
        x, edge_index, batch = tensors(4, 5)
        with pytest.raises(ValueError, match="'edge_index'"):
            program.module()(x, edge_index + 1, batch)


class Net(nn.Module):
    """A layer in a module of one's own."""

    def __init__(self, channels):
        super().__init__()
        self.pool = LCPooling(channels)

    def forward(self, x, edge_index, batch):
        return self.pool(x, edge_index, batch=batch).x


LOADED = """
import sys
import torch
import lcpool.pool
given = torch.load(sys.argv[2])
torch.save(torch.export.load(sys.argv[1]).module()(*given), sys.argv[2])
"""


def test_a_program_runs_where_the_layers_are_imported(tmp_path):
    given = tensors(0, 1, 2, 3)
    net, program, file = Net(given[0].size(1)), tmp_path / "net.pt2", tmp_path / "given.pt"
    nodes, edges = torch.export.Dim("nodes"), torch.export.Dim("edges", min=3)
    shapes = ({0: nodes}, {1: edges}, {0: nodes})
    torch.export.save(torch.export.export(net, given, dynamic_shapes=shapes), program)
    torch.save(tensors(4, 5), file)
    subprocess.run([sys.executable, "-c", LOADED, program, file], check=True, timeout=250)
    # Traced, the scores are computed layer by layer, and sums have another order.
    torch.testing.assert_close(torch.load(file), net(*tensors(4, 5)))
