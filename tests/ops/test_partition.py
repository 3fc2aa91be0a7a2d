"""Independent sets, matchings and contraction against one step after the other in Python."""

import pytest
import torch
from graphs import Example, dense, graphs
from hypothesis import given
from hypothesis import strategies as st

from lcpool.graph.edges import Edges
from lcpool.graph.sizes import Sizes
from lcpool.ops.contract import contract
from lcpool.ops.independent_set import independent_set
from lcpool.ops.matching import matching

pytestmark = pytest.mark.usefixtures("backend")


def shuffled(count, seed):
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed))


def reached(edges, start, k):
    """The nodes that ``start`` reaches in at most k hops, by the definition."""
    found = {start}
    for _ in range(min(k, len(edges))):
        found |= {v for u, v in edges if u in found}
    return found


def joined_one_by_one(order, edges, k):
    centre = {}
    for u in order:
        if u not in centre:
            for v in reached(edges, u, k):
                centre.setdefault(v, u)
    return [centre[u] for u in range(len(order))]


def matched_one_by_one(order, edges, num_nodes):
    found = [-1] * num_nodes
    for e in order:
        u, v = edges[e]
        if u != v and found[u] == found[v] == -1:
            found[u] = found[v] = e
    return found


def sizes(*counts):
    return Sizes(torch.tensor(counts), torch.device("cpu"))


def pairs(edge_index):
    return [tuple(pair) for pair in edge_index.t().tolist()]


def check_independent_set(example: Example, k: int) -> None:
    order = shuffled(example.num_nodes, example.seed)
    edges = Edges(example.edge_index, example.num_nodes)
    wanted = joined_one_by_one(order.tolist(), pairs(example.edge_index), k)
    for counts in (example.sizes, (example.num_nodes,)):  # as several graphs, and as one
        assert independent_set(order, edges, k, sizes(*counts)).tolist() == wanted


@pytest.mark.parametrize("k", [1, 2, 3, 10**12])
def test_independent_sets_are_those_of_one_node_after_the_other(k):
    given(graphs())(lambda example: check_independent_set(example, k))()


def test_a_kept_node_may_reach_one_that_comes_before_it():
    """Along directed edges: that one may be kept, too."""
    for seed in range(3):
        generator = torch.Generator().manual_seed(seed)
        edges, order = torch.randint(60, (2, 180), generator=generator), shuffled(60, seed)
        found = independent_set(order, Edges(edges, 60), 1, sizes(60))
        assert found.tolist() == joined_one_by_one(order.tolist(), pairs(edges), 1)


@pytest.mark.parametrize("k", [1, 2])
def test_kept_nodes_are_apart_and_near_to_all(k):
    @given(graphs(undirected=True))
    def check(example: Example) -> None:
        edges = Edges(example.edge_index, example.num_nodes)
        order = shuffled(example.num_nodes, 1)
        centre = independent_set(order, edges, k, sizes(*example.sizes))
        kept = {u for u in range(example.num_nodes) if centre[u] == u}
        balls = [reached(pairs(example.edge_index), u, k) for u in range(example.num_nodes)]
        for u, ball in enumerate(balls):
            assert len(kept & ball) >= 1
            assert u not in kept or kept & ball == {u}

    check()


def test_matchings_are_those_of_one_edge_after_the_other():
    @given(graphs())
    def check(example: Example) -> None:
        edges, n = example.edge_index, example.num_nodes
        order = shuffled(edges.size(1), example.seed)
        wanted = matched_one_by_one(order.tolist(), pairs(edges), n)
        for counts in (example.sizes, (n,)):
            found = matching(order, Edges(edges, n).entries, sizes(*counts))
            assert found.tolist() == wanted

    check()


def test_a_long_path_with_rising_weights():
    """The worst order for rounds; 16-bit scores that all tie must not make a difference either."""
    n = 100
    path = torch.stack([torch.arange(n - 1), torch.arange(1, n)])
    order = torch.arange(n - 1)
    found = matching(order, Edges(path, n).entries, sizes(n))
    assert found.tolist() == [i // 2 * 2 for i in range(n)]
    both = Edges(torch.cat([path, path.flip(0)], 1), n)
    centre = independent_set(torch.arange(n), both, 1, sizes(n))
    assert centre.tolist() == [max(i - i % 2, 0) for i in range(n)]


def test_contraction_is_the_product():
    @given(graphs(), st.integers(1, 4))
    def check(example: Example, groups: int) -> None:
        n, edges = example.num_nodes, example.edge_index
        generator = torch.Generator().manual_seed(example.seed)
        label = torch.randint(-1, groups, (n,), generator=generator)
        weight = example.weights()
        found = contract(edges, label, groups)
        S = torch.zeros(n, groups, dtype=torch.float64)
        S[label >= 0] = torch.eye(groups, dtype=torch.float64)[label[label >= 0]]
        pattern = S.T @ dense(edges, n) @ S
        pattern.fill_diagonal_(0)
        assert torch.equal(found.edges, pattern.nonzero().t())
        values = (S.T @ dense(edges, n, weight) @ S)[tuple(found.edges)]
        torch.testing.assert_close(found.reduce(weight, "sum"), values)

    check()


@pytest.mark.parametrize("how", ["sum", "mean", "max"])
def test_attributes_of_merged_edges(how):
    @given(graphs())
    def check(example: Example) -> None:
        edges, n = example.edge_index, example.num_nodes
        generator = torch.Generator().manual_seed(example.seed)
        label = torch.randint(0, 3, (n,), generator=generator)
        attr = torch.randn(edges.size(1), 2, 3, generator=generator, dtype=torch.float64)
        found = contract(edges, label, 3)
        groups: dict[tuple[int, int], list] = {}
        for e, (u, v) in enumerate(label[edges].t().tolist()):
            if u != v:
                groups.setdefault((u, v), []).append(attr[e])
        assert pairs(found.edges) == sorted(groups)
        one = {"sum": lambda t: t.sum(0), "mean": lambda t: t.mean(0), "max": lambda t: t.amax(0)}
        expected = [one[how](torch.stack(groups[pair])) for pair in sorted(groups)]
        expected = torch.stack(expected) if expected else attr[:0]
        torch.testing.assert_close(found.reduce(attr, how), expected)

    check()


@pytest.mark.parametrize("how", ["sum", "mean", "max"])
def test_gradients_of_attributes(how):
    edges = torch.tensor([[0, 1, 0, 2, 3, 3, 1], [2, 3, 3, 0, 1, 1, 0]])
    attr = torch.randn(7, 2, dtype=torch.float64, requires_grad=True)
    found = contract(edges, torch.tensor([0, 0, 1, 1]), 2)
    assert found.edges.tolist() == [[0, 1], [1, 0]]
    assert torch.autograd.gradcheck(lambda attr: found.reduce(attr, how), (attr,))
