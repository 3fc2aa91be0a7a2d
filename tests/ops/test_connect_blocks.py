"""A' in blocks of rows."""

import errno
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from graphs import Example, graphs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from said import numbers

from lcpool import cluster_connect, cluster_connect_blocks
from lcpool.ops.connect.blocks import cut

both = pytest.mark.parametrize("backend", ["numba", "torch"], indirect=True)


def random_graph(num_nodes, degree=5, seed=0):
    """Undirected, with some edges twice and some loops, and half of the nodes kept."""
    generator = torch.Generator().manual_seed(seed)
    pairs = torch.randint(0, num_nodes, (2, num_nodes * degree // 2), generator=generator)
    perm = torch.randperm(num_nodes, generator=generator)[: num_nodes // 2]
    return torch.cat([pairs, pairs.flip(0)], dim=1), perm, num_nodes


@both
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(graphs(), st.booleans(), st.integers(1, 40))
def test_blocks_are_cluster_connect_in_pieces(backend, example: Example, self_loops, size):
    graph = (example.edge_index, example.perm(), example.num_nodes, self_loops)
    blocks = cluster_connect_blocks(*graph, edges_per_block=size)
    found = list(blocks)
    assert torch.equal(torch.cat(found, dim=1), cluster_connect(*graph))
    assert [row for rows in blocks.rows for row in rows] == list(range(graph[1].numel()))
    for rows, edges in zip(blocks.rows, found, strict=True):
        assert edges.size(1) <= size or len(rows) == 1
        assert set(edges[0].tolist()) <= set(rows)


@both
def test_blocks_are_filled_as_far_as_their_bounds_allow(backend):
    """The bound counts ways to an edge, of which a random graph has few more than edges."""
    graph = random_graph(2000)
    num_edges = cluster_connect(*graph).size(1)
    blocks = cluster_connect_blocks(*graph, edges_per_block=num_edges // 10)
    assert 10 < len(blocks) < 30
    assert repr(blocks) == f"Blocks(rows=1000, blocks={len(blocks)})"


def test_rows_are_cut_where_the_next_would_be_too_much():
    assert cut(torch.tensor([2, 1, 3, 9, 0, 0, 3, 1]), 3) == [
        range(0, 2), range(2, 3), range(3, 4), range(4, 7), range(7, 8),
    ]  # fmt: skip
    assert cut(torch.tensor([], dtype=torch.long), 3) == [range(0)]


@both
def test_a_block_by_its_number(backend):
    blocks = cluster_connect_blocks(*random_graph(300), edges_per_block=1000)
    found = list(blocks)
    assert len(found) == len(blocks) > 3
    assert torch.equal(blocks[2], found[2])
    assert torch.equal(blocks[-1], found[-1])
    with pytest.raises(IndexError):
        blocks[len(blocks)]
    with pytest.raises(TypeError, match="slice"):
        blocks[:2]


@both
def test_the_graph_is_its_own(backend):
    """Blocks found later know nothing of what became of the input."""
    edge_index, perm, num_nodes = random_graph(300)
    expected = cluster_connect(edge_index, perm, num_nodes)
    blocks = cluster_connect_blocks(edge_index, perm, num_nodes, edges_per_block=1000)
    edge_index.fill_(-1)
    perm.fill_(10**9)
    assert torch.equal(torch.cat(list(blocks), dim=1), expected)
    sent = pickle.loads(pickle.dumps(blocks))
    assert torch.equal(torch.cat(list(sent), dim=1), expected)


def test_threads_do_not_change_the_blocks(monkeypatch):
    cpu = pytest.importorskip("lcpool.ops.connect.cpu", reason="needs numba")
    graph = random_graph(500)
    monkeypatch.setattr(cpu, "EDGES_PER_THREAD", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    blocks = cluster_connect_blocks(*graph, edges_per_block=2000)
    assert torch.equal(torch.cat(list(blocks), dim=1), cluster_connect(*graph))


@both
@pytest.mark.parametrize("num_nodes", [0, 1, 4])
def test_no_edges_and_nothing_kept(backend, num_nodes, tmp_path):
    none, kept = torch.empty(2, 0, dtype=torch.long), torch.arange(num_nodes)
    blocks = cluster_connect_blocks(none, kept, num_nodes)
    assert [edges.shape for edges in blocks] == [(2, 0)]
    assert blocks.save(tmp_path / "none.npy").shape == (2, 0)


@both
def test_indices_of_32_bits(backend):
    edge_index, perm, num_nodes = random_graph(300)
    blocks = cluster_connect_blocks(edge_index.int(), perm.int(), num_nodes)
    assert torch.equal(blocks[0], cluster_connect(edge_index, perm, num_nodes))


@both
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(graphs(), st.integers(1, 40))
def test_a_saved_file_holds_the_edges(backend, tmp_path_factory, example: Example, size):
    path = tmp_path_factory.mktemp("saved") / "pooled.npy"
    graph = (example.edge_index, example.perm(), example.num_nodes)
    saved = cluster_connect_blocks(*graph, edges_per_block=size).save(path)
    expected = cluster_connect(*graph)
    assert saved.dtype == torch.int32
    assert torch.equal(saved.long(), expected)
    np.testing.assert_array_equal(np.load(path), expected.numpy())


@both
def test_a_file_is_the_input_of_the_next_pooling(backend, tmp_path):
    blocks = cluster_connect_blocks(*random_graph(300), edges_per_block=1000)
    once = blocks.save(tmp_path / "once.npy")
    kept = torch.arange(0, 150, 2)
    twice = cluster_connect_blocks(once, kept, 150).save(tmp_path / "once.npy")
    assert torch.equal(twice.long(), cluster_connect(once, kept, 150))
    assert list(tmp_path.iterdir()) == [tmp_path / "once.npy"]


def test_a_change_does_not_reach_the_file(tmp_path):
    saved = cluster_connect_blocks(*random_graph(300)).save(tmp_path / "pooled.npy")
    saved.fill_(-1)
    assert np.load(tmp_path / "pooled.npy").min() == 0


def test_progress_sees_every_block(tmp_path):
    blocks, seen = cluster_connect_blocks(*random_graph(300), edges_per_block=1000), []

    def track(given):
        for done, edges in enumerate(given, start=1):
            seen.append(f"{done}/{len(given)}")
            yield edges

    blocks.save(tmp_path / "pooled.npy", progress=track)
    assert len(seen) > 3
    assert seen[-1] == f"{len(blocks)}/{len(blocks)}"


def interrupted(blocks):
    yield blocks[0]
    raise KeyboardInterrupt


@pytest.mark.parametrize("before", [b"what was there", None])
def test_an_interrupted_writing_leaves_what_was_there(tmp_path, before):
    path = tmp_path / "pooled.npy"
    if before is not None:
        path.write_bytes(before)
    blocks = cluster_connect_blocks(*random_graph(300), edges_per_block=1000)
    with pytest.raises(KeyboardInterrupt):
        blocks.save(path, progress=interrupted)
    assert [file.read_bytes() for file in tmp_path.iterdir()] == (
        [] if before is None else [before]
    )


def test_a_full_disk_is_named_and_leaves_nothing(tmp_path):
    """A limit on the size of files stands in for the disk; the error comes the same way."""
    resource = pytest.importorskip("resource", reason="no such limit on Windows")
    blocks = cluster_connect_blocks(*random_graph(3000), edges_per_block=10_000)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**18, before[1]))
    try:
        with pytest.raises(OSError, match=rf"{os.strerror(errno.EFBIG)}.*pooled\.npy"):
            blocks.save(tmp_path / "pooled.npy")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_place_of_a_file(tmp_path):
    with pytest.raises(ValueError, match="pooled"):
        cluster_connect_blocks(*random_graph(30)).save(tmp_path)
    assert list(tmp_path.iterdir()) == []


@both
@pytest.mark.parametrize(
    ("edges", "perm", "options", "error", "words"),
    [
        ([[0, 3], [1, 1]], [0], {}, ValueError, r"'edge_index'.*\[0, 3\].*\b3\b"),
        ([[0, -1], [1, 1]], [0], {}, ValueError, r"'edge_index'.*\[-1, 1\]"),
        ([[0, 1]], [0], {}, ValueError, r"'edge_index'.*\[1, 2\]"),
        ([[0.0], [1.0]], [0], {}, TypeError, "float32"),
        ([[0, 1], [1, 0]], [3], {}, ValueError, "perm"),
        ([[0, 1], [1, 0]], [1, 1], {}, ValueError, "perm"),
        ([[0, 1], [1, 0]], [0], {"num_nodes": 2**31}, ValueError, "num_nodes"),
        ([[0, 1], [1, 0]], [0], {"num_nodes": -1}, ValueError, "num_nodes"),
        ([[0, 1], [1, 0]], [0], {"edges_per_block": 0}, ValueError, "edges_per_block"),
    ],
)
def test_bad_input_is_named_at_once(backend, edges, perm, options, error, words):
    with pytest.raises(error, match=words):
        cluster_connect_blocks(
            torch.tensor(edges), torch.tensor(perm), **{"num_nodes": 3} | options
        )


PEAK = """
import resource, sys, torch
from lcpool import cluster_connect_blocks

torch.set_num_threads(1)

def star(leaves, size):
    hub, leaf = torch.zeros(leaves, dtype=torch.long), torch.arange(1, leaves + 1)
    spokes = torch.stack([hub, leaf])
    edges = torch.cat([spokes, spokes.flip(0)], dim=1)
    return cluster_connect_blocks(edges, leaf, leaves + 1, edges_per_block=size)

def peak():  # in bytes; the kernel counts in KiB
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

star(100, 1000).save(sys.argv[1])  # compile
before = peak()
print(star(4000, 2**17).save(sys.argv[1]).size(1), peak() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak is counted differently elsewhere")
def test_memory_does_not_grow_with_the_output(tmp_path: Path):
    """A star of 4000 leaves becomes 16 M edges: 256 MB in one piece, 4 MB a block."""
    pytest.importorskip("numba", reason="plain torch has no such kernel")
    code = [sys.executable, "-c", PEAK, str(tmp_path / "pooled.npy")]
    done = subprocess.run(code, capture_output=True, text=True, check=True, timeout=250)
    num_edges, grown = map(int, done.stdout.split())
    assert num_edges == 4000**2
    assert grown < 24e6


@pytest.mark.slow
def test_blocks_on_ray(tmp_path):
    """The example, on two workers; what a run before has finished is not found again."""
    pytest.importorskip("ray", reason="the example needs Ray: pip install 'lcpool[ray]'")
    script = Path(__file__).parents[2] / "examples/large_ray.py"
    kept = tmp_path / "000001.npy"
    np.save(kept, np.empty((2, 0), np.int32))
    done = subprocess.run(
        [sys.executable, script, "--nodes=600", f"--folder={tmp_path}", "--workers=2",
         "--edges-per-block=10000"],
        capture_output=True, text=True, check=True, timeout=250,
    )  # fmt: skip
    blocks = cluster_connect_blocks(*random_graph(600), edges_per_block=10_000)
    expected = [edges.int().tolist() for edges in blocks]
    expected[1] = [[], []]
    assert [np.load(file).tolist() for file in sorted(tmp_path.glob("*.npy"))] == expected
    num_edges = sum(len(row) for row, _ in expected)
    assert [len(expected), num_edges] in [numbers(line)[:2] for line in done.stdout.splitlines()]
    other = [sys.executable, script, "--nodes=500", f"--folder={tmp_path}"]
    refused = subprocess.run(other, capture_output=True, text=True, check=False, timeout=250)
    assert refused.returncode == 1
    assert str(tmp_path) in refused.stderr.splitlines()[-1]
