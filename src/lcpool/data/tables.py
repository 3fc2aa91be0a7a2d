"""Graphs from tables: of edges, of nodes and of graphs, as CSV files or pandas frames.

=========  ======================================================================================
``edges``  ``graph``, and ``source`` and ``target`` for edges in one direction, or ``u`` and ``v``
           for edges that go both ways
``nodes``  ``graph`` and ``node`` (optional: else the nodes are those that have edges)
``graphs`` ``graph`` (optional: else the graphs are those that occur, without targets)
=========  ======================================================================================

Graphs and nodes are called by any numbers or words; a node's is unique in its graph. If nodes have
names that are unique in all graphs, ``edges`` needs no column ``graph``. All other columns of
``edges`` and ``nodes`` are features: numbers as they are, words as categories.

Of ``graphs``, ``label`` is the class, a whole number or a word; columns ``label_…`` are several
labels of 0, 1 or nothing; ``value``, or columns ``value_…``, are numbers to predict, of which some
may be missing. ``split`` is ``train``, ``val`` or ``test``. With a column ``smiles`` there are no
other tables. A CSV file has commas between the cells and a line of names above.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from lcpool.data.checks import DatasetError, warn_once
from lcpool.data.columns import (
    Column,
    Words,
    as_split,
    both_ways,
    features,
    in_columns,
    some,
)
from lcpool.data.files import TOO_MUCH, Array, TextFiles, max_bytes, number
from lcpool.data.graphset import GraphSet
from lcpool.data.smiles import read_smiles
from lcpool.data.splits import NAMES, Split
from lcpool.data.targets import targets
from lcpool.settings import TaskName

KINDS = ("edges", "nodes", "graphs")
# How many bytes a cell counts as: in memory it takes more than in the text.
CELL = 64

# One of these is in every table.
HEADER = ("graph", "u", "v", "source", "target", "smiles")
# How pandas writes a whole number in a column of floats.
WHOLE = re.compile(r"-?\d+\.0")

# The graph of a node whose name is unique in all graphs.
ANY = -1

_SUFFIXES = (".csv", ".csv.gz")


@dataclass(frozen=True)
class TableFiles(TextFiles):
    """The files ``edges.csv``, ``nodes.csv`` and ``graphs.csv`` of a folder, or some of them."""

    @classmethod
    def at(cls, path: Path) -> TableFiles:
        """Find the tables in a folder."""
        names = {kind: [f"{kind}{s}" for s in _SUFFIXES] for kind in KINDS}
        there = {
            k: [name for name in some if os.path.exists(path / name)] for k, some in names.items()
        }
        files = {kind: found[0] for kind, found in there.items() if found}
        size = sum(os.stat(path / file).st_size for file in files.values())
        return cls(path, path.resolve().name, files, size)

    @classmethod
    def of(cls, path: Path) -> TableFiles:
        """One file by its path."""
        if not path.is_file():
            raise DatasetError(f"{path}: {'not a regular' if path.exists() else 'no such'} file.")
        return cls(path.parent, path.name, {"table": path.name}, path.stat().st_size)


def is_tables(path: Path) -> bool:
    """Whether a folder has a table of edges or of graphs."""
    return bool({"edges", "graphs"} & TableFiles.at(path).files.keys())


@dataclass(frozen=True)
class Table:
    """The columns of a table, cell by cell: numbers, words, or None where a cell is empty."""

    where: str  # how errors call it
    columns: dict[str, list[Any]]
    lines: list[int] | None = None  # of each row in a file
    levels: dict[str, tuple[str, ...]] = field(default_factory=dict)  # of categorical columns

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), []))

    def place(self, row: int) -> str:
        """How errors call a row."""
        return f"{self.where}, {f'line {self.lines[row]}' if self.lines else f'row {row}'}"

    def column(self, name: str) -> list[Any]:
        if name not in self.columns:
            listed = ", ".join(map(repr, self.columns)) or "none"
            raise DatasetError(f"{self.where}: no column '{name}'; there are {listed}.")
        return self.columns[name]

    def names(self, column: str) -> list[str]:
        """What the graphs or nodes of a column are called; 1, 1.0, "1" and "1.0" are the same."""
        found = []
        for row, cell in enumerate(self.column(column)):
            if cell is None or (isinstance(cell, float) and not cell.is_integer()):
                problem = "is missing" if cell is None else f"is {cell}, not a name or whole number"
                raise DatasetError(f"{self.place(row)}: '{column}' {problem}.")
            name = str(int(cell)) if isinstance(cell, float) else str(cell).strip()
            found.append(name[:-2] if WHOLE.fullmatch(name) else name)
        return found

    def features(self, *others: str) -> tuple[Array | None, Words]:
        """All columns but ``others`` as features."""
        columns = (
            Column(name, values, self.levels.get(name, ()))
            for name, values in self.columns.items()
            if name not in others
        )
        return features(self.where, self.place, len(self), columns)


def read_csv(source: TextFiles, kind: str, names: tuple[str, ...] = HEADER) -> Table:
    """A table from a file, with a column of one of these names at least."""
    where, limit = source.where(kind), max_bytes()
    with source.open(kind, words=True) as file:
        reader = csv.reader(file, strict=True)
        try:
            header = [name.strip() for name in next(reader, [])]
            _check_header(where, header, names)
            cells: list[list[str]] = [[] for _ in header]
            lines: list[int] = []
            for row in reader:
                if not row or (len(row) == 1 and not row[0].strip()):
                    continue  # a blank line
                if len(row) != len(header):
                    problem = f"{len(row)} cell(s), but the first line has {len(header)}"
                    raise DatasetError(f"{where}, line {reader.line_num}: {problem}.")
                limit -= CELL * len(row)
                if limit < 0:
                    raise OSError(TOO_MUCH)
                lines.append(reader.line_num)
                for column, cell in zip(cells, row, strict=True):
                    column.append(cell.strip())
        except csv.Error as error:
            raise DatasetError(f"{where}, line {reader.line_num}: {error}.") from None
    raw = Table(where, dict(zip(header, cells, strict=True)), lines)
    return Table(where, {name: _typed(raw, name) for name in header}, lines)


def _check_header(where: str, header: list[str], names: tuple[str, ...]) -> None:
    """Raise unless the columns have names of their own, and one of them is among ``names``."""
    if not any(header):
        raise DatasetError(f"{where}, line 1: the file is empty; names of columns are expected.")
    if "" in header:
        at = header.index("") + 1
        raise DatasetError(
            f"{where}, line 1: column {at} has no name. pandas writes such a column for its index: "
            f"frame.to_csv(…, index=False)."
        )
    if twice := next((name for name in header if header.count(name) > 1), None):
        raise DatasetError(f"{where}, line 1: two columns are called '{twice[:40]}'.")
    if len(header) == 1 and (mark := next((m for m in ";\t|" if m in header[0]), None)):
        raise DatasetError(f"{where}, line 1: cells are separated by {mark!r}, not by commas.")
    if not set(names) & set(header):
        raise DatasetError(
            f"{where}, line 1: no column is called {' or '.join(names)}; there are {some(header)}. "
            f"The first line has the names of the columns."
        )


def _typed(table: Table, name: str) -> list[Any]:
    """The cells of a column as numbers, or as words if none is a number."""
    cells = table.columns[name]
    # What graphs and nodes are called, and which part they belong to, stays as it is written.
    if name in ("graph", "node", "source", "target", "u", "v", "split", "smiles"):
        return [cell or None for cell in cells]
    found = [_number(cell) if cell else None for cell in cells]
    words = [row for row, cell in enumerate(cells) if cell and found[row] is None]
    if words and len(words) < sum(map(bool, cells)):
        raise DatasetError(
            f"{table.place(words[0])}: '{cells[words[0]][:40]}' is no number, but other cells of "
            f"column '{name}' are. If it has words, write the numbers as words too (as n1)."
        )
    return [cell or None for cell in cells] if words else found


def _number(cell: str) -> float | None:
    try:
        return number(cell)
    except ValueError:
        return None


def from_frame(where: str, frame: Any) -> Table:
    """A table from a pandas frame."""
    header = [str(name) for name in frame.columns]
    if twice := next((name for name in header if header.count(name) > 1), None):
        raise DatasetError(f"{where}: two columns are called '{twice[:40]}'.")
    columns, levels = {}, {}
    for at, name in enumerate(header):
        series = frame.iloc[:, at]
        cells = list(zip(series.tolist(), series.isna().tolist(), strict=True))
        known = getattr(series.dtype, "categories", None)
        if known is not None:
            levels[name] = tuple(map(str, known))
            cells = [(str(cell), empty) for cell, empty in cells]
        columns[name] = [None if empty else cell for cell, empty in cells]
    return Table(where, columns, None, levels)


def as_tables(given: Mapping[str, Any]) -> dict[str, Table]:
    """The tables of a dictionary, of frames or of paths of CSV files."""
    if unknown := [str(key) for key in given if key not in KINDS]:
        raise DatasetError(
            f"tables are called 'edges', 'nodes' and 'graphs', not '{unknown[0][:40]}'. Several "
            f'datasets by name are for lcpool.compare: {{"a": graphs, "b": others}}.'
        )
    found: dict[str, Table] = {}
    for kind, table in given.items():
        if isinstance(table, str | os.PathLike):
            source = TableFiles.of(Path(os.path.expanduser(table)))
            source.check_size()
            found[kind] = read_csv(source, "table")
        elif is_frame(table):
            found[kind] = from_frame(kind, table)
        elif table is not None:
            problem = f"must be a pandas DataFrame or the path of a CSV file, not {type(table)}"
            raise DatasetError(f"'{kind}' {problem}.")
    return found


def is_frame(item: Any) -> bool:
    """Whether this is a pandas frame, told without importing pandas."""
    return type(item).__name__ == "DataFrame" and hasattr(item, "iloc")


def read_folder(path: Path) -> GraphSet:
    """Read the tables in a folder."""
    source = TableFiles.at(path)
    source.check_size()
    return graphs_of({kind: read_csv(source, kind) for kind in source.files}, source.name)


def graphs_of(
    tables: Mapping[str, Table], name: str, y: Any = None, task: TaskName | None = None
) -> GraphSet:
    """A graph set from tables.

    Args:
        tables: by their names, :data:`KINDS`.
        name: what to call the set.
        y: targets in place of those in the table of graphs, one per graph.
        task: what ``y`` is, as for :meth:`~lcpool.data.GraphSet.from_graphs`.
    """
    graphs, nodes, edges = (tables.get(kind) for kind in ("graphs", "nodes", "edges"))
    if graphs is not None and "smiles" in graphs.columns:
        if edges is not None or nodes is not None:
            raise DatasetError(f"{graphs.where}: has 'smiles', so there can be no other table.")
        molecules = read_smiles(graphs.names("smiles"), name, graphs.place)
        return replace(molecules, **_known(name, graphs, len(molecules), y, task))
    if edges is None:
        raise DatasetError(f"{name}: no table 'edges', and none of graphs with 'smiles'.")
    _end_columns(edges)  # What is no table of edges is noticed first.
    if other := next((c for c in edges.columns if c.lower() == "graph" != c), None):
        raise DatasetError(f"{edges.where}: the column '{other}' must be called 'graph'.")
    numbers = _graph_numbers(graphs, nodes, edges)
    node_of, graph = _nodes(numbers, graphs, nodes, edges)
    there = set(graph.tolist())
    if nodes is None and (empty := [name for name, n in numbers.items() if n not in there]):
        warn_once(
            f"{edges.where}: no edges, so no nodes, in {len(empty)} of {len(numbers)} graphs: "
            f"{some(empty)}. A table 'nodes' lists nodes without edges."
        )
    ends = _ends(numbers, graphs, node_of, graph, edges)
    x, words = (None, ()) if nodes is None else nodes.features("graph", "node")
    attr, edge_words = edges.features("graph", "source", "target", "u", "v")
    if "u" in edges.columns:
        ends, attr = both_ways(ends, attr)
    return in_columns(
        name,
        graph,
        len(numbers),
        ends,
        x,
        attr,
        (edges if nodes is None else nodes).where,
        categories=tuple(map(len, words)),
        words=words,
        edge_categories=tuple(map(len, edge_words)),
        edge_words=edge_words,
        **_known(name, graphs, len(numbers), y, task),
    )


def _graph_numbers(graphs: Table | None, nodes: Table | None, edges: Table) -> dict[str, int]:
    """The number of each graph, in the order of the first table that names it."""
    if graphs is not None:
        names = graphs.names("graph")
        numbers = {name: g for g, name in enumerate(dict.fromkeys(names))}
        if len(numbers) < len(names):
            row = next(r for r, name in enumerate(names) if names.index(name) < r)
            raise DatasetError(f"{graphs.place(row)}: graph {names[row][:40]} is there already.")
    else:
        tables = [t for t in (nodes, edges) if t is not None and "graph" in t.columns]
        found = dict.fromkeys(name for table in tables for name in table.names("graph"))
        numbers = {name: g for g, name in enumerate(found)}
    if not numbers:
        first = next(table for table in (graphs, nodes, edges) if table is not None)
        raise DatasetError(f"{first.where}: there are no graphs.")
    return numbers


def _owners(table: Table, numbers: dict[str, int], graphs: Table | None) -> list[int]:
    """The number of each row's graph."""
    names = table.names("graph")
    for row, name in enumerate(names):
        if name not in numbers:  # All are there unless there is a table of graphs.
            where = "the other tables" if graphs is None else graphs.where
            raise DatasetError(f"{table.place(row)}: graph {name[:40]} is not in {where}.")
    return [numbers[name] for name in names]


