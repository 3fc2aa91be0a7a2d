"""How good predictions are: metrics of all runs of a stack at once, on their device.

They select the epoch of each run; what is reported in the end is scikit-learn's
(:mod:`lcpool.train.final`), and a test holds the two together. Every function takes ``outputs`` of
shape ``[runs, graphs, columns]`` and what is true, and returns a number per run, float64. What
cannot be said (ROC-AUC without a positive graph) is NaN. Missing labels and values (NaN) do not
count, and a mean over columns leaves out those of which nothing can be said, as OGB's evaluation
does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

Measure = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Metric:
    """A metric: what it is called, how it is written, and how it is computed for each task."""

    name: str
    title: str
    higher: bool  # whether higher is better
    percent: bool  # whether tables have it in percent
    measures: Mapping[str, Measure] = field(repr=False, compare=False)  # by the name of the task

    @property
    def factor(self) -> float:
        """From the value of :meth:`measures` to that of tables."""
        return 100.0 if self.percent else 1.0

    @property
    def unit(self) -> str:
        """What stands behind a value in tables."""
        return " %" if self.percent else ""

    @property
    def digits(self) -> int:
        """Decimals in tables."""
        return 2 if self.percent else 3

    def written(self, value: float, digits: int | None = None) -> str:
        """A value as text.

        >>> METRICS["accuracy"].written(0.75), METRICS["rmse"].written(0.75)
        ('75.00 %', '0.750')
        """
        digits = self.digits if digits is None else digits
        return f"{self.factor * value:.{digits}f}{self.unit}"

    def short(self, value: float) -> str:
        """A value for progress lines."""
        return self.written(value, 1 if self.percent else 4)


def mean_of_known(values: Tensor) -> Tensor:
    """The mean over columns, ``[runs, columns]`` → ``[runs]``, without those that are NaN."""
    return values.nanmean(1)


# --- one class per graph: outputs are scores of the classes, target their numbers, [runs, graphs]


def class_accuracy(outputs: Tensor, target: Tensor) -> Tensor:
    """The share of graphs whose class has the highest score."""
    return (outputs.argmax(-1) == target).double().sum(1) / target.size(1)


def confusion(outputs: Tensor, target: Tensor) -> Tensor:
    """How many graphs of class i were given class j, ``[runs, i, j]``."""
    k = outputs.size(-1)
    true, given = (F.one_hot(of, k).double() for of in (target, outputs.argmax(-1)))
    return true.transpose(1, 2) @ given


def class_balanced_accuracy(outputs: Tensor, target: Tensor) -> Tensor:
    """The mean over classes of the share of their graphs that were found."""
    counts = confusion(outputs, target)
    right, of_class = counts.diagonal(dim1=1, dim2=2), counts.sum(2)
    return mean_of_known(right / of_class)


def class_f1(outputs: Tensor, target: Tensor) -> Tensor:
    """The mean over classes of F1 = 2·TP / (2·TP + FP + FN); a class nobody has does not count."""
    counts = confusion(outputs, target)
    right = counts.diagonal(dim1=1, dim2=2)
    return mean_of_known(2 * right / (counts.sum(1) + counts.sum(2)))


def one_against_rest(outputs: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Scores and truth of each class against all others; of the second class alone, if two."""
    if outputs.size(-1) == 2:  # by the difference, which does not saturate as probabilities do
        return outputs.double().diff(dim=-1), target.double().unsqueeze(-1)
    return outputs.double().softmax(-1), F.one_hot(target, outputs.size(-1)).double()


def class_brier(outputs: Tensor, target: Tensor) -> Tensor:
    """The mean over graphs of Σ_c (p_c − y_c)²; with two classes, of (p_1 − y_1)²."""
    p, true = outputs.double().softmax(-1), F.one_hot(target, outputs.size(-1)).double()
    squares = (p - true).square()
    each = squares[..., 1] if outputs.size(-1) == 2 else squares.sum(-1)
    return each.mean(1)


# --- several labels per graph: outputs above 0 mean yes, target is 0, 1 or NaN, both
# [runs, graphs, labels]


