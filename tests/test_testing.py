"""``check_pooling`` passes ours, and finds what is wrong with others."""

import re
from functools import partial

import pytest
import torch
from torch_geometric.nn import GATConv
from torch_geometric.nn import TopKPooling as PyGTopK

import lcpool
from lcpool import Assignment, LCPooling, Pooling, TopKPooling
from lcpool.testing import CHECKS, check_pooling

OURS = ["ASA", "Diff", "LC", "MinCut", "No", "SAG", "TopK"]


@pytest.mark.parametrize("name", OURS)
def test_ours_pass(name):
    cls = getattr(lcpool, f"{name}Pooling")
    check_pooling((lambda channels: cls()) if name == "No" else cls)


def test_functions_that_make_layers_are_checked():
    check_pooling(partial(LCPooling, min_score=0.1), skip=["export"])
    check_pooling(lambda channels: lcpool.LocalClusterPooling(GATConv(channels, 1)))


def test_foreign_layers_are_checked_too():
    """PyG's TopK is refused by torch.export alone."""
    check_pooling(PyGTopK, skip=["export"])


class Pairs(Pooling):
    """Nodes two by two, in the order of their first feature, graph by graph."""

    def __init__(self, in_channels):
        super().__init__()
        self.lin = torch.nn.Linear(in_channels, 1)

    def select(self, graph):
        batch, key = graph.batch_vector(), graph.x[:, 0]
        order = key.argsort(stable=True)
        order = order[batch[order].argsort(stable=True)]
        counts = batch.bincount(minlength=graph.batch_size)
        place = torch.arange(graph.num_nodes) - (counts.cumsum(0) - counts)[batch[order]]
        _, of_order = torch.unique(batch[order] * graph.num_nodes + place // 2, return_inverse=True)
        labels = torch.empty_like(of_order)
        labels[order] = of_order
        return Assignment.of_labels(labels)


class InOneGraph(Pairs):
    """Ranks the nodes of all graphs together: how many it keeps depends on the batch."""

    def select(self, graph):
        best = graph.x[:, 0].topk(-(-graph.num_nodes // 2)).indices
        labels = torch.full((graph.num_nodes,), -1)
        labels[best] = torch.arange(len(best))
        return Assignment.of_labels(labels)


class ByNumber(Pairs):
    """Looks at the numbers of nodes."""

    def select(self, graph):
        batch = graph.batch_vector()
        first = batch.bincount(minlength=graph.batch_size).cumsum(0).roll(1).index_fill(
            0, torch.tensor([0]), 0)  # fmt: skip
        half = (torch.arange(graph.num_nodes) - first[batch]) // 2
        _, labels = torch.unique(batch * 100 + half, return_inverse=True)
        return Assignment.of_labels(labels)


class ByEdge(Pairs):
    """Adds the features of the neighbour that the list of edges has first."""

    def reduce(self, graph, S):
        first = torch.arange(graph.num_nodes)
        for source, target in graph.edge_index.t().flip(0).tolist():
            first[target] = source
        return S.assignment.reduce(graph.x + graph.x[first])


class Drawing(Pairs):
    """Draws from where no seed reaches."""

    def reduce(self, graph, S):
        return super().reduce(graph, S) * torch.rand(1, generator=self.generator).item()

    generator = torch.Generator()


class Promising(Pairs):
    def pooled_counts(self, counts):
        return counts - counts // 2 - (counts > 5).long() + (counts == 5).long()


class NoGradient(Pairs):
    def reduce(self, graph, S):
        return super().reduce(graph, S).detach().requires_grad_()


class Short(Pairs):
    def lift(self, x, S):
        return super().lift(x, S)[:-1]


class Single(Pairs):
    def reduce(self, graph, S):
        return super().reduce(graph, S).float()


class Forgetful(Pairs):
    """Keeps what it uses where no state is saved."""

    def __init__(self, in_channels):
        super().__init__(in_channels)
        self.factor = [torch.rand(())]

    def __deepcopy__(self, memo):
        return type(self)(8).double()

    def reduce(self, graph, S):
        return super().reduce(graph, S) * self.factor[0]


class Looping(Pairs):
    """How often it loops depends on the data."""

    def reduce(self, graph, S):
        x = super().reduce(graph, S)
        while x.abs().sum() > 1e3:
            x = x / 2
        return x


class OfParameters(Pairs):
    """Looks at its parameters: in a stack those of other runs are there, too."""

    def reduce(self, graph, S):
        return super().reduce(graph, S) / self.lin.weight.norm() + 0 * self.lin(graph.x).sum()


class Dividing(Pairs):
    """A graph without nodes has no mean."""

    def reduce(self, graph, S):
        return super().reduce(graph, S) / graph.edge_index.size(1)


def test_a_pooling_that_is_right_passes():
    check_pooling(Pairs, skip=["export"])


@pytest.mark.parametrize(
    ("cls", "expected"),
    [
        (InOneGraph, "independence"),
        (ByNumber, "equivariance"),
        (ByEdge, "equivariance"),
        (Drawing, "determinism"),
        (Promising, "output"),
        (NoGradient, "gradients"),
        (Short, "lift"),
        (Single, "dtypes"),
        (Forgetful, "state"),
        (Dividing, "odd graphs"),
        (Looping, "export"),
        (OfParameters, "training"),
    ],
)
@pytest.mark.filterwarnings("ignore:InOneGraph")
def test_what_is_wrong_is_found_and_reported_once(cls, expected):
    skip = [] if expected == "export" else ["export"]
    with pytest.raises(AssertionError) as raised:
        check_pooling(cls, skip=skip)
    names = re.findall(r"^  ([\w ]+): ", str(raised.value), re.MULTILINE)
    assert set(names) <= set(CHECKS)
    assert names == ([expected] if cls is not Dividing else ["independence", expected])


def test_a_failing_export_is_reported_once_and_not_logged(capfd):
    with pytest.raises(AssertionError, match="export: "):
        check_pooling(Looping)
    assert capfd.readouterr().err == ""


def test_a_layer_that_returns_a_broken_graph_fails():
    class Broken(TopKPooling):
        def forward(self, *args, **kwargs):
            out = super().forward(*args, **kwargs)
            return out._replace(batch=out.batch.flip(0))

    with pytest.raises(AssertionError, match="output: "):
        check_pooling(Broken, skip=["export"])


def test_an_unknown_check_is_named():
    with pytest.raises(ValueError, match="'speed'"):
        check_pooling(LCPooling, skip=["speed"])


class CountingWrong(LCPooling):
    """Its ``select`` knows the counts itself, so a call does not compare them."""

    def pooled_counts(self, counts):
        return counts


def test_counts_are_compared():
    with pytest.raises(AssertionError, match="counts: "):
        check_pooling(CountingWrong, skip=["export", "training"])


def test_what_to_pass_is_said():
    with pytest.raises(TypeError, match="LCPooling"):
        check_pooling(LCPooling(8))
    with pytest.raises(ValueError, match="'export'"):
        check_pooling(LCPooling, skip="export")