def _nodes(
    numbers: dict[str, int], graphs: Table | None, nodes: Table | None, edges: Table
) -> tuple[dict[tuple[int, str], int], Array]:
    """The row of each node by its graph and name, and the graph of each row.

    Where edges do not name their graph, it is :data:`ANY`.
    """
    tied = "graph" in edges.columns
    if nodes is None:
        if not tied:
            raise DatasetError(
                f"{edges.where}: without a table of nodes it needs a column 'graph'."
            )
        owners = _owners(edges, numbers, graphs)
        pairs = zip(*(edges.names(end) for end in _end_columns(edges)), strict=True)
        of = ((g, end) for g, both in zip(owners, pairs, strict=True) for end in both)
        found = {key: row for row, key in enumerate(dict.fromkeys(of))}
        return found, np.array([g for g, _ in found], np.int64)
    graph = _owners(nodes, numbers, graphs)
    found = {}
    for row, (g, name) in enumerate(zip(graph, nodes.names("node"), strict=True)):
        key = (g if tied else ANY, name)
        if key in found:
            hint = "" if tied else f" {edges.where} needs a column 'graph' to tell them apart."
            raise DatasetError(f"{nodes.place(row)}: node {name[:40]} is there already.{hint}")
        found[key] = row
    return found, np.array(graph, np.int64)


