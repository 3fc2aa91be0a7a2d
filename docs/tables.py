"""Write the tables in these pages that follow from declarations: ``make tables``.

A table is between ``<!-- table NAME -->`` and ``<!-- end of table NAME -->``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from torch import nn
from torch_geometric.nn import TopKPooling as PyGTopK

import lcpool
from lcpool.data import builtin
from lcpool.models import POOLINGS, Architecture, make_pooling
from lcpool.pool import DenseAssignmentPooling
from lcpool.settings import RUNS, SETTINGS, Setting, scopes
from lcpool.sweep.columns import CIRCUMSTANCE, EXPORTED, OUTCOME, WHICH

HERE = Path(__file__).parent
WIDTH = 64
PAGES = {
    "settings": HERE / "experiments.md",
    "columns": HERE / "sweep.md",
    "poolings": HERE / "poolings.md",
    "pyg": HERE / "pyg.md",
}


def settings() -> str:
    """Every setting, by scope."""
    rows = []
    for scope, known in scopes([RUNS, *SETTINGS.values()]).items():
        rows.append((f"**{scope}**", "", ""))
        rows += [(_names(one), f"`{_default(one)}`", _help(one)) for one in known]
    return table(("setting", "default", "what it is"), rows)


def columns() -> str:
    """Every column of a table of runs, by group."""
    rows = []
    for group in (WHICH, OUTCOME, CIRCUMSTANCE):
        rows.append((f"**{group}**", "", ""))
        rows += [(f"`{c.name}`", c.dtype, c.help) for c in EXPORTED if c.group == group]
    return table(("column", "type", "what it is"), rows)


def poolings() -> str:
    """Every pooling by name, from what its class declares and from a layer made of it."""
    graphs, rows = builtin(num_graphs=4), []
    batch = graphs.batch(torch.arange(4))
    for name in POOLINGS:
        layer = make_pooling(name, graphs.num_features, 3, Architecture(pool=name))
        dense = isinstance(layer, DenseAssignmentPooling)
        size = "" if not SETTINGS["ratio"].read_by(name) else "clusters" if dense else "nodes"
        flags = (
            dense, any(True for _ in layer.parameters()), layer.keeps_connected, layer.expressive,
        )  # fmt: skip
        is_dense, trained, connected, expressive = ("yes" if flag else "" for flag in flags)
        losses = ", ".join(layer(batch.graph).losses)
        rows.append((f"`{name}`", f"`{type(layer).__name__}`", size, is_dense, trained, losses,
                     connected, expressive, layer.cost))  # fmt: skip
    head = ("name", "layer", "ratio of", "dense", "trained", "losses", "stays connected",
            "expressive", "time grows with")  # fmt: skip
    return table(head, rows)


def pyg() -> str:
    """Edges and the scale of features after one, two and three poolings, beside PyG's TopK."""
    layers: dict[str, Callable[[], nn.Module]] = {
        "PyG's `TopKPooling`": lambda: PyGTopK(WIDTH),
        "`TopKPooling`": lambda: lcpool.TopKPooling(WIDTH),
        "`LCPooling`": lambda: lcpool.LCPooling(WIDTH),
        "`LCPooling(hops=2)`": lambda: lcpool.LCPooling(WIDTH, hops=2),
        "`LCPooling(rescale=True)`": lambda: lcpool.LCPooling(WIDTH, rescale=True),
        "`CellPooling`": lambda: lcpool.CellPooling(WIDTH),
    }
    graphs, rows = builtin(), []
    given = graphs.batch(torch.arange(len(graphs)))
    for name, make in layers.items():
        torch.manual_seed(0)
        x, edges, batch = torch.randn(given.x.size(0), WIDTH), given.edge_index, given.batch
        shares, scales = [], []
        for _ in range(3):
            with torch.no_grad():
                x, edges, _, batch, *_ = make()(x, edges, batch=batch)
            shares.append(f"{edges.size(1) / given.edge_index.size(1):.2f}")
            scales.append(f"{float(x.square().mean().sqrt()):.1g}")
        rows.append((name, ", ".join(shares), ", ".join(scales)))
    return table(("layer", "edges after / before", "scale after / before"), rows)


def _names(one: Setting) -> str:
    return f"`{one.name}`" + (f" (`{one.plural}`)" if one.plural else "")


def _default(one: Setting) -> str:
    return one.unset or str(one.default)


def _help(one: Setting) -> str:
    choices = ", ".join(f"`{choice}`" for choice in one.choices)
    return f"{one.help} One of {choices}." if choices else one.help


def table(head: Iterable[str], rows: Iterable[tuple[str, ...]]) -> str:
    """A table in Markdown."""
    head = tuple(head)
    lines = [head, ("---",) * len(head), *rows]
    cells = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def written(name: str) -> str:
    """The page of a table, with the table as it must be."""
    begin, end = f"<!-- table {name} -->\n", f"\n<!-- end of table {name} -->"
    text = PAGES[name].read_text("utf-8")
    block = re.compile(f"(?<={re.escape(begin)}).*?(?={re.escape(end)})", re.DOTALL)
    found, count = block.subn(lambda _: f"\n{MAKE[name]()}\n", text)
    if count != 1:
        raise ValueError(f"{PAGES[name]} has {count} places for the table {name}.")
    return found


MAKE = {"settings": settings, "columns": columns, "poolings": poolings, "pyg": pyg}

if __name__ == "__main__":
    for name, page in PAGES.items():
        page.write_text(written(name), "utf-8")
