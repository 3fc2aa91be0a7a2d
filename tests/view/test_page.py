"""The page of ``lcpool show`` as text: what is in it; ``test_browser`` looks at it."""

import base64
import json
import math
import re
import zlib

import pytest
import torch
from targets import random_graphs, with_labels, with_values
from torch_geometric.data import Data
from untrained import labelled, untrained

from lcpool.cli.show import about
from lcpool.data import GraphSet
from lcpool.train import Model
from lcpool.view import Level, PooledGraph, page


def unpacked(text: str) -> tuple[dict, list[list[dict]]]:
    """The index and the chunks in a page."""
    found = re.findall(r'<script type="text/plain" (class="chunk"|id="index")>(.*?)</script>', text)
    values = [json.loads(zlib.decompress(base64.b64decode(content))) for _, content in found]
    return values[-1], values[:-1]


def made(model: Model, graphs: GraphSet) -> str:
    return "".join(page.page(model.each_pooled(graphs), about(model, graphs)))


def test_graphs_are_found_by_their_chunk(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(page, "CHUNK", 400)
    graphs = labelled(random_graphs(12))
    model = untrained(graphs, poolings=2)
    index, chunks = unpacked(made(model, graphs))
    assert len(chunks) == len(index["first"]) > 2
    assert index["first"] == [sum(map(len, chunks[:i])) for i in range(len(chunks))]
    records = [record for chunk in chunks for record in chunk]
    for record, one in zip(records, model.pooled(graphs), strict=True):
        assert record["n"] == one.graph.num_nodes
        assert [level["i"] for level in record["l"]] == [v.perm.tolist() for v in one.levels]
        assert [level["c"] for level in record["l"]] == [v.labels.tolist() for v in one.levels]
        for level, v in zip(record["l"], one.levels, strict=True):
            pairs = list(zip(level["e"][::2], level["e"][1::2], strict=True))
            edges = {(min(e), max(e)): bool(x) for e, x in zip(v.edge_index.t().tolist(), v.new,
                                                              strict=True)}  # fmt: skip
            assert pairs == sorted(pair for pair in edges if pair[0] != pair[1])
            assert level["x"] == [i for i, pair in enumerate(pairs) if edges[pair]]
            torch.testing.assert_close(torch.tensor(level["h"]), v.score, rtol=1e-3, atol=1e-6)
        torch.testing.assert_close(
            torch.tensor(record["p"]), one.probabilities, rtol=1e-3, atol=1e-4
        )


def test_what_is_sorted_by():
    graphs = labelled(random_graphs(8))
    model = untrained(graphs)
    rows = unpacked(made(model, graphs))[0]["rows"]
    p = model.probabilities(graphs)
    assert rows["nodes"] == graphs.node_counts.tolist()
    torch.testing.assert_close(torch.tensor(rows["confidence"]), p.amax(1), rtol=1e-3, atol=1e-4)
    right = p[torch.arange(8), graphs.targets]
    torch.testing.assert_close(torch.tensor(rows["error"]), 1 - right, rtol=1e-3, atol=1e-4)
    assert rows["wrong"] == (model.predict(graphs) != graphs.y).tolist()


@pytest.mark.parametrize("graphs", [with_labels(9), with_values(9, missing=0.3)])
def test_labels_and_values(graphs: GraphSet):
    model = untrained(graphs)
    rows = unpacked(made(model, graphs))[0]["rows"]
    values = graphs.task == "values"
    given = model.predict(graphs) if values else model.probabilities(graphs)
    error = (given - graphs.y).abs().nanmean(1).tolist()
    for ours, theirs in zip(rows["error"], error, strict=True):
        assert (ours is None) if math.isnan(theirs) else ours == pytest.approx(theirs, rel=1e-3)
    assert all((value is None) == values for value in rows["confidence"])


def test_a_class_that_the_model_does_not_know_is_an_error_of_one():
    graphs = labelled(random_graphs(4))
    model = untrained(graphs)
    others = random_graphs(1)
    others[0].y = 7
    rows = unpacked(made(model, GraphSet.from_graphs(others)))[0]["rows"]
    assert (rows["error"], rows["wrong"], rows["truth"]) == ([1.0], [True], ["7"])


def test_the_heaviest_of_many_weighted_edges(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(page, "MOST_WEIGHTED", 3)
    ends = torch.combinations(torch.arange(4)).t()
    level = Level(4, ends, torch.tensor([0.1, 0.6, 0.2, 0.5, 0.3, 0.4]))
    record = page.record(PooledGraph(Data(edge_index=ends, num_nodes=4), (level,)))["l"][0]
    assert record["of"] == 6
    assert record["w"] == [0.6, 0.5, 0.4]
    assert record["e"] == ends.t()[[1, 3, 5]].reshape(-1).tolist()


def test_no_graphs_are_a_page():
    graphs = labelled(random_graphs(2))
    model = untrained(graphs)
    index, chunks = unpacked("".join(page.page([], about(model, graphs))))
    assert (index["first"], index["rows"], chunks) == ([], {}, [])