def _end_columns(edges: Table) -> tuple[str, str]:
    """The names of the columns with the two ends of each edge."""
    directed, undirected = ("source", "target"), ("u", "v")
    there = [pair for pair in (directed, undirected) if set(pair) & edges.columns.keys()]
    if len(there) != 1:
        problem = "both 'source' or 'target' and 'u' or 'v'" if there else "no ends of edges"
        raise DatasetError(
            f"{edges.where}: {problem}; columns 'source' and 'target' are edges in one direction, "
            f"'u' and 'v' edges that go both ways."
        )
    return there[0]


def _ends(
    numbers: dict[str, int],
    graphs: Table | None,
    node_of: dict[tuple[int, str], int],
    graph: Array,
    edges: Table,
) -> Array:
    """The two nodes of each edge, ``[2, edges]``."""
    owners = [ANY] * len(edges)
    if "graph" in edges.columns:
        owners = _owners(edges, numbers, graphs)
    ends = []
    for column in _end_columns(edges):
        names = edges.names(column)
        rows = [node_of.get(key) for key in zip(owners, names, strict=True)]
        if None in rows:
            at = rows.index(None)
            problem = f"node {names[at][:40]} is not among the nodes of its graph"
            raise DatasetError(f"{edges.place(at)}: {problem}.")
        ends.append(np.array(rows, np.int64))
    apart = np.flatnonzero(graph[ends[0]] != graph[ends[1]])
    if len(apart):
        raise DatasetError(f"{edges.place(int(apart[0]))}: the edge joins nodes of two graphs.")
    return np.stack(ends)


