"""``lcpool train``: one pooling on one dataset."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lcpool.cli.errors import one_line_errors, say
from lcpool.cli.options import TASK, check_file, given, setting_options
from lcpool.cli.own import check_own_class, import_from_here
from lcpool.settings import TaskName, in_groups
from lcpool.words import between, count

if TYPE_CHECKING:
    from lcpool.train import Result

STOPPED = "stopped; the same command continues from here."

place = partial(typer.Option, rich_help_panel="Where, and what comes out")


@setting_options()
def train(
    context: typer.Context,
    dataset: Annotated[str, typer.Argument(help="A TU or OGB name, a path, or 'builtin'.")],
    *,
    splits_file: Annotated[
        Path | None,
        place(help="Train on the splits of a .json, .npz or .csv file (predefined)."),
    ] = None,
    task: Annotated[TaskName | None, place(**TASK)] = None,
    device: Annotated[
        str | None, place(help="cpu, cuda or cuda:N.", show_default="a GPU if there is one")
    ] = None,
    stack: Annotated[
        int | None, place(help="The most runs to train as one.", show_default="as many as fit")
    ] = None,
    root: Annotated[Path | None, place(help="Folder of datasets, also to download to.")] = None,
    checkpoints: Annotated[
        Path | None,
        place(help="Folder for checkpoints to continue from.", show_default="in the user's cache"),
    ] = None,
    save: Annotated[Path | None, place(help="Write the best run's model to this file.")] = None,
    as_json: Annotated[bool, place("--json", help="Print JSON, alone on stdout.")] = False,
    **settings: Any,
) -> None:
    """Train a network by the paper's protocol, several runs as one.

    After Ctrl-C the same command continues.
    """
    # A user's pooling may print; stdout is for the result.
    with one_line_errors(STOPPED), contextlib.redirect_stdout(sys.stderr):
        from lcpool.models import Architecture
        from lcpool.models.own import own_errors
        from lcpool.train import train as train_network
        from lcpool.train.device import pick_device

        pick_device(device)  # Before any data is read.
        if save is not None:
            check_file("--save", save)
        said = given(context, settings)
        architecture = Architecture(**in_groups(said)[0])
        if architecture.own_classes:
            import_from_here()
        for name in architecture.own_classes:
            check_own_class(name, architecture)
        with own_errors(*architecture.own_classes):
            result = train_network(
                dataset, **said, splits=splits_file, task=task, device=device, stack=stack,
                root=root, progress=True, checkpoints=_checkpoint_folder(checkpoints),
                keep_checkpoints=True,
            )  # fmt: skip
    with one_line_errors("stopped."):
        if as_json:
            typer.echo(json.dumps(_without_nan(result.to_dict())))
        else:
            _print_result(result)
        if save is not None and result.best is not None:
            result.best.save(save)
            say(f"the model is in {save}")
        result.remove_checkpoints()  # Last: with them, a model that could not be saved is not lost.
        _ = result.model  # An error, also without --save, if all runs diverged.


def _checkpoint_folder(named: Path | None) -> Path | None:
    """The folder that was asked for, or the user's; None, with a warning, if that is unusable."""
    from lcpool.data.load import user_cache

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
    """The same with None for NaN and infinity, which JSON does not have."""
    return json.loads(json.dumps(values), parse_constant=lambda _: None)


def _print_result(result: Result) -> None:
    """The metric on the test graphs by both rules, and how it came about."""
    from rich.console import Console

    from lcpool.progress import table

    metric = result.metric
    a, rows, lines = result.architecture, [], _circumstances(result)
    titles = ["chosen by", f"test {metric.title}", "test graphs"]
    data = [between([run.num_test for run in result.runs], 0)]
    if metric.name == "accuracy" and result.runs[0].constant:  # of classes alone
        # The share of the largest class is the accuracy of always predicting it.
        titles.append("largest class")
        share = result.largest_class
        data.append("–" if math.isnan(share) else f"{share:.1f} %")
    for rule, name in zip(result.rules, (metric.title, "loss"), strict=True):
        rows.append((f"validation {name}", result.figure(rule), *data))
        if constant := result.constant_runs(rule):
            same = "the same class for all test graphs, chosen by validation"
            lines.append(f"{same} {name}: {_runs(constant)}")
    console = Console(highlight=False)
    console.print(f"{result.dataset}: {a.pool}, {a.backbone}, {a.conv}", markup=False)
    console.print(table(titles, rows))
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)


def _circumstances(result: Result) -> list[str]:
    """Epochs, time, stack and device, and runs that diverged."""
    span = between([run.epochs for run in result.runs], 0)
    diverged = [run for run in result.runs if run.diverged is not None]
    together = "one at a time" if result.stack == 1 else f"{result.stack} trained as one"
    lines = [
        f"{count(len(result.runs), 'run')} of {span} {'epoch' if span == '1' else 'epochs'} "
        f"in {result.seconds:.1f} s on {result.device}, {together}; "
        f"{result.protocol.split} split, seed {result.protocol.seed}"
    ]
    if lost := [run.number for run in diverged if run.lost]:
        lines.append(f"diverged before an epoch was chosen, not counted: {_runs(lost)}")
    metric, own = result.metric, result.metric.name
    if unknown := [r.number for r in result.runs if not r.lost and math.isnan(r.test[own][0])]:
        lines.append(f"no {metric.title} on their test graphs, not counted: {_runs(unknown)}")
    if blind := [r.number for r in result.runs if not r.lost and math.isnan(r.choices[own].value)]:
        lines.append(
            f"no {metric.title} on their validation graphs, chosen by loss: {_runs(blind)}"
        )
    if late := [run.number for run in diverged if not run.lost]:
        lines.append(f"diverged after the chosen epoch, counted: {_runs(late)}")
    return lines


def _runs(numbers: list[int]) -> str:
    return f"run{'' if len(numbers) == 1 else 's'} {', '.join(map(str, numbers))}"