def label_counts(outputs: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """True positives, false positives, false negatives, true negatives, ``[runs, labels]`` each."""
    yes, positive, negative = outputs > 0, target == 1, target == 0
    pairs = (yes & positive, yes & negative, ~yes & positive, ~yes & negative)
    tp, fp, fn, tn = (both.double().sum(1) for both in pairs)
    return tp, fp, fn, tn


def label_accuracy(outputs: Tensor, target: Tensor) -> Tensor:
    """The share of right answers, mean over labels."""
    tp, fp, fn, tn = label_counts(outputs, target)
    return mean_of_known((tp + tn) / (tp + fp + fn + tn))


def label_balanced_accuracy(outputs: Tensor, target: Tensor) -> Tensor:
    """The mean of the shares of positives and of negatives that were found, mean over labels."""
    tp, fp, fn, tn = label_counts(outputs, target)
    return mean_of_known(torch.stack([tp / (tp + fn), tn / (tn + fp)]).nanmean(0))


def label_f1(outputs: Tensor, target: Tensor) -> Tensor:
    """F1 of each label, mean over labels; 0 where nothing is positive."""
    tp, fp, fn, tn = label_counts(outputs, target)
    f1 = (2 * tp / (2 * tp + fp + fn)).nan_to_num(0.0)
    return mean_of_known(f1.where(tp + fp + fn + tn > 0, torch.nan))


def label_brier(outputs: Tensor, target: Tensor) -> Tensor:
    """The mean over graphs of (p − y)², mean over labels."""
    return mean_of_known((outputs.double().sigmoid() - target.double()).square().nanmean(1))


# --- ranks, for scores and truth (0, 1 or NaN) of shape [runs, graphs, columns]


def placed(scores: Tensor, truth: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """How many known graphs have lower, and lower or equal, scores; and who is positive, known.

    All of shape ``[runs, columns, graphs]``. Missing ones are sorted behind all others.
    """
    known = ~truth.isnan()
    keys = scores.double().where(known, torch.inf).transpose(1, 2).contiguous()
    ordered = keys.sort(-1)[0]
    lower = torch.searchsorted(ordered, keys)
    to_equal = torch.searchsorted(ordered, keys, right=True)
    return lower, to_equal, (truth == 1).transpose(1, 2), known.transpose(1, 2)


def roc_auc(scores: Tensor, truth: Tensor) -> Tensor:
    """The probability that a positive graph has a higher score than a negative one.

    By ranks r, equals sharing the mean of theirs: (Σ_positive r − P(P + 1)/2) / (P·N). Mean over
    columns.
    """
    lower, to_equal, positive, known = placed(scores, truth)
    rank = (lower + to_equal + 1).double() / 2
    P = positive.double().sum(-1)
    N = known.double().sum(-1) - P
    return mean_of_known(((rank * positive).sum(-1) - P * (P + 1) / 2) / (P * N))


def average_precision(scores: Tensor, truth: Tensor) -> Tensor:
    """The mean over positive graphs of the precision among graphs with at least their score.

    Mean over columns.
    """
    lower, _, positive, known = placed(scores, truth)
    lower_positive, *_ = placed(scores, truth.where(truth == 1, torch.nan))
    P, among = (of.double().sum(-1, keepdim=True) for of in (positive, known))
    precision = (P - lower_positive) / (among - lower)
    return mean_of_known(precision.where(positive, 0.0).sum(-1) / P.squeeze(-1))


# --- numbers per graph: outputs and target in their own units, NaN missing, [runs, graphs, values]


def value_errors(outputs: Tensor, target: Tensor) -> Tensor:
    """Predicted − true, NaN where that is missing."""
    return outputs.double() - target.double()


def mae(outputs: Tensor, target: Tensor) -> Tensor:
    """The mean absolute error, mean over values."""
    return mean_of_known(value_errors(outputs, target).abs().nanmean(1))


def rmse(outputs: Tensor, target: Tensor) -> Tensor:
    """The root of the mean squared error, mean over values."""
    return mean_of_known(value_errors(outputs, target).square().nanmean(1).sqrt())


def r2(outputs: Tensor, target: Tensor) -> Tensor:
    """1 − Σ(y − ŷ)² / Σ(y − ȳ)², mean over values; 0 or 1 for values that are all equal."""
    y = target.double()
    errors = value_errors(outputs, target).square().nansum(1)
    spread = (y - y.nanmean(1, keepdim=True)).square().nansum(1)
    flat = (errors == 0).double()
    found = torch.where(spread > 0, 1 - errors / spread, flat)
    return mean_of_known(found.where((~y.isnan()).sum(1) >= 2, torch.nan))


def _by_ranks(measure: Measure) -> dict[str, Measure]:
    return {
        "classes": lambda outputs, target: measure(*one_against_rest(outputs, target)),
        "labels": measure,
    }


METRICS = {
    metric.name: metric
    for metric in (
        Metric("accuracy", "accuracy", True, True,
               {"classes": class_accuracy, "labels": label_accuracy}),
        Metric("balanced_accuracy", "balanced accuracy", True, True,
               {"classes": class_balanced_accuracy, "labels": label_balanced_accuracy}),
        Metric("macro_f1", "macro F1", True, True, {"classes": class_f1, "labels": label_f1}),
        Metric("roc_auc", "ROC-AUC", True, True, _by_ranks(roc_auc)),
        Metric("average_precision", "average precision", True, True, _by_ranks(average_precision)),
        Metric("brier", "Brier score", False, False,
               {"classes": class_brier, "labels": label_brier}),
        Metric("mae", "MAE", False, False, {"values": mae}),
        Metric("rmse", "RMSE", False, False, {"values": rmse}),
        Metric("r2", "R²", True, False, {"values": r2}),
    )
}  # fmt: skip
