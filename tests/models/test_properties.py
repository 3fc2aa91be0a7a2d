"""What classes declare of themselves, and docs/poolings.md shows, is true, and its opposite not."""

import itertools

import pytest
import torch

from lcpool.models import POOLINGS, Architecture, make_pooling

every = pytest.mark.parametrize("name", POOLINGS)


def make(name, ratio=0.25):
    torch.manual_seed(0)
    return make_pooling(name, 8, 3, Architecture(pool=name, ratio=ratio)).double()


def connected_graphs():
    """All connected graphs of up to five nodes, as one batch, and a hundred paths of nine nodes."""
    found = []
    for n in range(1, 6):
        possible = list(itertools.combinations(range(n), 2))
        for chosen in itertools.product((False, True), repeat=len(possible)):
            edges = list(itertools.compress(possible, chosen))
            if in_one_piece(edges, n):
                found.append((n, edges))
    found += [(9, list(itertools.pairwise(range(9))))] * 100
    counts = torch.tensor([n for n, _ in found])
    first = (counts.cumsum(0) - counts).tolist()
    pairs = [
        (u + start, v + start) for (_, edges), start in zip(found, first, strict=True)
        for u, v in edges
    ]  # fmt: skip
    index = torch.tensor(pairs).t()
    index = torch.cat([index, index.flip(0)], dim=1)
    return index, torch.arange(len(found)).repeat_interleave(counts)


def in_one_piece(edges, num_nodes):
    reached = {0}
    for _ in range(num_nodes):
        reached |= {b for u, v in edges for a, b in ((u, v), (v, u)) if a in reached}
    return len(reached) == num_nodes


def pieces(out):
    """Whether each pooled graph is in one piece; edges of weight 0 do not count."""
    there = torch.ones_like(out.edge_index[0], dtype=torch.bool)
    there = there if out.edge_attr is None else out.edge_attr != 0
    source, target = out.edge_index[:, there]
    label = torch.arange(out.x.size(0))
    while True:
        new = label.scatter_reduce(0, target, label[source], "amin")
        new = new.scatter_reduce(0, source, new[target], "amin")
        if torch.equal(new, label):
            break
        label = new
    first = torch.full((out.batch_size,), len(label)).scatter_reduce(0, out.batch, label, "amin")
    whole = torch.ones(out.batch_size).bool()
    return whole.index_put((out.batch[label != first[out.batch]],), torch.tensor(False))


@every
def test_connected_for_sure(name):
    index, batch = connected_graphs()
    x = torch.randn(len(batch), 8, dtype=torch.float64)
    pool = make(name)
    # A graph of one node has no edges: of dense poolings it gets k nodes without any.
    more_than_one = batch.bincount() > 1
    whole = pieces(pool(x, index, batch=batch))[more_than_one]
    assert bool(whole.all()) == pool.keeps_connected


@every
def test_expressive(name):
    """All rows of S have one sum, and X' = SᵀX."""
    index, batch = connected_graphs()
    x = torch.randn(len(batch), 8, dtype=torch.float64)
    pool = make(name)
    out = pool(x, index, batch=batch)
    S = out.assignment.to_dense().double()
    sums = S.sum(1)
    same = bool((sums - sums[0]).abs().max() < 1e-9) and bool(sums[0] > 0)
    product = S.shape[1] == len(out.x) and torch.allclose(S.T @ x, out.x)
    assert (same and product) == pool.expressive


@every
def test_costs_are_declared(name):
    assert make(name).cost
