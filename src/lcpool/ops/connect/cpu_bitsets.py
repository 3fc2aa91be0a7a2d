"""Connect for batches of small graphs on a CPU: sets of kept nodes as bits, a hop as an OR.

Each node holds a row of bits, one for every kept node of its graph. One walk over the edges gives
the rows of S', a second those of AS', a third those of S'ᵀAS', and the bits that are set are
written down in order. Edges are walked as they come; nothing is sorted and nothing searched.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros

from lcpool.graph.checks import check_max_edges
from lcpool.ops.compiled import compiled
from lcpool.ops.threads import in_parts

# Words of 64 bits that a row may have, on average over the nodes: beyond, a search takes less.
MAX_WORDS = 16
# Words that must be joined, or written, before a second thread pays.
LEAST = 2**18


def connect_small(
    source: Any, target: Any, kept: Any, num_nodes: int, self_loops: bool, max_edges: int, hops: int
) -> Any:
    """The pattern of S'ᵀAS' for S = I + A, or None where graphs are large.

    With two ``hops`` the first S is I, with one both are.
    """
    block, nodes, edges = find_blocks(source, target, num_nodes)
    place, name, bits, words = lay_out(kept, block, nodes)
    if words[-1] > MAX_WORDS * num_nodes:
        return None
    onto, reach = np.zeros((2, words[-1]), np.int64)
    blocks = (nodes, edges, bits, words)
    spread = partial(
        spread_blocks, source=source, target=target, place=place, blocks=blocks,
        self_loops=self_loops, hops=hops, onto=onto, reach=reach,
    )  # fmt: skip
    in_parts(spread, nodes.size - 1, source.size * words[-1] // max(num_nodes, 1), LEAST)
    rows = (kept, block, blocks, onto)
    ptr = count_bits(*rows)
    check_max_edges(max_edges, ptr[-1])
    found = np.empty((2, ptr[-1]), np.int64)
    write = partial(write_bits, rows=rows, name=name, ptr=ptr, found=found)
    in_parts(write, kept.size, ptr[-1], LEAST)
    return found


@compiled
def find_blocks(source, target, num_nodes):
    """The nodes cut where no edge leads across, as between the graphs of a batch.

    The edges of a block stand together: where they do not, blocks are joined until they do.

    Returns:
        The block of each node, where the blocks begin, and where their edges do.
    """
    farthest = np.arange(num_nodes)
    latest = 0
    for e in range(source.size):
        low = min(source[e], target[e])
        latest = max(latest, source[e])
        farthest[low] = max(farthest[low], latest, target[e])
    block = np.empty(num_nodes, np.int32)
    count, end = 0, -1
    for n in range(num_nodes):
        count += n > end
        end = max(end, farthest[n])
        block[n] = count - 1
    nodes, edges = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
    for n in range(num_nodes):
        nodes[block[n] + 1] = n + 1
    for e in range(source.size):
        edges[block[source[e]] + 1] = e + 1
    for b in range(count):
        edges[b + 1] = max(edges[b + 1], edges[b])
    return block, nodes, edges


@compiled
def lay_out(kept, block, nodes):
    """Which bit is whose.

    Returns:
        The bit of each node in its block, -1 where it is not kept; the kept nodes by block and bit;
        where each block begins among them; and where its rows begin among all words.
    """
    bits = np.zeros(nodes.size, np.int64)
    place = np.full(block.size, -1, np.int32)
    for p in range(kept.size):
        b = block[kept[p]]
        place[kept[p]] = bits[b + 1]
        bits[b + 1] += 1
    words = np.zeros(nodes.size, np.int64)
    for b in range(nodes.size - 1):
        words[b + 1] = words[b] + (nodes[b + 1] - nodes[b]) * ((bits[b + 1] + 63) // 64)
        bits[b + 1] += bits[b]
    name = np.empty(kept.size, np.int32)
    for p in range(kept.size):
        name[bits[block[kept[p]]] + place[kept[p]]] = p
    return place, name, bits, words


@compiled
def spread_blocks(start, stop, source, target, place, blocks, self_loops, hops, onto, reach):
    """S'ᵀAS' of each block, in place of ``onto``; rows of nodes that are not kept mean nothing."""
    nodes, edges, _, words = blocks
    for b in range(start, stop):
        first, size = nodes[b], nodes[b + 1] - nodes[b]
        # Unsigned: numba need not ask of an index whether it counts from the end.
        length = np.uint64((words[b + 1] - words[b]) // size)
        S, AS = onto[words[b] : words[b + 1]], reach[words[b] : words[b + 1]]
        for i in range(size):
            word, bit = bit_of(place[first + i])
            S[np.uint64(i) * length + word] = bit
        for e in range(edges[b], edges[b + 1] if hops > 1 else edges[b]):
            word, bit = bit_of(place[target[e]])
            S[np.uint64(source[e] - first) * length + word] |= bit
        for e in range(edges[b], edges[b + 1]):
            s, t = np.uint64(source[e] - first) * length, np.uint64(target[e] - first) * length
            for w in range(length):
                AS[s + w] |= S[t + w]
        # The rows of S' have served: the ones of A' take their place.
        S[:] = AS
        for e in range(edges[b], edges[b + 1] if hops > 2 else edges[b]):
            s, t = np.uint64(source[e] - first) * length, np.uint64(target[e] - first) * length
            for w in range(length):
                S[t + w] |= AS[s + w]
        if not self_loops:
            for i in range(size):
                word, bit = bit_of(place[first + i])
                S[np.uint64(i) * length + word] &= ~bit


@compiled
def bit_of(place):
    """The word of a bit and the bit in it; none for a node that is not kept.

    Nodes are kept in no order that a processor could foresee: a branch here would cost the most.
    """
    return np.uint64(max(place, 0) >> 6), (place >= 0) << (place & 63)


@compiled
def row_of(n, block, blocks):
    """Where the row of a node begins and ends, and the first kept node of its block."""
    nodes, _, bits, words = blocks
    b = block[n]
    size = (bits[b + 1] - bits[b] + 63) // 64
    start = words[b] + (n - nodes[b]) * size
    return start, start + size, bits[b]


@compiled
def count_bits(kept, block, blocks, found):
    """Where each row of A' begins among the edges, and their number."""
    ptr = np.zeros(kept.size + 1, np.int64)
    for p in range(kept.size):
        start, stop, _ = row_of(kept[p], block, blocks)
        ptr[p + 1] = ptr[p]
        for w in range(start, stop):
            word = found[w]
            while word != 0:
                word &= word - 1
                ptr[p + 1] += 1
    return ptr


@compiled
def write_bits(start, stop, rows, name, ptr, found):
    """The bits that are set, as edges."""
    kept, block, blocks, bits = rows
    for p in range(start, stop):
        at = ptr[p]
        first, last, zero = row_of(kept[p], block, blocks)
        for w in range(first, last):
            word = bits[w]
            while word != 0:
                found[0, at] = p
                found[1, at] = name[zero + trailing_zeros(word)]
                word &= word - 1
                at += 1
            zero += 64
