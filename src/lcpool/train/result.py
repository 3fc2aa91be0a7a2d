"""What a training gives: the figures of each run, and the best network."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lcpool.models import Architecture
from lcpool.notebook import card
from lcpool.settings import changed, flat, unnamed
from lcpool.train.checkpoint import Checkpoint
from lcpool.train.metrics import METRICS, Metric
from lcpool.train.model import Model
from lcpool.train.protocol import RULES, EpochChoice, Protocol
from lcpool.train.tasks import LOSS
from lcpool.words import count, figure


class Predictions(NamedTuple):
    """What a network says of the test graphs, so that any metric can be computed from it."""

    graphs: NDArray[np.uint32]  # the numbers of the graphs, [graphs]
    target: NDArray[Any]  # the class of each, counted from 0, [graphs]; or its labels or values
    outputs: NDArray[np.float32]  # scores before softmax or sigmoid, or values; [graphs, columns]


@dataclass
class Run:
    """The figures of one run.

    Attributes:
        number: the run's number; with the protocol's seed it determines everything random.
        choices: the epoch chosen by each rule.
        curves: per epoch: training loss, validation loss, the metric on the validation graphs.
        diverged: the epoch in which a loss was not finite, or None.
        test: the metric and the loss on the test graphs at the epoch chosen by each rule.
        num_test: the number of test graphs; 0 before the test.
        largest_class: the share of the most frequent class among the test graphs, as a fraction:
            the accuracy of a network that always predicts it. NaN before the test, and without
            classes.
        constant: for each rule, whether its network predicts the same class for all test graphs.
        metric: the name of the metric that selects; the first rule is named after it.
        measured: for each rule, every metric of the task on the test graphs.
        predictions: for each rule, what its network says of each test graph.
    """

    number: int
    choices: dict[str, EpochChoice] = field(
        default_factory=lambda: {rule: EpochChoice(rule) for rule in RULES}
    )
    curves: list[tuple[float, float, float]] = field(default_factory=list)
    diverged: int | None = None
    test: dict[str, tuple[float, float]] = field(default_factory=dict)
    num_test: int = 0
    largest_class: float = field(default=math.nan, compare=False)
    constant: dict[str, bool] = field(default_factory=dict)
    metric: str = "accuracy"
    measured: dict[str, dict[str, float]] = field(default_factory=dict, compare=False)
    predictions: dict[str, Predictions] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def from_state(cls, values: dict[str, Any]) -> Run:
        """The inverse of ``dataclasses.asdict``."""
        choices = {rule: EpochChoice(**choice) for rule, choice in values["choices"].items()}
        return cls(**{**values, "choices": choices})

    @property
    def epochs(self) -> int:
        """Epochs trained."""
        return len(self.curves)

    @property
    def lost(self) -> bool:
        """Whether it diverged before any epoch was chosen; otherwise the chosen epoch counts."""
        return self.diverged is not None and self.choices[self.metric].epoch == 0

    def ended(self, protocol: Protocol) -> bool:
        """Whether there is nothing more to train."""
        if self.diverged is not None or self.epochs >= protocol.epochs:
            return True
        return self.epochs > 0 and all(
            choice.closed(self.epochs, protocol.patience) for choice in self.choices.values()
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, accuracies and shares in percent; None where a rule chose no epoch.

        ``by_accuracy`` (or another metric) and ``by_loss`` name the rule that chose the epoch.
        """
        metric = METRICS[self.metric]

        def named(value: float, loss: float) -> dict[str, float]:
            return {metric.name: metric.factor * value, "loss": loss}

        chosen = {rule for rule, choice in self.choices.items() if choice.epoch}
        return {
            "number": self.number,
            "epochs": self.epochs,
            "diverged": self.diverged,
            "chosen": {
                f"by_{rule}": {"epoch": choice.epoch, **named(choice.value, choice.loss)}
                if rule in chosen
                else None
                for rule, choice in self.choices.items()
            },
            "test": {f"by_{r}": named(*v) if r in chosen else None for r, v in self.test.items()},
            "metrics": {
                f"by_{rule}": {name: METRICS[name].factor * value for name, value in found.items()}
                if rule in chosen
                else None
                for rule, found in self.measured.items()
            },
            "num_test": self.num_test,
            "largest_class": None if math.isnan(self.largest_class) else 100 * self.largest_class,
            "constant": {f"by_{r}": v if r in chosen else None for r, v in self.constant.items()},
            "curves": {
                "training_loss": [row[0] for row in self.curves],
                "validation_loss": [row[1] for row in self.curves],
                f"validation_{metric.name}": [metric.factor * row[2] for row in self.curves],
            },
        }


