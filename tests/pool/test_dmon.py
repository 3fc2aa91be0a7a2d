"""DMoN against PyG's dense layer and the literal formulas."""

import math

import torch
import torch_geometric.nn as pyg
from graphs import Example, dense, graphs
from hypothesis import assume, given

from lcpool import DMoNPooling
from lcpool.testing import check_pooling


def parts(example: Example, weight):
    """Nodes, A and its weights of each graph alone."""
    start, A = 0, dense(example.edge_index, example.num_nodes, weight)
    for size in example.sizes:
        nodes = slice(start, start + size)
        yield nodes, A[nodes, nodes]
        start += size


def literal(S, A):
    """The losses with the n × n modularity matrix."""
    n, k = S.shape
    d, volume = A.sum(1), A.sum()
    B = A - torch.outer(d, d) / volume if volume else torch.zeros_like(A)
    spectral = -(S.T @ B @ S).trace() / volume if volume else torch.zeros(()).double()
    return spectral, math.sqrt(k) / n * S.sum(0).norm() - 1


@given(graphs())
def test_losses_are_the_literal_ones_of_each_graph(example: Example):
    assume(example.num_nodes > 0)
    torch.manual_seed(example.seed)
    pool, x, weight = DMoNPooling(8, 3).double(), example.features(), example.weights().abs()
    out = pool(x, example.edge_index, weight, example.batch, batch_size=len(example.sizes))
    S = pool.assign(x).softmax(-1)
    expected = []
    for nodes, A in parts(example, weight):
        n = nodes.stop - nodes.start
        values = literal(S[nodes], A) if n else (torch.zeros(()).double(),) * 2
        expected.append(sum(values))
    torch.testing.assert_close(out.graph_loss, torch.stack(expected))
    count = sum(size > 0 for size in example.sizes)
    torch.testing.assert_close(out.loss, torch.stack(expected).sum() / count)


@given(graphs(undirected=True))
def test_equals_pyg_graph_by_graph(example: Example):
    """On graphs with edges and without padding, where PyG's losses are right."""
    torch.manual_seed(example.seed)
    pool, x, weight = DMoNPooling(8, 3).double(), example.features(), None
    theirs = pyg.DMoNPooling(8, 3).double()
    with torch.no_grad():
        theirs.mlp.lins[0].weight.copy_(pool.assign.weight)
        theirs.mlp.lins[0].bias.copy_(pool.assign.bias)
    out = pool(x, example.edge_index, None, example.batch, batch_size=len(example.sizes))
    for g, (nodes, A) in enumerate(parts(example, weight)):
        if not A.any():
            continue
        s, px, padj, spectral, _, cluster = theirs(x[nodes], A)
        torch.testing.assert_close(torch.selu(out.x.view(-1, 3, 8)[g]), px[0])
        torch.testing.assert_close(out.edge_attr.view(-1, 3, 3)[g], padj[0])
        torch.testing.assert_close(out.assignment.value[nodes], s[0])
        torch.testing.assert_close(out.graph_loss[g], spectral + cluster)


def test_gradients():
    torch.manual_seed(0)
    pool = DMoNPooling(3, 2).double()
    edges, batch = (
        torch.tensor([[0, 1, 1, 2, 3, 0], [1, 0, 2, 1, 3, 1]]),
        torch.tensor([0, 0, 0, 1]),
    )
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    weight = torch.rand(6, dtype=torch.float64, requires_grad=True)

    def call(x, weight, *parameters):
        out = pool(x, edges, weight, batch)
        return out.x, out.edge_attr, out.loss

    assert torch.autograd.gradcheck(call, (x, weight, *pool.parameters()))


def test_checks():
    check_pooling(DMoNPooling)
    assert repr(DMoNPooling(8, 3)) == "DMoNPooling(8, 3)"
