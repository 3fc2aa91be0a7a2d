"""Every metric against scikit-learn, for several runs at once: random and degenerate inputs."""

import math
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from sklearn import metrics as sk

from lcpool.settings import SETTINGS
from lcpool.train.metrics import METRICS

RUNS, N = 4, 60
NAN = math.nan
OF_CLASSES = [name for name, metric in METRICS.items() if "classes" in metric.measures]
OF_VALUES = [name for name, metric in METRICS.items() if "values" in metric.measures]


@pytest.fixture(autouse=True)
def quiet():
    """scikit-learn warns of what it cannot compute, and then says NaN or 0."""
    with warnings.catch_warnings(action="ignore"):
        yield


# --- what is predicted and what is true: every function changes both in place

Change = Callable[[torch.Tensor, torch.Tensor], None]


def as_they_are(outputs, target):
    pass


def ties(outputs, target):
    outputs.copy_(outputs.round())


def constant(outputs, target):
    outputs.copy_(outputs[:, :1].expand_as(outputs).clone())


def saturated(outputs, target):
    outputs.mul_(60)


def first_class_missing(outputs, target):
    target[target == 0] = 1


def one_class(outputs, target):
    target[~target.isnan()] = 1


def none_positive(outputs, target):
    target[~target.isnan()] = 0


def one_graph_known(outputs, target):
    target[:, 1:] = NAN


def first_column_unknown(outputs, target):
    target[..., 0] = NAN


def far_from_zero(outputs, target):
    outputs.add_(1e4)
    target.add_(1e4)


def perfect(outputs, target):
    outputs.copy_(target.nan_to_num(0.0))


def targets_do_not_vary(outputs, target):
    target[~target.isnan()] = 0.1


def perfect_and_do_not_vary(outputs, target):
    targets_do_not_vary(outputs, target)
    perfect(outputs, target)


def of_classes(k: int, change: Change):
    random = torch.Generator().manual_seed(k)
    outputs = 2 * torch.randn(RUNS, N, k, generator=random)
    target = torch.randint(k, (RUNS, N), generator=random)
    change(outputs, target)
    return outputs, target


def of_labels(columns: int, missing: float, change: Change):
    random = torch.Generator().manual_seed(columns)
    outputs = 2 * torch.randn(RUNS, N, columns, generator=random)
    target = (torch.rand(RUNS, N, columns, generator=random) < 0.3).float()
    target[torch.rand(RUNS, N, columns, generator=random) < missing] = NAN
    change(outputs, target)
    return outputs, target


def of_values(columns: int, missing: float, change: Change):
    random = torch.Generator().manual_seed(columns)
    outputs, target = 3 * torch.randn(2, RUNS, N, columns, generator=random)
    target[torch.rand(RUNS, N, columns, generator=random) < missing] = NAN
    change(outputs, target)
    return outputs, target


# --- what scikit-learn says of one run


def mean(values) -> float:
    """The mean of what can be computed."""
    known = [value for value in values if not math.isnan(value)]
    return float(np.mean(known)) if known else NAN


def binary(name: str, scores, y) -> float:
    """Of one column of scores (logits), and labels of 0 and 1."""
    if not len(y):
        return NAN
    p = 1 / (1 + np.exp(-scores))
    return {
        "accuracy": lambda: sk.accuracy_score(y, scores > 0),
        "balanced_accuracy": lambda: sk.balanced_accuracy_score(y, scores > 0),
        "macro_f1": lambda: sk.f1_score(y, scores > 0, zero_division=0.0),
        "roc_auc": lambda: sk.roc_auc_score(y, scores) if 0 < y.sum() < len(y) else NAN,
        # scikit-learn says 0 where nothing is positive; here it does not count, as with OGB.
        "average_precision": lambda: sk.average_precision_score(y, scores) if y.any() else NAN,
        "brier": lambda: sk.brier_score_loss(y, p, labels=[0, 1], pos_label=1),
    }[name]()


def several(name: str, scores, y) -> float:
    """Of the scores of several classes."""
    p, k = scores.softmax(-1).numpy(), scores.size(-1)
    given = scores.numpy().argmax(1)
    if k == 2 and name in ("roc_auc", "average_precision", "brier"):
        return binary(name, scores.diff(dim=-1).squeeze(-1).numpy(), y)
    return {
        "accuracy": lambda: sk.accuracy_score(y, given),
        "balanced_accuracy": lambda: sk.balanced_accuracy_score(y, given),
        "macro_f1": lambda: sk.f1_score(y, given, average="macro"),
        "roc_auc": lambda: mean(binary(name, p[:, c], y == c) for c in range(k)),
        "average_precision": lambda: mean(binary(name, p[:, c], y == c) for c in range(k)),
        "brier": lambda: sk.brier_score_loss(y, p, labels=range(k)),
    }[name]()