@dataclass(frozen=True)
class Result:
    """The runs of one dataset, network and protocol.

    Attributes:
        dataset: the name of the data.
        architecture: the network.
        protocol: how it was trained.
        runs: the figures of each run.
        seconds: wall time of training, all runs together.
        device: where it was trained.
        stack: how many runs were trained as one.
        best: the network of the run that is best by the metric on its validation graphs, None if
            all diverged.
        checkpoints: the files from which the training would continue.
    """

    dataset: str
    architecture: Architecture
    protocol: Protocol
    runs: list[Run]
    seconds: float
    device: str
    stack: int
    best: Model | None
    checkpoints: list[Checkpoint] = field(default_factory=list, repr=False, compare=False)

    def __repr__(self) -> str:
        figure, a = self._figure, self.architecture
        if self.metric.name != "accuracy":
            figure = f"{self.metric.title} {figure}"
        network = f"{a.pool}, {a.backbone}, {a.conv}"
        return f"Result({self.dataset!r}, {network}, {count(len(self.runs), 'run')}, {figure})"

    def _repr_html_(self) -> str:
        a, metric = self.architecture, self.metric
        settings = changed(unnamed(flat(a, self.protocol))).values()
        facts = {
            f"test {metric.title}": self._figure,
            "network": ", ".join([a.pool, a.backbone, a.conv, *settings]),
            "graphs": f"{self.num_test} to test per run, split: {self.protocol.split}",
            "training": f"{count(len(self.runs), 'run')}, {self.seconds:.1f} s on {self.device}",
        }
        if not math.isnan(self.largest_class):
            facts["always the largest class"] = f"{self.largest_class:.2f} %"
        columns = ("run", "epochs", "chosen", f"validation {metric.title}", f"test {metric.title}")
        return card(f"Result on {self.dataset}", facts, columns, map(self._cells, self.runs))

    def _cells(self, run: Run) -> tuple[object, ...]:
        chosen, written = run.choices[run.metric], self.metric.written
        if run.lost:
            return run.number, run.epochs, "–", "–", "diverged"
        tested = run.test[run.metric][0]
        return run.number, run.epochs, chosen.epoch, written(chosen.value), written(tested)

    def figure(self, rule: str | None = None) -> str:
        """Mean ± standard deviation of the metric with its unit, as text; a dash if no run has it.

        A single run has no standard deviation.
        """
        known, metric = len(self.known(rule)), self.metric
        std = self.std(rule) if known > 1 else math.nan
        text = figure(self.mean(rule), std, metric.digits)
        return f"{text}{metric.unit}" if known else text

    @property
    def _figure(self) -> str:
        if not len(self.values()):
            return "all diverged"
        return self.figure() if len(self.known()) else "unknown"

    @property
    def model(self) -> Model:
        """The network of the run that is best on its validation graphs, ready to predict."""
        if self.best is None:
            raise ValueError(
                f"all {len(self.runs)} runs diverged: there is no figure, and no model. Try a "
                f"lower learning rate than {self.protocol.lr}, and look for huge features."
            )
        return self.best

    @property
    def num_test(self) -> int:
        """The number of test graphs per run; that of the first, where folds differ by a graph."""
        return self.runs[0].num_test

    @property
    def largest_class(self) -> float:
        """Test accuracy of always predicting the most frequent class, in percent.

        The mean over the runs that did not diverge at once; NaN if all did.
        """
        shares = [100 * run.largest_class for run in self.runs if not run.lost]
        return float(torch.tensor(shares, dtype=torch.float64).mean())

    @property
    def metric(self) -> Metric:
        """The metric that selected the epochs."""
        return METRICS[self.runs[0].metric]

    @property
    def rules(self) -> tuple[str, str]:
        """The names of the rules by which epochs were chosen, the metric's and "loss"."""
        return self.metric.name, LOSS

    def constant_runs(self, rule: str | None = None) -> list[int]:
        """Numbers of the runs whose network predicts the same class for all test graphs."""
        rule = rule or self.metric.name
        return [run.number for run in self.runs if not run.lost and run.constant.get(rule)]

    def values(self, rule: str | None = None, metric: str | None = None) -> Tensor:
        """A metric of the test graphs, of all runs that did not diverge at once.

        Accuracies, F1, ROC-AUC and average precision are in percent; NaN is what cannot be
        computed, such as ROC-AUC if all test graphs have one class.

        Args:
            rule: what chose the epochs: the metric that selected (the default), or "loss".
            metric: which metric; by default the one that selected.
        """
        rule, name = rule or self.metric.name, metric or self.metric.name
        counted = [run for run in self.runs if not run.lost]
        if name != self.metric.name and counted and name not in counted[0].measured[rule]:
            there = ", ".join(counted[0].measured[rule])
            raise ValueError(f"the runs have no {name}: choose one of {there}.")
        own = name == self.metric.name
        found = [run.test[rule][0] if own else run.measured[rule][name] for run in counted]
        return METRICS[name].factor * torch.tensor(found, dtype=torch.float64)

    def accuracies(self, rule: str | None = None) -> Tensor:
        """Test accuracies in percent, of all runs that did not diverge at once."""
        return self.values(rule, "accuracy")

    def known(self, rule: str | None = None, metric: str | None = None) -> Tensor:
        """:meth:`values` without those that cannot be computed."""
        values = self.values(rule, metric)
        return values[~values.isnan()]

    def mean(self, rule: str | None = None, metric: str | None = None) -> float:
        """Mean of :meth:`known`; NaN if there are none."""
        return float(self.known(rule, metric).mean())

    def std(self, rule: str | None = None, metric: str | None = None) -> float:
        """Standard deviation of :meth:`known` over runs (n − 1); 0 for a single run."""
        values = self.known(rule, metric)
        if not len(values):
            return math.nan
        return float(values.std(correction=min(1, len(values) - 1)))

    def remove_checkpoints(self) -> None:
        """Remove the checkpoints, once the model is saved or not needed."""
        for checkpoint in self.checkpoints:
            checkpoint.remove()

    def to_dict(self) -> dict[str, Any]:
        """Everything but the network, as plain values; accuracies and shares in percent."""
        return {
            "dataset": self.dataset,
            "settings": flat(self.architecture, self.protocol),
            "metric": self.metric.name,
            f"test_{self.metric.name}": {
                f"by_{rule}": {"mean": self.mean(rule), "std": self.std(rule)}
                for rule in self.rules
            },
            "num_test": self.num_test,
            "largest_class": self.largest_class,
            "runs": [run.to_dict() for run in self.runs],
            "seconds": self.seconds,
            "device": self.device,
            "stack": self.stack,
        }
