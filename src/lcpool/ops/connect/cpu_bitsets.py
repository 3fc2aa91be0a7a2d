"""Connect for batches of small graphs on a CPU: sets of kept nodes as bits, a hop as an OR.

Each node has a row of bits, one per kept node of its graph. One pass over the edges gives the rows
of S', a second those of AS', a third those of S'ᵀAS'; then the bits that are set are written as
edges, in order. Nothing is sorted or searched.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros

from lcpool.graph.checks import check_max_edges
from lcpool.ops.threads import compiled, in_parts

# The most words of 64 bits per row, on average over the nodes; with more, a search is faster.
MAX_WORDS = 16
# A second thread pays from this many words on.
WORDS_PER_THREAD = 2**18


def connect_small(
    source: Any, target: Any, kept: Any, num_nodes: int, self_loops: bool, max_edges: int, hops: int
) -> Any:
    """The pattern of S'ᵀAS' for S = I + A, or None where graphs are large.

    With two ``hops`` the first S is I, with one both are I.
    """
    block, nodes, edges = find_blocks(source, target, num_nodes)
    place, name, bits, words = lay_out(kept, block, nodes)
    if words[-1] > MAX_WORDS * num_nodes:
        return None
    onto, reach = np.zeros((2, words[-1]), np.int64)
    blocks = (nodes, edges, bits, words)
    work = source.size * words[-1] // max(num_nodes, 1)
    given = (source, target, place, blocks, self_loops, hops, onto, reach)
    in_parts(connect_blocks, nodes.size - 1, work, WORDS_PER_THREAD, *given)
    rows = (kept, block, blocks, onto)
    ptr = count_bits(*rows)
    check_max_edges(max_edges, ptr[-1])
    found = np.empty((2, ptr[-1]), np.int64)
    in_parts(write_bits, kept.size, ptr[-1], WORDS_PER_THREAD, rows, name, ptr, found)
    return found


@compiled
def find_blocks(source, target, num_nodes):
    """Cut the nodes where no edge crosses, as between the graphs of a batch.

    The edges of a block must be next to each other: blocks where they are not are joined. Returns
    the block of each node, where the blocks begin, and where their edges do.
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
    """Give each kept node a bit.

    Returns:
        The bit of each node in its block, −1 if it is not kept; the kept nodes by block and bit;
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
def connect_blocks(start, stop, source, target, place, blocks, self_loops, hops, onto, reach):
    """Write S'ᵀAS' of each block into ``onto``; rows of nodes that are not kept are meaningless."""
    nodes, edges, _, words = blocks
    for b in range(start, stop):
        first, size = nodes[b], nodes[b + 1] - nodes[b]
        # Unsigned: numba omits the check for negative indices.
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
        # S' is no longer needed: its memory is used for A'.
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
    """The word of a bit and the bit in it; 0 for a node that is not kept.

    Without a branch, which the processor could not predict.
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
