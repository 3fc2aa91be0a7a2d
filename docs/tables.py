"""Write the tables in these pages that follow from declarations: ``make tables``.

A table is between ``<!-- table NAME -->`` and ``<!-- end of table NAME -->``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import torch

from lcpool.data import builtin
from lcpool.models import POOLINGS, Architecture, make_pooling
from lcpool.pool import DenseAssignmentPooling
from lcpool.settings import RUNS, SETTINGS, Setting, scopes
from lcpool.sweep.columns import CIRCUMSTANCE, EXPORTED, OUTCOME, WHICH

HERE = Path(__file__).parent
PAGES = {
    "settings": HERE / "experiments.md",
    "columns": HERE / "sweep.md",
    "poolings": HERE / "poolings.md",
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


MAKE = {"settings": settings, "columns": columns, "poolings": poolings}

if __name__ == "__main__":
    for name, page in PAGES.items():
        page.write_text(written(name), "utf-8")
