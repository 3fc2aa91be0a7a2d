r"""What is predicted of a graph, and what follows: the loss, the metrics, the predictions.

- ``classes``: one of several classes. The network gives a score per class; the loss is the cross
  entropy.
- ``labels``: several labels, each 0, 1 or missing. A score per label; the loss is the binary cross
  entropy, mean over the labels that are known.
- ``values``: numbers, each known or missing. The network gives :math:`(y - \mu) / \sigma`, with the
  mean and the standard deviation of the run's training graphs; the loss is the squared error of
  that, mean over the values that are known.

Training, selection of epochs, results and predictions ask the :class:`Task` of a set of graphs, and
nothing else depends on it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from lcpool.data import GraphSet
from lcpool.data.checks import warn_once
from lcpool.train.final import final
from lcpool.train.metrics import METRICS, Metric

LOSS = "loss"  # the second rule, after the metric
PRECISION = 1e-5  # A smaller spread of values, as a share of their mean, is rounded in float32.


@dataclass(frozen=True)
class Task:
    """One kind of targets; :data:`TASKS` has all of them."""

    name: str
    default: str  # the metric that selects unless another is asked for

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics of such predictions."""
        return tuple(metric for metric in METRICS.values() if self.name in metric.measures)

    def metric(self, name: str = "auto") -> Metric:
        """The metric of a setting; an error that names those which fit, if it does not."""
        known = {metric.name: metric for metric in self.metrics}
        wanted = self.default if name == "auto" else name
        if wanted not in known:
            raise ValueError(
                f"'metric' cannot be {wanted} for {self.name}: choose one of {', '.join(known)}."
            )
        return known[wanted]

    def measure(self, metric: Metric, outputs: Tensor, target: Tensor) -> Tensor:
        """A metric of each run, ``[runs]``, from what :meth:`outputs` gives, on their device."""
        return metric.measures[self.name](outputs, target)

    def final(self, metric: Metric, outputs: Tensor, target: Tensor) -> float:
        """The same of one run, ``[graphs, columns]``, by scikit-learn: what is reported."""
        return final(metric.name, self.name, outputs, target)

    def check(self, graphs: GraphSet) -> None:
        """Refuse graphs from which nothing can be learnt."""
        known = ~graphs.y.isnan()
        if not known.any():
            raise ValueError(f"{graphs.name}: all {self.name} (y) are missing.")

    def scale(self, targets: Tensor, parts: Sequence[Tensor]) -> Tensor | None:
        """What the targets of each run are scaled by, from its training graphs; None for nothing.

        ``[runs, 2, columns]``: mean and standard deviation.
        """
        return None

    def losses(
        self, scores: Tensor, target: Tensor, scale: Tensor | None, runs: int
    ) -> tuple[Tensor, Tensor]:
        """The loss of every entry, 0 where the target is missing, and how many are known per run.

        ``[runs, entries]`` and ``[runs]``.
        """
        raise NotImplementedError

    def run_losses(self, scores: Tensor, target: Tensor, scale: Tensor | None, runs: int) -> Tensor:
        """The training loss of each run: the mean over what is known, 0 if nothing is."""
        losses, known = self.losses(scores, target, scale, runs)
        return losses.sum(1) / known.clamp(min=1)

    def outputs(self, scores: Tensor, scale: Tensor | None, runs: int) -> Tensor:
        """What is measured and kept, ``[runs, graphs, columns]``: the scores, or the values."""
        return scores.view(runs, -1, scores.size(-1))

    def largest_class(self, targets: Tensor) -> float:
        """The share of the most frequent class; NaN for other tasks."""
        return math.nan

    def constant(self, outputs: Tensor) -> list[bool] | None:
        """Whether each run gives all graphs the same class; None for other tasks."""
        return None

    def probabilities(self, outputs: Tensor) -> Tensor:
        """Probabilities from :meth:`outputs`, float32; an error for values, which have none."""
        return outputs.sigmoid()


