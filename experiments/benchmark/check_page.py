"""The blocks of ``README.md``, and ``pareto.svg``, are what their commands write, to the byte.

Run by ``make benchmark-test``. Not part of ``make test``: another version of pandas or scipy may
write other bytes, and the datasets must be there.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from experiments.benchmark import analysis, by_graph, costs, further
from experiments.written import block
from lcpool.data.load import find_dataset
from lcpool.sweep.grid import read_grids
from lcpool.sweep.results import Results

PAGE = analysis.HERE / "README.md"


def needs_data() -> None:
    """The regressions by graph read the datasets; skip where one would have to be downloaded."""
    runs = Results.read(*analysis.HERE.glob("runs-main*.csv"))
    grids = read_grids(analysis.HERE / "main.toml", {})
    for name in analysis.complete(runs, grids):
        if not find_dataset(by_graph.place(name, grids[0].datasets)):
            pytest.skip(f"{name} is not on this machine: name its folder by LCPOOL_DATA")


@pytest.mark.parametrize(
    ("command", "written", "reads_data"),
    [
        (analysis.SHORT, lambda: analysis.blocks(analysis.text())[analysis.SHORT], True),
        (analysis.COMMAND, lambda: analysis.blocks(analysis.text())[analysis.COMMAND], True),
        (costs.COMMAND, lambda: costs.answered()[0], False),
        (further.COMMAND, further.text, True),
    ],
    ids=["answer", "analysis", "costs", "further"],
)
def test_the_page_is_what_its_commands_write(
    command: str, written: Callable[[], str], reads_data: bool
) -> None:
    """Block by block."""
    if reads_data:
        needs_data()
    assert block(PAGE, command) == written(), f"run: {command}"


def test_the_picture_is_what_its_command_draws() -> None:
    """Accuracy against costs."""
    assert (analysis.HERE / "pareto.svg").read_text("utf-8") == costs.answered()[1]
