r"""Finds isomorphic graphs in a set: the same graph twice, its nodes numbered differently.

Two graphs are duplicates if a bijection of their nodes keeps features, edges and how often an edge
is repeated. Edge attributes are not compared. In two steps:

1. Graphs are gathered by a hash of their colours after Weisfeiler and Leman's refinement, which is
   the same for isomorphic graphs,

   .. math::
        c_0(v) = x_v, \qquad
        c_{t+1}(v) = \operatorname{hash}\bigl(c_t(v), \{\!\!\{c_t(u) : u \to v\}\!\!\},
        \{\!\!\{c_t(w) : v \to w\}\!\!\}\bigr)

2. Among graphs of one hash, a bijection is searched for node by node, among nodes of one colour.
   That can take exponentially long, so a search ends, undecided, after :data:`MAX_TRIALS`, and
   all searches after :data:`MAX_WORK`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from lcpool.data.files import Array
from lcpool.data.graphset import GraphSet

# How long a bijection is searched for in vain for one pair of graphs, and for all: some seconds.
# One is the time to see that a node is taken; to compare the edges of two nodes takes so many:
COMPARISON = 50
MAX_TRIALS = 1_000_000
MAX_WORK = 100_000_000
# More rounds of refinement than graphs need to be told apart, but for long paths.
MAX_ROUNDS = 32

Neighbours = dict[int, Counter[int]]
NONE: Counter[int] = Counter()


@dataclass(frozen=True)
class Duplicates:
    """Which graphs of a set are isomorphic.

    Attributes:
        first: per graph the number of the first graph that it is isomorphic to, itself if that is
            the first one, ``[graphs]``.
        undecided: how many pairs of graphs were too hard to compare; they count as different.

    Example:
        >>> from lcpool.data import builtin
        >>> graphs = builtin(num_graphs=20)
        >>> find_duplicates(graphs).sentences(graphs)
        []
    """

    first: Array
    undecided: int

    @cached_property
    def duplicated(self) -> Array:
        """Whether each graph has a duplicate."""
        return np.bincount(self.first, minlength=len(self.first))[self.first] > 1

    def differing(self, graphs: GraphSet) -> int:
        """How many graphs have a duplicate with another target."""
        y = graphs.y.cpu().numpy().reshape(len(graphs), -1)
        # Of graphs with the same first one, some differ if any differs from that.
        same = ((y == y[self.first]) | (np.isnan(y) & np.isnan(y[self.first]))).all(axis=1)
        mixed = np.zeros(len(y), bool)
        mixed[self.first[~same]] = True
        return int(mixed[self.first].sum())

    def leaked(self, graphs: GraphSet) -> int:
        """How many validation and test graphs have a duplicate among the training graphs.

        With several splits, in the one that has most.
        """
        splits = ([part.numpy() for part in split] for split in graphs.splits)
        return max((self._among(t, np.concatenate([v, e])) for t, v, e in splits), default=0)

    def chosen_on(self, graphs: GraphSet) -> int:
        """How many test graphs have a duplicate among the validation graphs, which chose the epoch.

        With several splits, in the one that has most.
        """
        splits = ((split.val.numpy(), split.test.numpy()) for split in graphs.splits)
        return max((self._among(val, test) for val, test in splits), default=0)

    def _among(self, some: Array, others: Array) -> int:
        """How many of the others have a duplicate among some graphs."""
        return int(np.isin(self.first[others], self.first[some]).sum())

    def sentences(self, graphs: GraphSet) -> list[str]:
        """What was found, in words."""
        found = []
        if self.duplicated.any():
            found.append(
                f"{int(self.duplicated.sum())} of {len(graphs)} graphs have an isomorphic "
                f"duplicate, {self.differing(graphs)} of them one with another target"
            )
        if graphs.splits:
            most = " (most of all splits)" if len(graphs.splits) > 1 else ""
            found.append(
                f"{self.leaked(graphs)} validation and test graphs of the predefined split{most} "
                f"have a duplicate among the training graphs, {self.chosen_on(graphs)} test graphs "
                f"one among the validation graphs"
            )
        if self.undecided:
            found.append(
                f"{self.undecided} pairs of graphs look alike and are too hard to compare; they "
                f"are not counted as duplicates"
            )
        return found


def find_duplicates(graphs: GraphSet) -> Duplicates:
    """Find the isomorphic graphs of a set."""
    features = _feature_colours(graphs)
    colours = _refined(graphs, features)
    first, undecided, work = np.arange(len(graphs)), 0, MAX_WORK
    for bucket in _buckets(graphs, colours):
        kinds: list[_Graph] = []  # one of each isomorphism class
        for g in bucket:
            graph = _Graph.of(graphs, g, features, colours)
            for kind in kinds:
                found, vain = _isomorphic(kind, graph, min(MAX_TRIALS, work))
                undecided += found is None
                work -= vain
                if found:
                    first[g] = kind.number
                    break
            else:
                kinds.append(graph)
    return Duplicates(first, undecided)


def _feature_colours(graphs: GraphSet) -> Array:
    """A number per node, equal for nodes with equal features and for no others."""
    x = graphs.x.cpu().numpy() + np.float32(0)  # -0 becomes 0, which has other bits.
    keys = np.zeros(len(x), np.uint64)
    for column in x.T:
        keys = _mixed(keys + np.ascontiguousarray(column, np.float32).view(np.uint32))
    _, first, colours = np.unique(keys, return_index=True, return_inverse=True)
    if not all((column == column[first][colours]).all() for column in x.T):  # Two keys collided.
        _, colours = np.unique(x, axis=0, return_inverse=True)
    return np.asarray(colours).reshape(-1)


def _refined(graphs: GraphSet, features: Array) -> Array:
    """The colour of each node after refinement, a hash."""
    edges, size = graphs.edge_index.cpu().numpy(), graphs.x.size(0)
    into, out_of = _Sums(edges[0], edges[1], size), _Sums(edges[1], edges[0], size)
    colours, known = _mixed(features.astype(np.uint64)), 0
    for _ in range(MAX_ROUNDS):
        count = len(np.unique(colours))
        if count == known:  # No colour was divided: none will be.
            break
        known = count
        colours = _mixed(colours + _mixed(into(colours)) + _mixed(_mixed(out_of(colours))))
    return colours


class _Sums:
    """Sums over the neighbours of each node, modulo 2⁶⁴."""

    def __init__(self, of: Array, at: Array, size: int) -> None:
        self.order = of[np.argsort(at, kind="stable")]
        self.ptr = np.concatenate([[0], np.bincount(at, minlength=size).cumsum()]).astype(np.int64)

    def __call__(self, colours: Array) -> Array:
        total = np.concatenate([np.zeros(1, np.uint64), colours[self.order].cumsum()])
        return np.asarray(total[self.ptr[1:]] - total[self.ptr[:-1]])


def _mixed(keys: Array) -> Array:
    """The finalizer of splitmix64: a bijection of 64-bit numbers that looks random."""
    keys = keys + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        keys = (keys ^ (keys >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray(keys ^ (keys >> np.uint64(31)))


def _buckets(graphs: GraphSet, colours: Array) -> Iterator[list[int]]:
    """Numbers of graphs with as many nodes and edges and the same colours, two or more."""
    nodes, edges = graphs.node_counts.numpy(), graphs.edge_counts.numpy()
    start = graphs.node_ptr.cpu().numpy()
    total = np.concatenate([np.zeros(1, np.uint64), _mixed(colours).cumsum()])
    keys = np.stack([nodes, edges, (total[start[1:]] - total[start[:-1]]).view(np.int64)], axis=1)
    found: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for g, key in enumerate(map(tuple, keys.tolist())):
        found[key].append(g)
    return (bucket for bucket in found.values() if len(bucket) > 1)


class _Graph(NamedTuple):
    """One graph, its nodes numbered from 0."""

    number: int  # in the set
    kinds: list[tuple[int, int]]  # of each node: its features and its colour
    out: Neighbours  # targets of the edges from each node, and how often
    into: Neighbours  # sources of the edges to each node

    @classmethod
    def of(cls, graphs: GraphSet, g: int, features: Array, colours: Array) -> _Graph:
        first, end = graphs.node_ptr[g : g + 2].tolist()
        rows = slice(*graphs.edge_ptr[g : g + 2].tolist())
        kinds = list(zip(features[first:end].tolist(), colours[first:end].tolist(), strict=True))
        out, into = defaultdict[int, Counter[int]](Counter), defaultdict[int, Counter[int]](Counter)
        for u, v in (graphs.edge_index[:, rows] - first).t().tolist():
            out[u][v] += 1
            into[v][u] += 1
        return cls(g, kinds, out, into)

    def walk(self) -> list[tuple[int, int | None]]:
        """Nodes with edges, rare ones first, and per node a neighbour before it, or None."""
        share = Counter(self.kinds)
        connected = sorted(self.out.keys() | self.into.keys(), key=lambda v: share[self.kinds[v]])
        order: dict[int, int | None] = {}
        for start in connected:
            queue = [] if start in order else [start]
            order.setdefault(start, None)
            for v in queue:
                for w in (*self.out.get(v, ()), *self.into.get(v, ())):
                    if w not in order:
                        order[w] = v
                        queue.append(w)
        return list(order.items())


def _isomorphic(one: _Graph, other: _Graph, most: int) -> tuple[bool | None, int]:
    """Whether two graphs with as many nodes and edges are isomorphic, and the trials in vain.

    None if that is undecided after ``most`` trials in vain.
    """
    # Nodes without edges fit if there are as many of each kind.
    if Counter(one.kinds) != Counter(other.kinds):
        return False, 0
    walk, vain = one.walk(), 0
    of_kind = defaultdict(list)
    for v, kind in enumerate(other.kinds):
        of_kind[kind].append(v)
    image: dict[int, int] = {}  # nodes of ``one`` so far, and those of ``other`` they are mapped to
    taken: set[int] = set()

    def candidates(step: int) -> Iterator[int]:
        u, before = walk[step]
        if before is None:
            yield from of_kind[one.kinds[u]]
        else:
            side = other.out if u in one.out.get(before, NONE) else other.into
            around = side.get(image[before], NONE)
            yield from (v for v in around if other.kinds[v] == one.kinds[u])

    def fits(u: int, v: int) -> bool:
        """Whether the edges between ``u`` and earlier nodes are those between ``v`` and theirs."""
        for here, there in ((one.out, other.out), (one.into, other.into)):
            mine, theirs = here.get(u, NONE), there.get(v, NONE)
            known = {w: count for w, count in mine.items() if w in image}
            if len(known) != sum(w in taken for w in theirs):
                return False
            if any(theirs.get(image[w]) != count for w, count in known.items()):
                return False
        return one.out.get(u, NONE)[u] == other.out.get(v, NONE)[v]  # self-loops

    tries = [candidates(0)] if walk else []
    while tries:
        u = walk[len(tries) - 1][0]
        if u in image:  # It was mapped to something that led nowhere.
            taken.discard(image.pop(u))
            vain += COMPARISON
        for v in tries[-1]:
            if v not in taken and fits(u, v):
                image[u] = v
                taken.add(v)
                break
            vain += 1 if v in taken else COMPARISON
            if vain > most:
                return None, vain
        if u not in image:
            tries.pop()
        elif len(tries) == len(walk):
            return True, vain
        else:
            tries.append(candidates(len(tries)))
    return not walk, vain  # Without edges there is nothing to search for.