THEIRS = {
    "mae": sk.mean_absolute_error, "rmse": sk.root_mean_squared_error, "r2": sk.r2_score,
}  # fmt: skip


def by_column(measure: Callable, outputs, target) -> float:
    """The mean over columns of a function of what is known in each."""
    each = []
    for scores, y in zip(outputs.numpy().T, target.double().numpy().T, strict=True):
        known = ~np.isnan(y)
        each.append(measure(scores[known], y[known]))
    return mean(each)


def same(name: str, task: str, outputs, target, expected: Callable) -> None:
    found = METRICS[name].measures[task](outputs, target)
    assert found.shape == (RUNS,)
    assert found.dtype == torch.float64
    for value, one, y in zip(found.tolist(), outputs.double(), target, strict=True):
        assert value == pytest.approx(expected(one, y), rel=1e-12, abs=1e-12, nan_ok=True)


# --- all metrics, all inputs


@pytest.mark.parametrize(
    "change", [as_they_are, ties, constant, saturated, first_class_missing, one_class]
)
@pytest.mark.parametrize("k", [2, 3, 6])
@pytest.mark.parametrize("name", OF_CLASSES)
def test_classes(name: str, k: int, change: Change):
    outputs, target = of_classes(k, change)
    same(name, "classes", outputs, target, lambda scores, y: several(name, scores, y.numpy()))


@pytest.mark.parametrize("k", [3, 6])
def test_several_classes_are_one_against_the_rest_as_in_scikit_learn(k: int):
    """Where every class occurs, scikit-learn has functions for several classes, too."""
    outputs, target = of_classes(k, ties)
    for name, theirs in {
        "roc_auc": lambda y, p: sk.roc_auc_score(y, p, multi_class="ovr"),
        "average_precision": lambda y, p: sk.average_precision_score(np.eye(k)[y], p),
    }.items():
        same(name, "classes", outputs, target,
             lambda scores, y, of=theirs: of(y.numpy(), scores.softmax(-1).numpy()))  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [as_they_are, ties, constant, saturated, one_class, none_positive, one_graph_known,
     first_column_unknown],
)  # fmt: skip
@pytest.mark.parametrize(("columns", "missing"), [(1, 0.0), (3, 0.0), (3, 0.3)])
@pytest.mark.parametrize("name", OF_CLASSES)
def test_labels(name: str, columns: int, missing: float, change: Change):
    outputs, target = of_labels(columns, missing, change)

    def expected(scores, y):
        return by_column(lambda s, known: binary(name, s, known), scores, y)

    same(name, "labels", outputs, target, expected)


@pytest.mark.parametrize(
    "change",
    [as_they_are, constant, far_from_zero, perfect, targets_do_not_vary, perfect_and_do_not_vary,
     one_graph_known, first_column_unknown],
)  # fmt: skip
@pytest.mark.parametrize(("columns", "missing"), [(1, 0.0), (3, 0.0), (3, 0.3)])
@pytest.mark.parametrize("name", OF_VALUES)
def test_values(name: str, columns: int, missing: float, change: Change):
    outputs, target = of_values(columns, missing, change)

    def one_column(given, y):
        return THEIRS[name](y, given) if len(y) else NAN

    def expected(given, y):
        return by_column(one_column, given, y)

    same(name, "values", outputs, target, expected)


@pytest.mark.parametrize("name", OF_VALUES)
def test_several_values_are_the_mean_over_them_as_in_scikit_learn(name: str):
    outputs, target = of_values(3, 0.0, far_from_zero)
    same(name, "values", outputs, target,
         lambda given, y: THEIRS[name](y.double().numpy(), given.numpy()))  # fmt: skip


@pytest.mark.parametrize("name", ["roc_auc", "average_precision"])
def test_what_cannot_be_said_does_not_count_in_a_mean(name: str):
    measure = METRICS[name].measures["labels"]
    outputs, target = of_labels(2, 0.0, as_they_are)
    target[..., 1] = 0.0
    alone = measure(outputs[..., :1], target[..., :1])
    torch.testing.assert_close(measure(outputs, target), alone)
    assert measure(outputs[..., 1:], target[..., 1:]).isnan().all()


def test_the_setting_has_every_metric():
    assert SETTINGS["metric"].choices == ("auto", *METRICS)
