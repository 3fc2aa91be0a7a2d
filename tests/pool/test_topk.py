import pytest
import torch
import torch_geometric.nn as pyg
from graphs import Example, graphs
from hypothesis import given

from lcpool import TopKPooling


def pair(ratio=0.5, seed=0, **options):
    """PyG's layer and ours with its parameters."""
    torch.manual_seed(seed)
    theirs = pyg.TopKPooling(8, ratio, **options).double()
    ours = TopKPooling(8, ratio, **options).double()
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


@given(graphs())
def test_equals_pyg(example: Example):
    theirs, ours = pair(seed=example.seed)
    arguments = (example.features(), example.edge_index, example.weights(), example.batch)
    for a, b in zip(theirs(*arguments), ours(*arguments), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize(
    "options",
    [
        {"min_score": 0.3},
        {"multiplier": 3.0},
        {"nonlinearity": "sigmoid"},
        {"nonlinearity": torch.relu, "ratio": 1.0 - 1e-9},
        {"ratio": 2},
    ],
)
def test_options_equal_pyg(options):
    theirs, ours = pair(**options)
    torch.manual_seed(1)
    x, batch = torch.randn(9, 8, dtype=torch.float64), torch.arange(9) // 3
    edge_index = torch.tensor([[0, 1, 3, 4, 6, 8], [1, 0, 4, 3, 7, 6]])
    attr = torch.randn(6, 5, dtype=torch.float64)
    for a, b in zip(
        theirs(x, edge_index, attr, batch), ours(x, edge_index, attr, batch), strict=True
    ):
        torch.testing.assert_close(a, b)


def test_differs_from_pyg_in_k():
    """PyG multiplies in floats: 0.3 × 50 keeps 16, a ratio of 1.0 one node."""
    x, none = torch.randn(50, 8, dtype=torch.float64), torch.empty(2, 0, dtype=torch.long)
    assert pyg.TopKPooling(8, 0.3)(x.float(), none)[0].size(0) == 16
    assert TopKPooling(8, 0.3)(x.float(), none).x.size(0) == 15
    theirs, ours = pair(1.0)
    assert theirs(x, none)[0].size(0) == 1
    assert ours(x, none).x.size(0) == 50
    wide = torch.randn(5001, 8, dtype=torch.bfloat16)
    assert pyg.TopKPooling(8, 0.5).bfloat16()(wide, none)[0].size(0) == 2496
    assert TopKPooling(8, 0.5).bfloat16()(wide, none).x.size(0) == 2501


def test_a_checkpoint_of_a_whole_model_loads():
    def model(layer):
        return torch.nn.ModuleDict({"conv": pyg.GCNConv(8, 8), "pool": layer})

    theirs, ours = model(pyg.TopKPooling(8)), model(TopKPooling(8))
    ours.load_state_dict(theirs.state_dict())
    assert torch.equal(ours["pool"].score.project.weight, theirs["pool"].select.weight)
    ours.load_state_dict(ours.state_dict())


def test_repr_is_pygs():
    for options in ({}, {"ratio": 3}, {"min_score": 0.2}, {"multiplier": 2.0}):
        assert repr(TopKPooling(8, **options)) == repr(pyg.TopKPooling(8, **options))
