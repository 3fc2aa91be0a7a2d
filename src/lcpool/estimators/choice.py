"""``pool="auto"``: which of a few poolings is best on the validation graphs, and why."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lcpool.data import GraphSet, Split
from lcpool.models import Architecture
from lcpool.notebook import card
from lcpool.progress import Display
from lcpool.train.api import best_model
from lcpool.train.loop import Trainer
from lcpool.train.metrics import METRICS
from lcpool.train.model import Model
from lcpool.train.progress import TrainingProgress
from lcpool.train.protocol import Protocol
from lcpool.train.result import Run

log = logging.getLogger("lcpool")

AUTO = "auto"
# One of each kind. TopK and SAG are left out: LCPool was more accurate on all datasets (README).
CANDIDATES = {
    "nopool": "no pooling: the baseline, often the best where graphs are small",
    "lcpool": "selects clusters and joins those that touch",
    "cellpool": "merges every node into the nearest kept one, so that graphs stay connected",
    "mincutpool": "assigns all nodes to a fixed number of clusters, which is trained",
}


class Trial(NamedTuple):
    """A network with one pooling, at the epoch that it was chosen at."""

    pool: str
    value: float  # the metric on the validation graphs
    loss: float  # the validation loss
    cost: tuple[float, float]  # by which trials are compared: the metric, then the loss
    epoch: int  # 0 if it diverged before any was chosen
    epochs: int  # trained
    seconds: float

    @classmethod
    def of(cls, pool: str, run: Run, seconds: float) -> Trial:
        """The trial that a run was."""
        chosen = run.choices[run.metric]
        return cls(pool, chosen.value, chosen.loss, chosen.cost, chosen.epoch, run.epochs, seconds)


@dataclass(frozen=True, repr=False)
class PoolChoice:
    """The poolings that were tried, and the one that was taken.

    It is the one with the best metric on the validation graphs, and of equal ones that with the
    lowest validation loss: the rule by which an epoch is chosen, too. The test graphs of a
    comparison are no part of it.

    Attributes:
        metric: the name of the metric.
        num_graphs: how many validation graphs there are.
        trials: a row per pooling; ``pandas.DataFrame(choice.trials)`` is a table of them.
    """

    metric: str
    num_graphs: int
    trials: tuple[Trial, ...]

    @property
    def taken(self) -> Trial:
        """The trial of the pooling that was taken."""
        return min(self.trials, key=lambda trial: trial.cost)

    @property
    def reason(self) -> str:
        """Why, in one line."""
        taken, title = self.taken, METRICS[self.metric].title
        others = [trial for trial in self.trials if trial is not taken]
        figure = f"validation {title} {self._written(taken)} on {self.num_graphs} graphs"
        if not others:
            return f"{taken.pool}: {figure}"
        equal = [trial.pool for trial in others if trial.cost[0] == taken.cost[0]]
        why = f"as {', '.join(equal)}, but with a lower loss" if equal else "the best"
        rest = ", ".join(f"{t.pool} {self._written(t)}" for t in others if t.pool not in equal)
        return f"{taken.pool}: {figure}, {why}" + (f" ({rest})" if rest else "")

    def __repr__(self) -> str:
        rows = [self._columns, *map(self._cells, self._ordered)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
            for row in rows
        ]
        return "\n".join([f"PoolChoice: {self.reason}", *lines])

    def _repr_html_(self) -> str:
        return card(
            "Choice of a pooling", {"taken": self.reason}, self._columns,
            map(self._cells, self._ordered),
        )  # fmt: skip

    @property
    def _ordered(self) -> list[Trial]:
        return sorted(self.trials, key=lambda trial: trial.cost)

    @property
    def _columns(self) -> tuple[str, ...]:
        title = METRICS[self.metric].title
        return ("pooling", f"validation {title}", "validation loss", "epoch", "of", "seconds")

    def _cells(self, trial: Trial) -> tuple[str, ...]:
        loss = f"{trial.loss:.4f}" if trial.epoch else "–"
        return (
            trial.pool, self._written(trial), loss, str(trial.epoch or "–"), str(trial.epochs),
            f"{trial.seconds:.1f}",
        )  # fmt: skip

    def _written(self, trial: Trial) -> str:
        return METRICS[self.metric].written(trial.value) if trial.epoch else "diverged"


class Fitted(NamedTuple):
    """The best of the networks that were tried, its figures, and the choice."""

    model: Model
    run: Run
    choice: PoolChoice


def fit_best(
    graphs: GraphSet,
    architectures: Sequence[Architecture],
    protocol: Protocol,
    split: Split,
    on: Display,
) -> Fitted:
    """Train one run of each network, and keep the one that is best on the validation graphs.

    Args:
        graphs: the data, on the device to train on.
        architectures: the networks, which differ in their pooling.
        protocol: how to train them. Each has the seeds that it would have alone.
        split: the training and validation graphs; there are no test graphs.
        on: where to show the progress.

    Raises:
        ValueError: if all of them diverged.
    """
    trials: list[Trial] = []
    best: tuple[Trainer, Architecture] | None = None
    for architecture in architectures:
        if len(architectures) > 1:
            on.say(f"{architecture.pool}: {CANDIDATES[architecture.pool]}")
        trainer, watch = (
            Trainer(graphs, architecture, protocol, [0], [split]),
            TrainingProgress(on, 1),
        )
        while not trainer.ended:
            trainer.train_epoch()
            watch(trainer)
        trials.append(Trial.of(architecture.pool, trainer.runs[0], trainer.seconds))
        if best is None or trials[-1].cost < min(trial.cost for trial in trials[:-1]):
            best = trainer, architecture
    assert best is not None
    trainer, architecture = best
    model = best_model(graphs, architecture, [trainer])
    if model is None:
        raise ValueError(
            f"the training diverged: try a lower learning rate than lr={protocol.lr}, and look for "
            f"huge features."
        )
    choice = PoolChoice(trainer.metric.name, len(split.val), tuple(trials))
    if len(trials) > 1:
        on.say(choice.reason)
        log.info("pool='auto' took %s", choice.reason)
    return Fitted(model, trainer.runs[0], choice)