class Classes(Task):
    """One class per graph."""

    def check(self, graphs: GraphSet) -> None:
        if graphs.num_classes < 2:
            if graphs.num_classes:
                raise ValueError(f"{graphs.name} has one class; training needs two.")
            raise ValueError(
                f"{graphs.name} has no labels; training needs them in each graph (data.y, or "
                f"graph.graph['label'] of networkx), or load_dataset(graphs, y=[…])."
            )

    def losses(
        self, scores: Tensor, target: Tensor, scale: Tensor | None, runs: int
    ) -> tuple[Tensor, Tensor]:
        losses = F.cross_entropy(scores, target, reduction="none").view(runs, -1)
        return losses, torch.full((runs,), losses.size(1), device=losses.device)

    def run_losses(self, scores: Tensor, target: Tensor, scale: Tensor | None, runs: int) -> Tensor:
        return F.cross_entropy(scores, target, reduction="none").view(runs, -1).mean(1)

    def largest_class(self, targets: Tensor) -> float:
        return int(targets.bincount().max()) / len(targets)

    def constant(self, outputs: Tensor) -> list[bool] | None:
        given = outputs.argmax(-1)
        same: list[bool] = (given == given[:, :1]).all(dim=1).tolist()
        return same

    def probabilities(self, outputs: Tensor) -> Tensor:
        return outputs.softmax(-1)


class Labels(Task):
    """Several labels per graph, of which some may be missing."""

    def losses(
        self, scores: Tensor, target: Tensor, scale: Tensor | None, runs: int
    ) -> tuple[Tensor, Tensor]:
        known = ~target.isnan()
        wanted = target.where(known, 0.0)
        losses = F.binary_cross_entropy_with_logits(scores, wanted, reduction="none")
        return losses.where(known, 0.0).view(runs, -1), known.view(runs, -1).sum(1)


class Values(Task):
    """One or several numbers per graph, of which some may be missing."""

    def check(self, graphs: GraphSet) -> None:
        super().check(graphs)
        y = graphs.y.double()
        mean = y.nanmean(0)
        spread = (y - mean).square().nanmean(0).sqrt()
        share = spread / mean.abs()
        names = graphs.target_names or range(len(mean))
        # A smaller one is that of a constant, rounded in float64.
        rounded = (share > 1e-13) & (share < PRECISION)
        for name, m, s, odd in zip(names, mean, spread, rounded, strict=True):
            if odd:
                warn_once(
                    f"{graphs.name}: value {name} is {m:g} ± {s:.2g}, of which float32 keeps "
                    f"little: subtract {m:g} before training."
                )

    def scale(self, targets: Tensor, parts: Sequence[Tensor]) -> Tensor | None:
        found = []
        for part in parts:
            y = targets[part.to(targets.device)].double()
            mean = y.nanmean(0).nan_to_num(0.0)
            std = (y - mean).square().nanmean(0).sqrt().nan_to_num(0.0)
            found.append(torch.stack([mean, std.where(std > 0, 1.0)]))
        return torch.stack(found).float()

    def losses(
        self, scores: Tensor, target: Tensor, scale: Tensor | None, runs: int
    ) -> tuple[Tensor, Tensor]:
        assert scale is not None
        mean, std = scale.unsqueeze(2).unbind(1)
        y = target.view(runs, -1, target.size(-1))
        known = ~y.isnan()
        errors = scores.view_as(y) - (y.where(known, 0.0) - mean) / std
        return errors.square().where(known, 0.0).flatten(1), known.flatten(1).sum(1)

    def outputs(self, scores: Tensor, scale: Tensor | None, runs: int) -> Tensor:
        assert scale is not None
        mean, std = scale.unsqueeze(2).unbind(1)
        return super().outputs(scores, scale, runs) * std + mean

    def probabilities(self, outputs: Tensor) -> Tensor:
        raise ValueError("the model predicts numbers, which have no probabilities: use predict.")


TASKS: dict[str, Task] = {
    "classes": Classes("classes", "accuracy"),
    "labels": Labels("labels", "roc_auc"),
    "values": Values("values", "rmse"),
}
