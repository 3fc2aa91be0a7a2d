"""What may not be as it was meant in a dataset, said once when it is loaded."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator

import numpy as np
from torch import Tensor
from torch_geometric.data import Data

from lcpool.data.graphset import GraphSet
from lcpool.warn import warn_caller

EDGE_KEYS = ("edge_attr", "edge_weight")


class DataWarning(UserWarning):
    """A dataset can be trained on, but something in it may not be as it was meant.

    Each message is given once per process. To silence all of them::

        warnings.filterwarnings("ignore", category=lcpool.data.DataWarning)
    """


@functools.cache
def say_once(message: str) -> None:
    """Warn the user, unless the same was said before in this process."""
    warn_caller(message, DataWarning)


def on_files(graphs: GraphSet) -> Iterator[str]:
    """What there is to say of graphs that were read from files."""
    yield from on_direction(graphs)
    if graphs.edge_attr is not None:
        yield f"{graphs.name}: edge labels and attributes are not read by the networks here."


def on_graphs(graphs: GraphSet, source: Iterable[Data]) -> Iterator[str]:
    """What there is to say of graphs that were gathered from PyG graphs, their ``source``."""
    yield from on_direction(graphs)
    if keys := unread_keys(source):
        named, none = " and ".join(keys), " and ".join(f"{key}=None" for key in keys)
        yield (
            f"{graphs.name}: {named} of the graphs will not be read: the networks here see only "
            f"which nodes are connected. To use attributes of edges, put lcpool's layers into a "
            f"network of your own whose convolutions read them; to silence this, set {none}."
        )


def on_direction(graphs: GraphSet) -> Iterator[str]:
    """That graphs have edges in one direction only, if some do."""
    if count := count_one_way(graphs):
        yield (
            f"{graphs.name}: the edges of {count} of {len(graphs)} graphs stand in one direction "
            f"only, so messages flow from source to target alone. If the graphs are meant to be "
            f"undirected, add the reverse edges: torch_geometric.transforms.ToUndirected() does so "
            f"with PyG graphs. If they are meant to be directed, ignore this, or silence it: "
            f"warnings.filterwarnings('ignore', category=lcpool.data.DataWarning)."
        )


def unread_keys(graphs: Iterable[Data]) -> list[str]:
    """The attributes of edges that some of the graphs have; no network here reads any."""
    found = {
        key
        for graph in graphs
        for key in EDGE_KEYS
        if isinstance(value := getattr(graph, key, None), Tensor) and value.numel()
    }
    return sorted(found)


def count_one_way(graphs: GraphSet) -> int:
    """How many graphs have edges between different nodes, none of them with its reverse."""
    # In numpy, whose sort and search are faster here than torch's and start no threads.
    source, target = graphs.edge_index.cpu().numpy()
    if not len(source):
        return 0
    num_nodes = graphs.x.size(0)
    there, back = source * num_nodes + target, target * num_nodes + source
    known = np.sort(there) if (there[1:] < there[:-1]).any() else there  # Sorted, from a file.
    place = np.searchsorted(known, back).clip(max=len(known) - 1)
    returns = known[place] == back
    if returns.all():
        return 0
    between = source != target
    owner = np.repeat(np.arange(len(graphs)), graphs.edge_counts.numpy())
    edges, returning = (
        np.bincount(owner[mask], minlength=len(graphs)) for mask in (between, between & returns)
    )
    return int(((edges > 0) & (returning == 0)).sum())
