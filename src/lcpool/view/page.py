"""The page of ``lcpool show``: all graphs of a dataset, with what a model pooled and predicted.

One HTML file. Graphs are in it as compressed JSON in chunks, which the page reads when one of them
is shown; the columns of its list are in an index. Nothing from the data is markup: all of it is
inside base64, and the script writes it as text.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lcpool.extras import needs
from lcpool.view.levels import Level, PooledGraph, pairs, written

with needs("lab"):
    from lcpool.pages import environment, inline, text

CHUNK = 1 << 16  # characters of JSON that are decoded at once
# Pairs of nodes per level, at most: the edges of dense poolings are all pairs.
MOST_WEIGHTED = 2000
DIGITS = 4


class About(NamedTuple):
    """What the page is about.

    Attributes:
        dataset: the name of the graphs.
        model: the network, in words.
        kind: what is predicted: "classes", "labels" or "values".
        names: a name for each class, label or value.
        parts: the part of the split that each graph is in, or nothing.
    """

    dataset: str
    model: str
    kind: str
    names: Sequence[str]
    parts: Sequence[str]


def page(graphs: Iterable[PooledGraph], about: About) -> Iterator[str]:
    """The page in pieces, made while the graphs come in."""
    index = Index()
    style = text("lcpool.view", "+base.css", "show.css", "+tip.css")
    script = text("lcpool.view", "layout.js", "show.js", "+tip.js")
    template = environment({"show": text("lcpool.view", "show.html.j2")}).get_template("show")
    return template.generate(
        **inline(style, script),
        about=about,
        chunks=index.chunks(graphs, about),
        index=lambda: packed(index.columns(about)),
    )


@dataclass
class Index:
    """The columns of the list, filled while the chunks are made."""

    first: list[int] = field(default_factory=list)  # the first graph of each chunk
    rows: list[dict[str, Any]] = field(default_factory=list)

    def chunks(self, graphs: Iterable[PooledGraph], about: About) -> Iterator[str]:
        """The graphs, some at a time."""
        waiting: list[str] = []
        for graph in graphs:
            if not waiting:
                self.first.append(len(self.rows))
            found = record(graph)
            self.rows.append({"edges": len(found["e"]) // 2, **row(graph, about)})
            waiting.append(json.dumps(found, separators=(",", ":")))
            if sum(map(len, waiting)) >= CHUNK:
                yield packed(f"[{','.join(waiting)}]")
                waiting = []
        if waiting:
            yield packed(f"[{','.join(waiting)}]")

    def columns(self, about: About) -> str:
        """The list as JSON."""
        names = self.rows[0] if self.rows else {}
        return json.dumps(
            {
                **about._asdict(),
                "names": list(about.names),
                "parts": list(about.parts),
                "first": self.first,
                "rows": {name: [one[name] for one in self.rows] for name in names},
            }
        )


def packed(content: str) -> str:
    """Text that is compressed, in characters that mean nothing in HTML."""
    return base64.b64encode(zlib.compress(content.encode())).decode()


def row(graph: PooledGraph, about: About) -> dict[str, Any]:
    """What the list shows of a graph, and sorts by."""
    confidence, error, wrong = judged(graph, about)
    return {
        "nodes": graph.graph.num_nodes,
        "predicted": written(graph.prediction),
        "truth": None if graph.truth is None else written(graph.truth),
        "confidence": rounded(confidence),
        "error": rounded(error),
        "wrong": wrong,
    }


def judged(graph: PooledGraph, about: About) -> tuple[float, float, bool | None]:
    """How sure the model is, how far from the truth, and whether it is wrong; NaN if not known.

    - classes: the largest probability; 1 − the probability of the true class;
    - labels: the mean of max(p, 1 − p); the mean of |p − y| over the labels that are known;
    - values: nothing; the mean of |ŷ − y| over those that are known.
    """
    p, truth = graph.probabilities, graph.truth
    if about.kind == "classes":
        assert p is not None
        if truth is None:
            return float(p.max()), math.nan, None
        known = str(truth) in about.names
        right = float(p[about.names.index(str(truth))]) if known else 0.0
        return float(p.max()), 1 - right, graph.prediction != truth
    given = graph.prediction if p is None else p
    sure = math.nan if p is None else float(torch.maximum(p, 1 - p).mean())
    if truth is None or bool(truth.isnan().all()):
        return sure, math.nan, None
    known = ~truth.isnan()
    error = float((given - truth)[known].abs().mean())
    wrong = None if p is None else bool((graph.prediction != truth)[known].any())
    return sure, error, wrong


def record(graph: PooledGraph) -> dict[str, Any]:
    """One graph as JSON; keys are short, as there are many."""
    p = graph.probabilities
    return {
        "n": graph.graph.num_nodes,
        "e": pairs(graph.graph.edge_index)[0].reshape(-1).tolist(),
        "p": None if p is None else numbers(p),
        "l": [level_record(level) for level in graph.levels],
    }


def level_record(level: Level) -> dict[str, Any]:
    """One level as JSON; of weighted edges the heaviest :data:`MOST_WEIGHTED`."""
    ends, keep = pairs(level.edge_index)
    weight, total = level.weight, len(ends)
    if weight is not None:
        weight = weight.abs()[keep]
        if total > MOST_WEIGHTED:
            heaviest = weight.topk(MOST_WEIGHTED)[1].sort()[0]
            ends, keep, weight = ends[heaviest], keep[heaviest], weight[heaviest]
    new = None if level.new is None else level.new[keep].nonzero().view(-1).tolist()
    return {
        "n": level.num_nodes,
        "e": ends.reshape(-1).tolist(),
        "of": total,
        "x": new,
        "w": None if weight is None else numbers(weight),
        "i": None if level.perm is None else level.perm.tolist(),
        "h": None if level.score is None else numbers(level.score),
        "c": None if level.labels is None else level.labels.tolist(),
        "soft": level.is_soft,
    }


def numbers(values: Tensor) -> list[float | None]:
    """Numbers with few digits; None for those that JSON does not have."""
    return [rounded(value) for value in values.tolist()]


def rounded(value: float) -> float | None:
    """A number with few digits; None if it is not finite."""
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
