"""Metrics against scikit-learn, for several runs at once."""

import math
import warnings

import numpy as np
import pytest
import torch
from sklearn import metrics as sk
from sklearn.exceptions import UndefinedMetricWarning

from lcpool.settings import SETTINGS
from lcpool.train.metrics import METRICS

RUNS, N = 4, 60


def of_classes(k: int, seed: int, n: int = N):
    random = torch.Generator().manual_seed(seed)
    # Rounded, so that there are ties.
    outputs = (torch.randn(RUNS, n, k, generator=random) * 2).round() / 2
    return outputs, torch.randint(k, (RUNS, n), generator=random)


def of_columns(seed: int, missing: float, columns: int = 3, n: int = N):
    random = torch.Generator().manual_seed(seed)
    outputs = (torch.randn(RUNS, n, columns, generator=random) * 2).round() / 2
    target = (torch.rand(RUNS, n, columns, generator=random) < 0.3).float()
    target[torch.rand(RUNS, n, columns, generator=random) < missing] = math.nan
    return outputs, target


def binary(name: str, scores, y) -> float:
    """scikit-learn's value for one column of scores (logits) and labels."""
    p = 1 / (1 + np.exp(-scores))
    return {
        "accuracy": lambda: sk.accuracy_score(y, scores > 0),
        "balanced_accuracy": lambda: sk.balanced_accuracy_score(y, scores > 0),
        "macro_f1": lambda: sk.f1_score(y, scores > 0, zero_division=0.0),
        "roc_auc": lambda: sk.roc_auc_score(y, scores),
        "average_precision": lambda: sk.average_precision_score(y, scores),
        "brier": lambda: sk.brier_score_loss(y, p),
    }[name]()


OF_CLASSES = [name for name, metric in METRICS.items() if "classes" in metric.measures]


def several(name: str, p, y) -> float:
    """scikit-learn's value for the probabilities of several classes."""
    given, k = p.argmax(1), p.shape[1]
    return {
        "accuracy": lambda: sk.accuracy_score(y, given),
        "balanced_accuracy": lambda: sk.balanced_accuracy_score(y, given),
        "macro_f1": lambda: sk.f1_score(y, given, average="macro"),
        "roc_auc": lambda: sk.roc_auc_score(y, p, multi_class="ovr"),
        "average_precision": lambda: sk.average_precision_score(np.eye(k)[y], p),
        "brier": lambda: sk.brier_score_loss(y, p, labels=range(k)),
    }[name]()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", OF_CLASSES)
def test_two_classes(name: str, seed: int):
    outputs, target = of_classes(2, seed)
    found = METRICS[name].measures["classes"](outputs, target)
    assert found.shape == (RUNS,)
    assert found.dtype == torch.float64
    for value, scores, y in zip(found.tolist(), outputs.double(), target.numpy(), strict=True):
        if name in ("accuracy", "balanced_accuracy", "macro_f1"):
            expected = several(name, scores.softmax(-1).numpy(), y)
        else:
            expected = binary(name, scores.diff(dim=-1).squeeze(-1).numpy(), y)
        assert value == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("k", [3, 6])
@pytest.mark.parametrize("name", OF_CLASSES)
def test_several_classes(name: str, k: int):
    outputs, target = of_classes(k, seed=k)
    found = METRICS[name].measures["classes"](outputs, target)
    p = outputs.double().softmax(-1).numpy()
    for value, each, y in zip(found.tolist(), p, target.numpy(), strict=True):
        assert value == pytest.approx(several(name, each, y), abs=1e-12)


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("name", OF_CLASSES)
def test_labels_leave_out_what_is_missing(name: str, missing: float):
    outputs, target = of_columns(1, missing)
    found = METRICS[name].measures["labels"](outputs, target)
    for value, scores, y in zip(
        found.tolist(), outputs.double().numpy(), target.numpy(), strict=True
    ):
        each = []
        for column in range(y.shape[1]):
            known = ~np.isnan(y[:, column])
            each.append(binary(name, scores[known, column], y[known, column]))
        assert value == pytest.approx(np.mean(each), abs=1e-12)


@pytest.mark.parametrize("name", ["mae", "rmse", "r2"])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_values(name: str, missing: float):
    random = torch.Generator().manual_seed(3)
    outputs = 100 + torch.randn(RUNS, N, 2, generator=random)
    target = 100 + torch.randn(RUNS, N, 2, generator=random)
    target[torch.rand(RUNS, N, 2, generator=random) < missing] = math.nan
    found = METRICS[name].measures["values"](outputs, target)
    theirs = {
        "mae": sk.mean_absolute_error, "rmse": sk.root_mean_squared_error, "r2": sk.r2_score,
    }[name]  # fmt: skip
    for run in range(RUNS):
        each = []
        for column in range(2):
            y, p = target[run, :, column].double(), outputs[run, :, column].double()
            known = ~y.isnan()
            each.append(theirs(y[known].numpy(), p[known].numpy()))
        assert float(found[run]) == pytest.approx(np.mean(each), rel=1e-12)


def test_values_that_do_not_vary_have_the_r2_of_scikit_learn():
    y, far = torch.full((1, 5, 1), 2.0), torch.full((1, 5, 1), 3.0)
    for given in (y, far):
        expected = sk.r2_score(y.flatten().numpy(), given.flatten().numpy())
        assert float(METRICS["r2"].measures["values"](given, y)) == expected


@pytest.mark.parametrize("name", ["roc_auc", "average_precision"])
def test_what_cannot_be_said_is_nan_and_does_not_count_in_a_mean(name: str):
    measure = METRICS[name].measures["labels"]
    outputs, target = of_columns(2, 0.0, columns=2)
    target[..., 1] = 0.0
    alone = measure(outputs[..., :1], target[..., :1])
    torch.testing.assert_close(measure(outputs, target), alone)
    with warnings.catch_warnings(action="ignore", category=UndefinedMetricWarning):
        assert measure(outputs[..., 1:], target[..., 1:]).isnan().all()


def test_a_class_that_no_validation_graph_has_does_not_count():
    outputs, target = of_classes(3, 0)
    target = target.clamp(max=1)
    found = METRICS["balanced_accuracy"].measures["classes"](outputs, target)
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        expected = [
            sk.balanced_accuracy_score(y.numpy(), o.argmax(-1).numpy())
            for o, y in zip(outputs, target, strict=True)
        ]
    assert found.tolist() == pytest.approx(expected)


def test_the_setting_has_every_metric():
    assert SETTINGS["metric"].choices == ("auto", *METRICS)
