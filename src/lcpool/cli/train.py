"""``lcpool train``: the paper's experiment on one dataset, with one pooling."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lcpool.cli.checks import check_device, check_own_pooling, import_from_here
from lcpool.cli.errors import one_line_errors, say

if TYPE_CHECKING:
    from lcpool.models import Architecture
    from lcpool.train import Protocol, Result

STOPPED = "stopped; the same command continues from here."

network = partial(typer.Option, rich_help_panel="The network")
protocol = partial(typer.Option, rich_help_panel="The protocol")
place = partial(typer.Option, rich_help_panel="Where, and what comes out")


def train(
    dataset: Annotated[
        str, typer.Argument(help="A TU dataset, a folder or zip of one, or 'builtin'.")
    ] = "builtin",
    pool: Annotated[
        str,
        network(
            help="nopool, topkpool, sagpool, asapool, diffpool, mincutpool, lcpool, lcpool-star, "
            "or a class of your own as module:Class."
        ),
    ] = "lcpool",
    backbone: Annotated[str, network(help="hierarchical or plain.")] = "hierarchical",
    conv: Annotated[str, network(help="gcn or graphconv.")] = "gcn",
    ratio: Annotated[
        str, network(help="Share of the nodes that is kept, as 0.5, or their number, as 10.")
    ] = "0.5",
    hidden: Annotated[int, network(help="Width.")] = 128,
    norm: Annotated[str, network(help="batch, layer or none.")] = "batch",
    poolings: Annotated[int, network(help="How many times to pool.")] = 1,
    score_channels: Annotated[
        int | None, network(help="Width inside LCPool's score.", show_default="--hidden")
    ] = None,
    self_loops: Annotated[bool, network(help="Keep the diagonal of LCPool's A'.")] = True,
    rescale: Annotated[bool, network(help="Gate LCPool's features with n·h, not h.")] = False,
    hops: Annotated[int, network(help="How far apart LCPool connects nodes: 1, 2 or 3.")] = 3,
    runs: Annotated[int, protocol(help="Runs, each with its own beginning and order.")] = 10,
    epochs: Annotated[int, protocol(help="The most epochs.")] = 500,
    patience: Annotated[int, protocol(help="Epochs to wait for a better one.")] = 50,
    lr: Annotated[float, protocol(help="Adam's learning rate.")] = 5e-4,
    batch_size: Annotated[int, protocol(help="Graphs of a batch.")] = 32,
    split: Annotated[
        str, protocol(help="shared: one split for all runs; fresh: a new one for each.")
    ] = "shared",
    seed: Annotated[int, protocol(help="All random choices derive from it.")] = 0,
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
) -> None:
    """Train a network by the paper's protocol, several runs as one.

    What was stopped by Ctrl-C is continued by the same command.
    """
    # A pooling of the user's own may print; stdout is for the result.
    with one_line_errors(STOPPED), contextlib.redirect_stdout(sys.stderr):
        from lcpool.cli.progress import show_progress
        from lcpool.models.pooling import own_errors
        from lcpool.train import train as train_network

        if device is not None:
            check_device(device)
        if save is not None:
            _check_file(save)
        if ":" in pool:
            import_from_here()
            check_own_pooling(pool, hidden, _number(ratio))
        with own_errors(pool), show_progress(runs) as progress:
            result = train_network(
                dataset, pool, backbone, conv, runs,
                ratio=_number(ratio), hidden=hidden, norm=norm, poolings=poolings,
                score_channels=score_channels, self_loops=self_loops, rescale=rescale, hops=hops,
                epochs=epochs, patience=patience, lr=lr, batch_size=batch_size,
                split=split, seed=seed, device=device, stack=stack,
                checkpoints=_checkpoint_folder(checkpoints), root=root, on_epoch=progress,
            )  # fmt: skip
    with one_line_errors("stopped."):
        if as_json:
            typer.echo(json.dumps(_without_nan(result.to_dict()), allow_nan=False))
        else:
            _print_result(result)
        model = result.model  # An error, also without --save, if all runs diverged.
        if save is not None:
            model.save(save)
            say(f"the model is in {save}")


def _number(ratio: str) -> float:
    """``ratio`` as it was written: 1 is a number of nodes, 1.0 a share."""
    try:
        return int(ratio) if ratio.lstrip("+-").isdigit() else float(ratio)
    except ValueError:
        raise ValueError(f"--ratio {ratio}: write a share as 0.5, or a number as 10.") from None


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
    """Mean ± std under both rules, beside the paper's figure where there is one to compare."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from lcpool.data.published import published
    from lcpool.train import RULES

    a, others = result.architecture, _other_options(result)
    paper = published(result.dataset, a.backbone, a.conv, a.pool)
    beside = [paper] if paper and not others else []
    table = Table("chosen by", "test accuracy", box=SIMPLE_HEAD)
    if beside:
        table.add_column("the paper")
    for rule in RULES:
        spread = result.std(rule) if len(result.accuracies(rule)) > 1 else math.nan
        figures = [(result.mean(rule), spread), *beside]
        table.add_row(f"validation {rule}", *(_figure(mean, std) for mean, std in figures))
    console = Console(highlight=False)
    console.print(f"{result.dataset}: {a.pool}, {a.backbone}, {a.conv}", markup=False)
    console.print(table)
    console.print(_circumstances(result), markup=False, soft_wrap=True)
    if paper and others:
        left_out = f"the paper's figure is left out: {'; '.join(others)}"
        console.print(left_out, markup=False, soft_wrap=True)


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


def _other_options(result: Result) -> list[str]:
    """The options that are not the paper's; split and seed it leaves open."""
    from lcpool.models import Architecture
    from lcpool.train import Protocol

    a, protocol = result.architecture, result.protocol
    usual = Protocol(split=protocol.split, seed=protocol.seed)
    papers = _options(Architecture(a.backbone, a.conv, a.pool), usual)
    return [
        f"{name} {value}, not {papers[name]}"
        for name, value in _options(a, protocol).items()
        if value != papers[name]
    ]


def _options(architecture: Architecture, protocol: Protocol) -> dict[str, Any]:
    """Every option by the name it has on the command line."""
    values = {**asdict(architecture), **asdict(architecture.options), **asdict(protocol)}
    del values["options"]
    return {name.removeprefix("max_"): value for name, value in values.items()}
