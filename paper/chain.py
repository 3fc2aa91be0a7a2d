"""The harness's ten runs as it makes them: seed 0 ten times, each handing its norms to the next.

Split, order and initial parameters are the same in every run. The BatchNorms outside the two MLPs
are not made anew: a run begins with the statistics and scales that the run before ended with, after
its last epoch. So ten figures come from one split and one initialisation, and from ever longer
trained norms.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from lcpool.data import GraphSet
from lcpool.sweep.engines.execute import rows_of
from lcpool.sweep.grid import Cell, make_jobs, read_grids
from lcpool.sweep.store import Store
from lcpool.train import Trainer
from lcpool.train.checkpoint import Checkpoint
from lcpool.train.loop import training
from paper.harness import outside_mlps


def links(graphs: GraphSet, cell: Cell, runs: int) -> Iterator[Trainer]:
    """The trainers of a chain, each tested; all train as run 0."""
    handed: dict[str, Tensor] = {}
    for _ in range(runs):
        trainer = Trainer(graphs, cell.architecture, cell.protocol, [0])
        receive(trainer, handed)
        for epoch in training(trainer, Checkpoint(None, {}), warnings.warn):
            if epoch.ended:  # before the test, which restores the chosen epoch
                handed = {
                    name: value.detach().clone()
                    for name, value in epoch.stack.tensors().items()
                    if outside_mlps(name)
                }
        yield trainer


@torch.no_grad()
def receive(trainer: Trainer, handed: dict[str, Tensor]) -> None:
    """Let a training begin with the norms of the one before."""
    tensors = trainer.stack.tensors()
    for name, value in handed.items():
        tensors[name].copy_(value)


def train(grid: Path, store: Path, datasets: list[str] | None = None) -> None:
    """Train the chains of a file of grids that a store lacks, and put their runs into it."""
    jobs = make_jobs(read_grids(grid, {"datasets": datasets} if datasets else {}))
    if any(
        cell.protocol.split != "shared" or cell.protocol.seed for job in jobs for cell in job.cells
    ):
        raise ValueError(f'{grid}: a chain has one split and seed 0: write splits = "shared".')
    with Store(store) as kept:
        kept.add(jobs)
        for job, wanted in kept.missing(jobs).items():
            for cell in dict.fromkeys(cell for cell, _ in wanted):
                runs = sum(one == cell for one, _ in job.wanted)
                graphs, rows = cell.dataset.load(), []
                for number, trainer in enumerate(links(graphs, cell, runs)):
                    (row,) = rows_of(trainer, [cell], "[]")
                    rows.append({**row, "run": number})
                kept.save(rows)
                print(f"{' '.join(cell.names)}: {runs} runs", flush=True)
