import numpy as np
import pytest
import torch
from graphs import Example, graphs
from hypothesis import given
from hypothesis import strategies as st

from lcpool import Assignment, cluster_connect, cluster_connect_blocks
from lcpool.graph.assignment import clusters
from lcpool.graph.checks import Checks
from lcpool.ops.connect.plain import connect_by_joins

bitsets = pytest.importorskip("lcpool.ops.connect.cpu_bitsets", reason="needs numba")
cpu = pytest.importorskip("lcpool.ops.connect.cpu", reason="needs numba")


def by_joins(edge_index, perm, num_nodes, self_loops=True, hops=3):
    S, itself = clusters(edge_index, perm, num_nodes), Assignment.of_nodes(perm, num_nodes)
    left, right = S if hops > 2 else itself, S if hops > 1 else itself
    return connect_by_joins(edge_index, None, right, self_loops, 10**9, Checks(), left)[0]


def by_search(edge_index, perm, num_nodes, self_loops=True, hops=3):
    graph = cpu.prepare(*edge_index.numpy(), perm.numpy(), num_nodes, hops)
    return torch.from_numpy(cpu.search(graph, self_loops, 10**9)[0])


def by_bits(edge_index, perm, num_nodes, self_loops=True, hops=3):
    options = (self_loops, 10**9, hops)
    return bitsets.connect_small(*edge_index.numpy(), perm.numpy(), num_nodes, *options)


def random_graphs(sizes, degree, seed=0):
    """A batch in which an edge leads anywhere in its graph, and half of the nodes kept."""
    generator = torch.Generator().manual_seed(seed)
    parts, start = [], 0
    for size in sizes:
        parts.append(start + torch.randint(0, size, (2, size * degree), generator=generator))
        start += size
    perm = torch.randperm(start, generator=generator)[: start // 2]
    return torch.cat(parts, dim=1), perm, start


@given(graphs(), st.booleans(), st.integers(1, 3))
def test_bits_and_search_and_joins_agree(example: Example, self_loops, hops):
    case = (example.edge_index, example.perm(), example.num_nodes, self_loops, hops)
    expected = by_joins(*case)
    assert torch.equal(by_search(*case), expected)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu, "LIST_EDGES", -1)
        assert torch.equal(by_search(*case), expected)
    assert torch.equal(torch.from_numpy(by_bits(*case)), expected)


def test_the_lists_of_a_star_are_not_kept():
    """Of its n leaves each would list all others."""
    leaf = torch.arange(1, 3000)
    star = torch.stack([torch.cat([leaf, leaf * 0]), torch.cat([leaf * 0, leaf])])
    perm = torch.arange(0, 3000, 2)
    graph = cpu.prepare(*star.numpy(), perm.numpy(), 3000)
    assert cpu.list_ends(graph)[-1] > 1000 * 3000
    assert cpu.with_lists(graph, cpu.LIST_EDGES) is graph
    assert by_search(star, perm, 3000).size(1) == 1500**2


@pytest.mark.parametrize("self_loops", [True, False])
@pytest.mark.parametrize("sizes", [(70, 1, 200, 3), (1500,)])
def test_rows_of_several_words(sizes, self_loops):
    edge_index, perm, n = random_graphs(sizes, degree=2)
    found = by_bits(edge_index, perm, n, self_loops)
    assert torch.equal(torch.from_numpy(found), by_joins(edge_index, perm, n, self_loops))


def test_a_search_through_more_words_than_one_word_has_bits():
    """300 000 kept nodes are 4688 words, which 74 words tell apart, and two words those."""
    edge_index, perm, n = random_graphs((600_000,), degree=1)
    assert by_bits(edge_index, perm, n) is None
    found = cluster_connect(edge_index, perm, n)
    assert torch.equal(found, by_joins(edge_index, perm, n))


def test_edges_that_do_not_stand_by_graph():
    """They make of the graphs one block; a large one is searched."""
    edge_index, perm, n = random_graphs((30, 40, 50), degree=2)
    mixed = edge_index[:, torch.randperm(edge_index.size(1))].contiguous()
    assert len(bitsets.find_blocks(*edge_index.numpy(), n)[1]) > 3
    assert bitsets.find_blocks(*mixed.numpy(), n)[1].tolist() == [0, n]
    assert torch.equal(torch.from_numpy(by_bits(mixed, perm, n)), by_joins(edge_index, perm, n))


def test_an_edge_between_two_graphs_joins_them():
    edge_index, perm, n = random_graphs((30, 40), degree=1)
    edge_index = torch.cat([edge_index, torch.tensor([[5], [60]])], dim=1)
    found = torch.from_numpy(by_bits(edge_index, perm, n))
    assert torch.equal(found, by_joins(edge_index, perm, n))


@pytest.mark.parametrize("sizes", [(50,) * 9, (1000,)])
@pytest.mark.parametrize("path", [by_bits, by_search])
def test_threads_do_not_change_the_result(sizes, path, monkeypatch):
    case = random_graphs(sizes, degree=2)
    alone = torch.as_tensor(path(*case))
    monkeypatch.setattr(cpu, "EDGES_PER_THREAD", 1)
    monkeypatch.setattr(bitsets, "WORDS_PER_THREAD", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    assert torch.equal(torch.as_tensor(path(*case)), alone)


@pytest.mark.parametrize("connect", [by_search, lambda *case: cluster_connect_blocks(*case)[0]])
def test_an_edge_may_stand_more_often_than_there_are_nodes(connect):
    edge_index = torch.tensor([[0, 1, 2], [1, 2, 1]]).repeat(1, 3000)
    perm = torch.tensor([1, 2])
    assert torch.equal(connect(edge_index, perm, 3), by_joins(edge_index[:, :3], perm, 3))


def test_rows_can_be_found_apart():
    edge_index, perm, n = random_graphs((300,), degree=3)
    graph = cpu.prepare(*edge_index.numpy(), perm.numpy(), n)
    most = cpu.most_edges(graph)
    parts = [cpu.find_rows(*cut, graph, True, most) for cut in ((20, 60), (60, 61))]
    found, _ = cpu.stack_rows(20, parts)
    whole = by_joins(edge_index, perm, n)
    assert torch.equal(torch.from_numpy(found), whole[:, (whole[0] >= 20) & (whole[0] < 61)])
    lengths = torch.from_numpy(cpu.find_rows(0, perm.numel(), graph, True, None)[0])
    assert torch.equal(lengths, whole[0].bincount(minlength=perm.numel()))
    assert (lengths <= torch.from_numpy(most)).all()


def test_more_edges_than_32_bits_count_are_refused():
    many = np.broadcast_to(np.int64(0), 2**32)  # one number, read again and again
    with pytest.raises(ValueError, match="2³²"):
        cpu.prepare(many, many, np.zeros(1, np.int64), 1)
