"""``lcpool.compare``: a whole sweep by one call, with a table of runs as its result."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from lcpool.data.load import Graphs
from lcpool.progress import display
from lcpool.settings import POOLS, RUNS, read_config_text, takes_settings
from lcpool.sweep.engine import Engine, EngineError, in_short
from lcpool.sweep.engines.execute import InlineEngine
from lcpool.sweep.engines.local import LocalEngine, devices
from lcpool.sweep.grid import DATASET, Dataset, Grid, make_jobs
from lcpool.sweep.run import Outcome, Sweep
from lcpool.sweep.store import Store, StoreError
from lcpool.train.device import pick_device

if TYPE_CHECKING:
    import pandas as pd

GUARD = (
    "A script with workers= must be safe to import: put the call under if __name__ == '__main__'."
)


@takes_settings
def compare(
    datasets: Graphs | Sequence[str | Path] | Mapping[str, Graphs] = DATASET.default,
    pool: str | Sequence[str] = POOLS,
    backbone: str | Sequence[str] | None = None,
    conv: str | Sequence[str] | None = None,
    runs: int = RUNS.default,
    *,
    store: str | Path | None = None,
    workers: int | None = None,
    device: str | torch.device | None = None,
    root: str | Path | None = None,
    progress: bool = False,
    **settings: Any,
) -> pd.DataFrame:
    """Train every pooling on every dataset, and return a table with a row per run.

    Every setting can be a list of values: all combinations are trained. Plurals are the same
    settings (``pools``, ``backbones``, ``convs``, ``splits``, ``seeds``).

    Args:
        datasets: a name, a path, several of these, or a dictionary of graphs by name.
        pool: poolings by their paper names, or ``module:Class``. By default all of the paper's.
        backbone: "hierarchical", "plain", or both.
        conv: "gcn", "graphconv", "gin", "gine", ``module:Class``, or several.
        runs: how many runs of each cell.
        settings: other settings of the network and the protocol.
        store: a file that keeps the runs; runs that it has already are not trained again.
        workers: how many processes to train in; by default only this one. A script that asks for
            workers must be safe to import (``if __name__ == "__main__":``).
        device: where to train; by default a GPU if there is one.
        root: folder to look for datasets in.
        progress: show the progress on stderr: a table in a terminal, lines elsewhere.

    Returns:
        The runs, with accuracies in percent; ``docs/sweep.md`` lists the columns. A setting with
        several values has its own column.

    Example:
        >>> table = compare(pools=["nopool", "topkpool"], runs=2, epochs=1, hidden=8, device="cpu")
        >>> table.groupby("pool").run.count().to_dict()
        {'nopool': 2, 'topkpool': 2}
    """
    from lcpool.sweep.results import Results, key

    if not _are_names(settings.get("splits", [])):
        raise ValueError(
            "'splits' are names of schemes here. Predefined splits go with their data: "
            "compare({'NAME': load_dataset(data, splits=splits)}, split='predefined')."
        )
    named = {"pool": None if pool is POOLS else pool, "backbone": backbone, "conv": conv}
    given = {name: value for name, value in named.items() if value is not None}
    grid = Grid.of(datasets=_datasets(datasets, root), runs=runs, **given, **settings)
    jobs, place = make_jobs([grid]), pick_device(device)
    with (
        tempfile.TemporaryDirectory(prefix="lcpool-") as folder,
        Store(Path(folder) / "runs.sqlite" if store is None else store) as opened,
    ):
        opened.add(jobs)
        engine: Engine = InlineEngine(place)
        if workers:
            engine = LocalEngine(devices(place), workers, opened.work.path, len(jobs))
        try:
            with display(progress) as view:
                outcome = Sweep(jobs, opened, engine, view).run()
        except EngineError as error:
            raise EngineError(f"{error}. {GUARD}") from None
        _report(outcome, store)
        found = Results.of(opened).runs
    wanted = {key({**cell.columns, "run": number}) for job in jobs for cell, number in job.wanted}
    kept = [key(row) in wanted for row in found.to_dict("records")]
    table = found[kept].reset_index(drop=True)
    for name, values in grid.settings.items():
        if len(values) > 1 and name not in table:
            table[name] = [read_config_text(text)[name] for text in table["config"]]
    return table


def _are_names(splits: Any) -> bool:
    """Whether this is the name of a scheme of splits or a list of names, and no file of splits."""
    names = [splits] if isinstance(splits, str | Path) else splits
    if not isinstance(names, Sequence):
        return False
    return all(isinstance(name, str) and not Path(name).suffix for name in names)


def _datasets(datasets: Any, root: str | Path | None) -> tuple[Dataset, ...]:
    if isinstance(datasets, Mapping):
        return tuple(Dataset.of(source, root, name) for name, source in datasets.items())
    listed = isinstance(datasets, list | tuple)
    if not (listed and all(isinstance(one, str | Path) for one in datasets)):
        datasets = [datasets]
    return tuple(Dataset.of(source, root) for source in datasets)


def _report(outcome: Outcome, store: str | Path | None) -> None:
    """Warn about what failed; an error if everything did, or if it was interrupted."""
    if outcome.rescued:
        raise StoreError(f"{store} was deleted or moved; all its runs are in {outcome.rescued}.")
    if outcome.stopped:
        kept = "the runs are lost; pass store='runs.sqlite' to keep them"
        if store is not None:
            kept = f"finished runs and checkpoints are kept in {store}; the same call continues"
        raise KeyboardInterrupt(f"{outcome.complete} of {outcome.jobs} jobs are complete; {kept}.")
    if outcome.failed and not outcome.complete:
        job, reason = outcome.failed[0]
        raise RuntimeError(f"nothing could be trained; {job}: {in_short(reason)}\n\n{reason}")
    for job, reason in outcome.failed:
        warnings.warn(f"{job} is missing: {in_short(reason)}", stacklevel=3)
