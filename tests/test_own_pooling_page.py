"""The examples of docs/own-pooling.md run as they stand there."""

import page_poolings as page
import pytest
import torch

from lcpool.data import builtin
from lcpool.train import train

NAMES = ("KMIS", "EdgeContraction", "RandomHalf")


@pytest.mark.slow
def test_the_checks_of_the_page_pass():
    exec(page.CHECKS, page.__dict__)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_poolings_of_the_page_train_as_one(name):
    graphs = builtin(num_graphs=40)
    options = {"epochs": 2, "hidden": 8, "device": "cpu", "split": "fresh"}
    result = train(graphs, f"page_poolings:{name}", runs=3, **options)
    assert result.stack == 3
    assert len(result.accuracies()) == 3


def test_kmis_keeps_nodes_more_than_k_hops_apart_and_leaves_none_out():
    graphs = builtin(num_graphs=6)
    batch = graphs.batch(torch.arange(6))
    for k in (1, 2):
        torch.manual_seed(0)
        pool = page.KMIS(graphs.num_features, k)
        labels = pool(batch.x, batch.edge_index, batch=batch.batch).labels()
        assert (labels >= 0).all()
        score = pool.score(batch.x).view(-1)
        n = batch.x.size(0)
        A = torch.zeros(n, n).index_put(tuple(batch.edge_index), torch.tensor(1.0))
        near = torch.matrix_power(torch.eye(n) + A, k) > 0
        best = [(score * (labels == c) - 1e9 * (labels != c)).argmax() for c in labels.unique()]
        apart = near[best][:, best].float() - torch.eye(len(best))
        assert not apart.any()
        assert near[best].any(dim=0).all()


def test_contraction_joins_at_most_two_nodes_that_an_edge_joins():
    graphs = builtin(num_graphs=6)
    batch = graphs.batch(torch.arange(6))
    torch.manual_seed(0)
    labels = page.EdgeContraction(graphs.num_features)(batch.graph).labels()
    sizes = labels.bincount()
    assert sizes.max() == 2
    pairs = {tuple(edge) for edge in batch.edge_index.t().tolist()}
    for c in (sizes == 2).nonzero().view(-1):
        assert tuple((labels == c).nonzero().view(-1).tolist()) in pairs
    alone = (sizes == 1)[labels]
    assert not any(alone[u] and alone[v] for u, v in pairs)
