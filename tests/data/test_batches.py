"""Batches that are cut together are those that are cut one by one."""

from types import SimpleNamespace

import pytest
import torch
from graph_sets import graph_lists
from hypothesis import given
from hypothesis import strategies as st

from lcpool.data import GraphSet, batches, builtin


def same(one, other) -> bool:
    pairs = [(getattr(one, name), getattr(other, name)) for name in (
        "x", "edge_index", "edge_attr", "batch", "target", "node_counts", "edge_counts",
    )]  # fmt: skip
    pairs.append((one.graph.sizes.ptr, other.graph.sizes.ptr))
    return all(torch.equal(a, b) for a, b in pairs) and one.batch_size == other.batch_size


@given(graph_lists(), st.data())
def test_together_and_one_by_one(graphs, data):
    graphs = GraphSet.from_graphs(graphs)
    numbers = st.lists(st.integers(0, len(graphs) - 1), max_size=6)
    parts = data.draw(st.lists(numbers, min_size=1, max_size=5))
    parts = [torch.tensor(part, dtype=torch.long) for part in parts]
    together = list(batches.cut_together(graphs, parts))
    alone = [graphs.batch(part) for part in parts]
    assert len(together) == len(alone)
    assert all(map(same, together, alone))


def test_every_batch_begins_where_a_kernel_may_load_16_bytes():
    graphs = builtin(num_graphs=40)
    for batch in batches.cut_together(graphs, torch.split(torch.arange(40), 7)):
        sizes = batch.graph.sizes
        for tensor in (batch.x, batch.edge_index, batch.batch, sizes.ptr):
            assert tensor.is_contiguous()
            assert tensor.data_ptr() % 16 == 0


@pytest.mark.parametrize(("at_once", "calls"), [(1, 5), (2**24, 1)])
def test_on_a_gpu_as_many_are_cut_together_as_allowed(monkeypatch, at_once, calls):
    seen = []
    monkeypatch.setattr(batches, "AT_ONCE", at_once)
    monkeypatch.setattr(batches, "cut_together", lambda graphs, parts: seen.append(parts) or [])
    graphs = builtin(num_graphs=10)
    there = SimpleNamespace(
        x=SimpleNamespace(is_cuda=True), num_features=graphs.num_features,
        node_counts=graphs.node_counts, edge_counts=graphs.edge_counts,
    )  # fmt: skip
    parts = torch.split(torch.arange(10), 2)
    list(batches.cut_batches(there, parts))
    assert len(seen) == calls
    assert torch.cat([part for some in seen for part in some]).tolist() == list(range(10))