def _known(
    name: str, graphs: Table | None, count: int, y: Any, task: TaskName | None
) -> dict[str, Any]:
    """What is known of the graphs: targets and splits, as fields of a graph set."""
    if graphs is None:
        return targets(name, y, count, task)
    used = {"graph", "smiles", "split"}
    labels, values = (
        [c for c in graphs.columns if c == kind or c.startswith(f"{kind}_")]
        for kind in ("label", "value")
    )
    if unknown := [c for c in graphs.columns if c not in {*used, *labels, *values}]:
        warn_once(
            f"{graphs.where}: columns that are not used: {some(unknown)}. Targets are called "
            f"'label', 'label_…', 'value' or 'value_…'."
        )
    known = {"splits": _splits(graphs)}
    if y is not None:
        return targets(name, y, count, task) | known
    if labels and values:
        raise DatasetError(f"{graphs.where}: has '{labels[0]}' and '{values[0]}'; leave one kind.")
    columns = labels or values
    if not columns:
        return targets(name, None, count, None) | known
    kind: TaskName = "values" if values else "classes" if labels == ["label"] else "labels"
    rows = list(zip(*(graphs.columns[column] for column in columns), strict=True))
    found = targets(
        graphs.where,
        graphs.columns["label"] if kind == "classes" else rows,
        count,
        task or kind,
        lambda row: f"{graphs.place(row)}: {some(columns, 2)}",
        "a column 'value', several labels with columns 'label_…'",
    )
    names = tuple(column.partition("_")[2] or column for column in columns)
    return found | known | ({} if found["task"] == "classes" else {"target_names": names})


def _splits(graphs: Table) -> tuple[Split, ...]:
    """The split in the column ``split``, if there is one."""
    if "split" not in graphs.columns:
        return ()
    parts: dict[str, list[int]] = {name: [] for name in Split._fields}
    for row, cell in enumerate(graphs.columns["split"]):
        part = NAMES.get(str(cell).strip().lower())
        if part is None and cell is not None:
            problem = f"'split' is '{str(cell)[:40]}', not train, val, test or empty"
            raise DatasetError(f"{graphs.place(row)}: {problem}.")
        if part is not None:
            parts[part].append(row)
    if empty := [name for name, part in parts.items() if not part]:
        raise DatasetError(f"{graphs.where}: no graph has '{empty[0]}' in the column 'split'.")
    return (as_split([np.array(part) for part in parts.values()]),)
