"""Graphs of your own in columns: PyG's, networkx's, tables, SMILES. Errors name the converter.

What :func:`lcpool.data.load_dataset` takes beside names and paths of files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor
from torch_geometric.data import Batch, Data, Dataset

from lcpool.data import ogb
from lcpool.data.checks import DatasetError, warn_once
from lcpool.data.columns import integer_categories, with_categories
from lcpool.data.from_networkx import is_networkx, read_networkx
from lcpool.data.graphset import GraphSet
from lcpool.data.predefined import as_splits
from lcpool.data.smiles import read_smiles
from lcpool.data.splits import Split
from lcpool.data.tables import as_tables, from_frame, graphs_of, is_frame
from lcpool.data.targets import INTEGERS, targets
from lcpool.settings import TaskName

# What makes PyG graphs or networkx graphs of those of other packages.
CONVERTERS = {
    "dgl": "torch_geometric.utils.from_dgl",
    "rdkit": "torch_geometric.utils.from_rdmol",
    "igraph": "graph.to_networkx()",
    "scipy": "torch_geometric.utils.from_scipy_sparse_matrix",
    "cugraph": "torch_geometric.utils.from_cugraph",
    "trimesh": "torch_geometric.utils.from_trimesh",
    "numpy": "For adjacency matrices, networkx.from_numpy_array",
    "torch": "For adjacency matrices, torch_geometric.utils.dense_to_sparse",
    "HeteroData": "graph.to_homogeneous()",
    "dict": "torch_geometric.data.Data.from_dict",
    "tuple": "ogb.graphproppred.PygGraphPropPredDataset, if these are OGB's (graph, label)",
}


def convert(
    source: Any, items: list[Any], name: str | None, y: Any, task: TaskName | None
) -> GraphSet:
    """A graph set of graphs in memory.

    Args:
        source: PyG graphs in a list, a batch, a loader or a dataset; networkx graphs; a list of
            SMILES; a frame with a column ``smiles``; or tables, ``{"edges": …, "nodes": …,
            "graphs": …}`` (:mod:`lcpool.data.tables`).
        items: what :func:`single_graphs` gives for it.
        name: what to call the set; by default its own name, or "graphs".
        y: targets in place of those that the graphs have, one per graph.
        task: what the targets are, as for :meth:`~lcpool.data.GraphSet.from_graphs`.
    """
    own = getattr(source, "name", None) if name is None else name
    called = own if isinstance(own, str) and own else "graphs"
    if not items:
        raise DatasetError(f"{called}: there are no graphs.")
    if isinstance(source, Mapping):
        return graphs_of(as_tables(source), called, y, task)
    if is_frame(source):
        if "smiles" not in source.columns:
            raise DatasetError(
                f"{called}: a frame alone needs a column 'smiles'. Graphs in tables are passed as "
                f'{{"edges": frame, "nodes": frame, "graphs": frame}}.'
            )
        return graphs_of({"graphs": from_frame(called, source)}, called, y, task)
    kind = _one_kind(called, items)
    if kind == "SMILES":
        molecules = read_smiles(items, called, lambda number: f"{called}: molecule {number}")
        return replace(molecules, **targets(called, y, len(items), task))
    if kind == "networkx":
        return read_networkx(items, called, y, task)
    return _from_pyg(source, items, called, y, task)


def single_graphs(graphs: Any) -> list[Any]:
    """Graphs one by one; batches of PyG are taken apart. Tables stay as they are."""
    if isinstance(graphs, set | frozenset):
        raise DatasetError("a set of graphs has no order, so that targets do not fit: pass a list.")
    single = isinstance(graphs, Data | Mapping) or is_frame(graphs) or is_networkx(graphs)
    if single or not isinstance(graphs, Iterable):
        graphs = [graphs]
    found: list[Any] = []
    for item in graphs:
        found += item.to_data_list() if isinstance(item, Batch) else [item]
    return found


def _one_kind(name: str, items: list[Any]) -> str:
    """What all items are: "PyG", "networkx" or "SMILES"; an error that names what converts others.

    The error is about the first item that is of no such kind, or of another than those before it.
    """
    kinds = [_kind(item) for item in items]
    odd = next((n for n, kind in enumerate(kinds) if not kind or kind != kinds[0]), None)
    if odd is None:
        return kinds[0]
    found = type(items[odd])
    package = found.__module__.partition(".")[0]
    known = CONVERTERS.get(found.__name__, CONVERTERS.get(package))
    hint = ""
    if known:
        hint = f" To convert: {known}."
    elif odd:
        hint = f" Those before it are {kinds[0]}."
    elif isinstance(items[odd], Iterable):
        hint = ' Pass several datasets by name: {"a": graphs, "b": others}.'
    raise DatasetError(
        f"{name}: expected graphs of PyG (torch_geometric.data.Data) or networkx, SMILES or "
        f"tables, all of one kind; number {odd} is {found.__module__}.{found.__name__}.{hint}"
    )


def _kind(item: Any) -> str:
    """What an item is taken for; "" for what is not taken."""
    if isinstance(item, Data):
        return "PyG"
    if isinstance(item, str):
        return "SMILES"
    return "networkx" if is_networkx(item) else ""


def _from_pyg(
    source: Any, graphs: list[Data], name: str, y: Any, task: TaskName | None
) -> GraphSet:
    """PyG graphs, or a dataset of PyG's or OGB's."""
    if y is not None:
        found = GraphSet.from_graphs([_without_targets(graph) for graph in graphs], name)
        found = replace(found, **targets(name, y, len(graphs), task))
    else:
        # OGB's datasets say what they are for.
        regression = getattr(source, "task_type", None) == "regression"
        found = GraphSet.from_graphs(graphs, name, task or ("values" if regression else None))
    molecules = name.replace("-", "_").startswith(ogb.MOLECULES)
    nodes = _categories(graphs, "x", ogb.ATOMS if molecules else ())
    edges: tuple[int, ...] = ()
    if found.edge_attr is not None:
        edges = _categories(graphs, "edge_attr", ogb.BONDS if molecules else ())
    for key, sizes in (("x", nodes), ("edge_attr", edges)):
        if sizes and not molecules:
            warn_once(
                f"{name}: '{key}' has integers, which are taken for categories, from 0, and become "
                f"{sum(sizes)} one-hot columns. If they are numbers: graph.{key} = "
                f"graph.{key}.float()."
            )
    found = with_categories(found, nodes, edges)
    return replace(found, splits=_ogb_split(source, len(graphs), name))


def _without_targets(graph: Data) -> Data:
    graph = graph.__copy__()
    graph.y = None
    return graph


def _categories(graphs: list[Data], key: str, usual: tuple[int, ...]) -> tuple[int, ...]:
    """How many categories each column of integers has; empty for numbers, and for 0 and 1 alone."""
    parts = [getattr(graph, key, None) for graph in graphs]
    if not all(map(_is_integers, parts)):
        return ()
    tensors = [part.cpu() for part in parts if isinstance(part, Tensor)]
    columns = [part.reshape(len(part), -1).numpy() for part in tensors if part.numel()]
    if len({column.shape[1] for column in columns}) != 1:
        return ()
    sizes = integer_categories(np.concatenate(columns), usual)
    return sizes if any(size > 2 for size in sizes) else ()  # One-hot columns are integers, too.


def are_integers(graphs: list[Data], key: str, width: int) -> bool:
    """Whether ``x`` or ``edge_attr`` of all graphs has integers, ``width`` per row."""
    parts: list[Any] = [getattr(graph, key, None) for graph in graphs]
    return all(_is_integers(part) and part.numel() == width * len(part) for part in parts)


def lacks_features(graph: Any) -> bool:
    """Whether the nodes of a graph of PyG or networkx have no features; degrees replace them."""
    if isinstance(graph, Data):
        return graph.x is None
    if not is_networkx(graph):
        return False
    attributes = [found for _, found in graph.nodes(data=True)]
    return bool(attributes) and not any(attributes)


def _is_integers(values: Any) -> bool:
    return isinstance(values, Tensor) and values.dtype in INTEGERS


def _ogb_split(source: Any, count: int, name: str) -> tuple[Split, ...]:
    """The split of an OGB dataset, unless some of its graphs were picked, or put in another order.

    The numbers in the split are those of the whole dataset.
    """
    if not hasattr(source, "get_idx_split"):
        return ()
    if isinstance(source, Dataset) and [*source.indices()] != [*range(source.len())]:
        return ()
    return as_splits(source.get_idx_split(), count, name)
