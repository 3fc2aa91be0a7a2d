"""What a training gives: the figures of each run, and the best network."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from lcpool.models import Architecture
from lcpool.settings import flat
from lcpool.train.checkpoint import Checkpoint
from lcpool.train.model import Model
from lcpool.train.protocol import RULES, EpochChoice, Protocol


@dataclass
class Run:
    """The figures of one run.

    Attributes:
        number: the run's number; with the protocol's seed it determines everything random.
        choices: the epoch chosen by each rule.
        curves: per epoch: training loss, validation loss, validation accuracy.
        diverged: the epoch in which a loss was not finite, or None.
        test: test accuracy and loss at the epoch chosen by each rule.
        num_test: the number of test graphs; 0 before the test.
        largest_class: the share of the most frequent class among the test graphs, as a fraction:
            the accuracy of a network that always predicts it. NaN before the test.
        constant: for each rule, whether its network predicts the same class for all test graphs.
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
        return self.diverged is not None and self.choices["accuracy"].epoch == 0

    def ended(self, protocol: Protocol) -> bool:
        """Whether there is nothing more to train."""
        if self.diverged is not None or self.epochs >= protocol.epochs:
            return True
        return self.epochs > 0 and all(
            choice.closed(self.epochs, protocol.patience) for choice in self.choices.values()
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, accuracies and shares in percent; None where a rule chose no epoch.

        ``by_accuracy`` and ``by_loss`` name the rule that chose the epoch.
        """
        chosen = {rule for rule, choice in self.choices.items() if choice.epoch}
        return {
            "number": self.number,
            "epochs": self.epochs,
            "diverged": self.diverged,
            "chosen": {
                f"by_{rule}": {"epoch": choice.epoch, **_percent(choice.accuracy, choice.loss)}
                if rule in chosen
                else None
                for rule, choice in self.choices.items()
            },
            "test": {
                f"by_{r}": _percent(*v) if r in chosen else None for r, v in self.test.items()
            },
            "num_test": self.num_test,
            "largest_class": None if math.isnan(self.largest_class) else 100 * self.largest_class,
            "constant": {f"by_{r}": v if r in chosen else None for r, v in self.constant.items()},
            "curves": {
                "training_loss": [row[0] for row in self.curves],
                "validation_loss": [row[1] for row in self.curves],
                "validation_accuracy": [100 * row[2] for row in self.curves],
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
        best: the network of the run with the best validation accuracy, None if all diverged.
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
        counted = len(self.accuracies())
        spread = f" ± {self.std():.2f}" if counted > 1 else ""
        figure = f"{self.mean():.2f}{spread} %" if counted else "all diverged"
        runs = "1 run" if len(self.runs) == 1 else f"{len(self.runs)} runs"
        a = self.architecture
        return f"Result({self.dataset!r}, {a.pool}, {a.backbone}, {a.conv}, {runs}, {figure})"

    @property
    def model(self) -> Model:
        """The network of the run with the best validation accuracy, ready to predict."""
        if self.best is None:
            raise ValueError(
                f"all {len(self.runs)} runs diverged: there is no accuracy, and no model. Try a "
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

    def constant_runs(self, rule: str = "accuracy") -> list[int]:
        """Numbers of the runs whose network predicts the same class for all test graphs."""
        return [run.number for run in self.runs if not run.lost and run.constant[rule]]

    def accuracies(self, rule: str = "accuracy") -> Tensor:
        """Test accuracies in percent, of all runs that did not diverge at once."""
        found = [100 * run.test[rule][0] for run in self.runs if not run.lost]
        return torch.tensor(found, dtype=torch.float64)

    def mean(self, rule: str = "accuracy") -> float:
        """Mean test accuracy in percent; NaN if all runs diverged."""
        return float(self.accuracies(rule).mean())

    def std(self, rule: str = "accuracy") -> float:
        """Standard deviation over runs, in percentage points (n − 1); 0 for a single run."""
        values = self.accuracies(rule)
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
            "test_accuracy": {
                f"by_{rule}": {"mean": self.mean(rule), "std": self.std(rule)} for rule in RULES
            },
            "num_test": self.num_test,
            "largest_class": self.largest_class,
            "runs": [run.to_dict() for run in self.runs],
            "seconds": self.seconds,
            "device": self.device,
            "stack": self.stack,
        }


def _percent(accuracy: float, loss: float) -> dict[str, float]:
    return {"accuracy": 100 * accuracy, "loss": loss}
