"""``lcpool train``: the paper's experiment on one dataset, with one pooling."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lcpool.cli.checks import check_device, check_own_pooling, import_from_here
from lcpool.cli.errors import one_line_errors, say
from lcpool.cli.options import given, takes_settings
from lcpool.settings import SETTINGS, in_groups

if TYPE_CHECKING:
    from lcpool.train import Result, Run

STOPPED = "stopped; the same command continues from here."

place = partial(typer.Option, rich_help_panel="Where, and what comes out")


@takes_settings()
def train(
    context: typer.Context,
    dataset: Annotated[
        str, typer.Argument(help="A TU dataset, a folder or zip of one, or 'builtin'.")
    ],
    *,
    device: Annotated[
        str | None, place(help="cpu, cuda or cuda:N.", show_default="a GPU if there is one")
    ] = None,
    stack: Annotated[
        int | None, place(help="The most runs to train as one.", show_default="as many as fit")
    ] = None,
    root: Annotated[
        Path | None, place(help="Folder to look for the dataset in, and to download to.")
    ] = None,
    checkpoints: Annotated[
        Path | None,
        place(
            help="Folder from which an interrupted training continues.",
            show_default="in the user's cache folder",
        ),
    ] = None,
    save: Annotated[Path | None, place(help="Write the best run's model to this file.")] = None,
    as_json: Annotated[
        bool, place("--json", help="Print the result as JSON, alone on stdout.")
    ] = False,
    **settings: Any,
) -> None:
    """Train a network by the paper's protocol, several runs as one.

    What was stopped by Ctrl-C is continued by the same command.
    """
    # A pooling of the user's own may print; stdout is for the result.
    with one_line_errors(STOPPED), contextlib.redirect_stdout(sys.stderr):
        from lcpool.models import Architecture
        from lcpool.models.pooling import own_errors
        from lcpool.train import train as train_network

        if device is not None:
            check_device(device)
        if save is not None:
            _check_file(save)
        said = given(context, settings)
        pool = said.get("pool", SETTINGS["pool"].default)
        if ":" in pool:
            import_from_here()
            own = Architecture(**in_groups(said)[0])
            check_own_pooling(pool, own.hidden, own.ratio)
        with own_errors(pool):
            result = train_network(
                dataset, **said, device=device, stack=stack, root=root, progress=True,
                checkpoints=_checkpoint_folder(checkpoints), keep_checkpoints=True,
            )  # fmt: skip
    with one_line_errors("stopped."):
        if as_json:
            typer.echo(json.dumps(_without_nan(result.to_dict()), allow_nan=False))
        else:
            _print_result(result)
        if save is not None and result.best is not None:
            result.best.save(save)
            say(f"the model is in {save}")
        result.remove_checkpoints()  # Last: with them, a model that could not be saved is not lost.
        _ = result.model  # An error, also without --save, if all runs diverged.


def _check_file(path: Path) -> None:
    """Refuse a place where nothing can be written before training for it, not after."""
    if path.is_dir():
        raise ValueError(f"--save {path} is a folder; name a file.")
    path.absolute().parent.mkdir(parents=True, exist_ok=True)
    if not os.access(path.absolute().parent, os.W_OK):
        raise ValueError(f"--save {path}: its folder cannot be written to.")


def _checkpoint_folder(named: Path | None) -> Path | None:
    """The folder that was asked for, or the user's; None, with a warning, if that is no use."""
    from lcpool.data.cache import user_cache

    folder = named or user_cache() / "checkpoints"
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    if folder.is_dir() and os.access(folder, os.W_OK):
        return folder
    if named is not None:
        raise ValueError(f"--checkpoints {named} is not a folder that can be written to.")
    say(f"{folder} cannot be written to: an interrupted training will start over.")
    return None


def _without_nan(values: Any) -> Any:
    """The same with None for what is no finite number: JSON knows no other numbers."""
    if isinstance(values, dict):
        return {key: _without_nan(value) for key, value in values.items()}
    if isinstance(values, list | tuple):
        return [_without_nan(value) for value in values]
    return None if isinstance(values, float) and not math.isfinite(values) else values


def _print_result(result: Result) -> None:
    """Mean ± std under both rules."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from lcpool.train import RULES

    a = result.architecture
    # An accuracy says little without these: who always says the largest class has its share.
    data = (str(result.num_test), _largest(result.runs))
    table = Table("chosen by", "test accuracy", "test graphs", "largest class", box=SIMPLE_HEAD)
    for rule in RULES:
        spread = result.std(rule) if len(result.accuracies(rule)) > 1 else math.nan
        table.add_row(f"validation {rule}", _figure(result.mean(rule), spread), *data)
    console = Console(highlight=False)
    console.print(f"{result.dataset}: {a.pool}, {a.backbone}, {a.conv}", markup=False)
    console.print(table)
    for line in (_circumstances(result), *_constant(result)):
        console.print(line, markup=False, soft_wrap=True)


def _figure(mean: float, std: float) -> str:
    """Mean ± std in percent, the mean alone of one run, a dash where all runs diverged."""
    if math.isnan(mean):
        return "–"
    return f"{mean:.2f} %" if math.isnan(std) else f"{mean:.2f} ± {std:.2f} %"


def _circumstances(result: Result) -> str:
    """Epochs, time, stack, device, and runs that came to nothing."""
    epochs = sorted({run.epochs for run in result.runs})
    span = f"{epochs[0]} to {epochs[-1]}" if len(epochs) > 1 else f"{epochs[0]}"
    runs = "1 run" if len(result.runs) == 1 else f"{len(result.runs)} runs"
    diverged = [run for run in result.runs if run.diverged is not None]
    lost = ", ".join(str(run.number) for run in diverged if run.lost)
    late = ", ".join(str(run.number) for run in diverged if not run.lost)
    together = "one at a time" if result.stack == 1 else f"{result.stack} trained as one"
    return (
        f"{runs} of {span} {'epoch' if span == '1' else 'epochs'} in {result.seconds:.1f} s on "
        f"{result.device}, {together}; {result.protocol.split} split, "
        f"seed {result.protocol.seed}"
        + (f"\ndiverged, and not counted: runs {lost}" if lost else "")
        + (f"\ndiverged after the epoch that counts: runs {late}" if late else "")
    )


def _largest(runs: list[Run]) -> str:
    """The mean share of the largest class among the runs' test graphs, in percent."""
    return f"{100 * fmean(run.largest_class for run in runs):.1f} %"


def _constant(result: Result) -> list[str]:
    """Which runs predict one class for every test graph: their accuracy is that class's share."""
    from lcpool.train import RULES

    found: dict[tuple[int, ...], list[str]] = {}
    for rule in RULES:
        runs = [run for run in result.runs if run.constant.get(rule) and not run.lost]
        if runs:
            found.setdefault(tuple(run.number for run in runs), []).append(rule)
    lines = []
    for numbers, rules in found.items():
        share = _largest([run for run in result.runs if run.number in numbers])
        which = "" if len(rules) == len(RULES) else f"chosen by validation {rules[0]}, "
        one = len(numbers) == 1
        lines.append(
            f"{which}run{'' if one else 's'} {', '.join(map(str, numbers))} "
            f"predict{'s' if one else ''} one class for every test graph; "
            f"the largest class has {share}"
        )
    return lines
