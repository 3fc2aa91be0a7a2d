"""Final values of the metrics, by scikit-learn: what is stored with a run, and what a model scores.

:mod:`lcpool.train.metrics` has the same metrics for all runs of a stack at once, on their device:
it selects epochs. A test holds the two together. Missing labels and values (NaN) do not count; a
mean over columns leaves out those of which nothing can be said, as OGB's evaluation does.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from importlib.util import find_spec

import numpy as np
from torch import Tensor

from lcpool.data.files import Array
from lcpool.extras import needs

# Metrics of the answers alone, whatever the scores.
DECIDED = ("accuracy", "balanced_accuracy", "macro_f1")


def final(metric: str, task: str, outputs: Tensor, target: Tensor) -> float:
    """A metric of one run; NaN if it cannot be said, as ROC-AUC if all graphs have one class.

    Args:
        metric: its name, one of :data:`~lcpool.train.metrics.METRICS`.
        task: the name of the task.
        outputs: as :meth:`Task.outputs <lcpool.train.tasks.Task.outputs>` gives them for one run,
            ``[graphs, columns]``.
        target: the class of each graph, ``[graphs]``; its labels or values, ``[graphs, columns]``.

    Example:
        >>> import torch
        >>> outputs, target = torch.tensor([[2.0, 0.0], [0.0, 1.0], [3.0, 1.0]]), [0, 1, 1]
        >>> final("roc_auc", "classes", outputs, torch.tensor(target))
        0.75
    """
    of = {"classes": _of_classes, "labels": _of_labels, "values": _of_values}[task]
    if metric not in DECIDED and not outputs.isfinite().all():  # which scikit-learn refuses
        return math.nan
    # It warns of what is undefined, which is NaN here or said by the caller.
    with needs("lab"), warnings.catch_warnings(action="ignore"):
        return of(metric, outputs.double().cpu(), target.cpu().numpy())


def check_installed() -> None:
    """Raise if there is no scikit-learn: before the training, not at its end."""
    with needs("lab"):
        if find_spec("sklearn") is None:
            raise ModuleNotFoundError(name="sklearn")


def _of_classes(metric: str, scores: Tensor, y: Array) -> float:
    from sklearn import metrics as sk

    given, k = scores.argmax(-1).numpy(), scores.size(-1)
    by_class: dict[str, Callable[[], float]] = {
        "accuracy": lambda: sk.accuracy_score(y, given),
        "balanced_accuracy": lambda: sk.balanced_accuracy_score(y, given),
        "macro_f1": lambda: sk.f1_score(y, given, average="macro"),
    }
    if metric in by_class:
        return float(by_class[metric]())
    if k == 2:  # by the difference, which does not saturate as probabilities do
        return _of_column(metric, scores.diff(dim=-1).squeeze(-1), y)
    p = scores.softmax(-1)
    if metric == "brier":
        return float(sk.brier_score_loss(y, p.numpy(), labels=range(k)))
    return _mean(_ranked(metric, p[:, c].numpy(), y == c) for c in range(k))


def _of_labels(metric: str, scores: Tensor, y: Array) -> float:
    known = ~np.isnan(y)
    columns = zip(scores.T, y.T, known.T, strict=True)
    return _mean(_of_column(metric, score[there], truth[there]) for score, truth, there in columns)


def _of_column(metric: str, scores: Tensor, y: Array) -> float:
    """Of one label, by the scores whose sigmoid is its probability; above 0 means yes."""
    from sklearn import metrics as sk

    if not len(y):
        return math.nan
    given = (scores > 0).numpy()
    by_answer: dict[str, Callable[[], float]] = {
        "accuracy": lambda: sk.accuracy_score(y, given),
        "balanced_accuracy": lambda: sk.balanced_accuracy_score(y, given),
        "macro_f1": lambda: sk.f1_score(y, given, zero_division=0.0),
    }
    if metric in by_answer:
        return float(by_answer[metric]())
    if metric == "brier":
        return float(sk.brier_score_loss(y, scores.sigmoid().numpy(), labels=[0, 1], pos_label=1))
    return _ranked(metric, scores.numpy(), y)


def _ranked(metric: str, scores: Array, y: Array) -> float:
    """ROC-AUC or average precision; not known without a positive, ROC-AUC without a negative."""
    from sklearn import metrics as sk

    measure = {"roc_auc": sk.roc_auc_score, "average_precision": sk.average_precision_score}[metric]
    lacking = not y.any() or (metric == "roc_auc" and y.all())
    return math.nan if lacking else float(measure(y, scores))


def _of_values(metric: str, given: Tensor, y: Array) -> float:
    from sklearn import metrics as sk

    measure = {
        "mae": sk.mean_absolute_error, "rmse": sk.root_mean_squared_error, "r2": sk.r2_score,
    }[metric]  # fmt: skip
    found = []
    for values, truth in zip(given.numpy().T, y.astype(np.float64).T, strict=True):
        known = ~np.isnan(truth)
        found.append(float(measure(truth[known], values[known])) if known.any() else math.nan)
    return _mean(found)


def _mean(values: Iterable[float]) -> float:
    """The mean of what can be said."""
    known = [value for value in values if not math.isnan(value)]
    return float(np.mean(known)) if known else math.nan
