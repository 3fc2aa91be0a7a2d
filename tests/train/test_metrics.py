"""Every metric against scikit-learn, for several runs at once: random and degenerate inputs."""

import math
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from sklearn import metrics as sk

from lcpool.settings import SETTINGS
from lcpool.train.final import final
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


# --- the formulas that select are what scikit-learn computes in the end


def same(name: str, task: str, outputs, target) -> None:
    found = METRICS[name].measures[task](outputs, target)
    assert found.shape == (RUNS,)
    assert found.dtype == torch.float64
    for value, one, y in zip(found.tolist(), outputs, target, strict=True):
        expected = final(name, task, one, y)
        assert value == pytest.approx(expected, rel=1e-12, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize(
    "change", [as_they_are, ties, constant, saturated, first_class_missing, one_class]
)
@pytest.mark.parametrize("k", [2, 3, 6])
@pytest.mark.parametrize("name", OF_CLASSES)
def test_classes(name: str, k: int, change: Change):
    same(name, "classes", *of_classes(k, change))


@pytest.mark.parametrize(
    "change",
    [as_they_are, ties, constant, saturated, one_class, none_positive, one_graph_known,
     first_column_unknown],
)  # fmt: skip
@pytest.mark.parametrize(("columns", "missing"), [(1, 0.0), (3, 0.0), (3, 0.3)])
@pytest.mark.parametrize("name", OF_CLASSES)
def test_labels(name: str, columns: int, missing: float, change: Change):
    same(name, "labels", *of_labels(columns, missing, change))


@pytest.mark.parametrize(
    "change",
    [as_they_are, constant, far_from_zero, perfect, targets_do_not_vary, perfect_and_do_not_vary,
     one_graph_known, first_column_unknown],
)  # fmt: skip
@pytest.mark.parametrize(("columns", "missing"), [(1, 0.0), (3, 0.0), (3, 0.3)])
@pytest.mark.parametrize("name", OF_VALUES)
def test_values(name: str, columns: int, missing: float, change: Change):
    same(name, "values", *of_values(columns, missing, change))


# --- the final values are scikit-learn's: the call that its user would write

DECIDED = {
    "accuracy": sk.accuracy_score,
    "balanced_accuracy": sk.balanced_accuracy_score,
    "macro_f1": partial(sk.f1_score, average="macro"),
}
OF_TWO = {
    "roc_auc": sk.roc_auc_score,
    "average_precision": sk.average_precision_score,
    "brier": sk.brier_score_loss,
}
OF_SEVERAL = {
    "roc_auc": partial(sk.roc_auc_score, multi_class="ovr"),
    "average_precision": lambda y, p: sk.average_precision_score(np.eye(p.shape[1])[y], p),
    "brier": sk.brier_score_loss,
}
OF_NUMBERS = {
    "mae": sk.mean_absolute_error, "rmse": sk.root_mean_squared_error, "r2": sk.r2_score,
}  # fmt: skip


@pytest.mark.parametrize("k", [2, 3, 6])
@pytest.mark.parametrize("name", OF_CLASSES)
def test_final_values_of_classes_are_scikit_learns(name: str, k: int):
    outputs, target = of_classes(k, ties)
    scores, y = outputs[0].double(), target[0].numpy()
    p = scores.softmax(-1).numpy()
    if name in DECIDED:
        expected = DECIDED[name](y, scores.argmax(-1).numpy())
    else:
        expected = OF_TWO[name](y, p[:, 1]) if k == 2 else OF_SEVERAL[name](y, p)
    assert final(name, "classes", outputs[0], target[0]) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", OF_CLASSES)
def test_final_values_of_labels_are_the_mean_over_what_is_known(name: str):
    outputs, target = of_labels(3, 0.3, as_they_are)
    each = []
    for scores, y in zip(outputs[0].double().T, target[0].T, strict=True):
        scores, y = scores[~y.isnan()].numpy(), y[~y.isnan()].numpy()
        decided = {**DECIDED, "macro_f1": sk.f1_score}
        p = 1 / (1 + np.exp(-scores))
        each.append(decided[name](y, scores > 0) if name in decided else OF_TWO[name](y, p))
    expected = np.mean(each)
    assert final(name, "labels", outputs[0], target[0]) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", OF_VALUES)
def test_final_values_of_numbers_are_scikit_learns(name: str):
    outputs, target = of_values(3, 0.0, far_from_zero)
    expected = OF_NUMBERS[name](target[0].double().numpy(), outputs[0].double().numpy())
    assert final(name, "values", outputs[0], target[0]) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", METRICS)
def test_scores_that_are_no_numbers_give_no_final_value(name: str):
    """scikit-learn refuses them; only what is answered counts for accuracy."""
    make = {"classes": of_classes(2, as_they_are), "values": of_values(1, 0.0, as_they_are)}
    task = "classes" if name in OF_CLASSES else "values"
    outputs, target = make[task]
    outputs[0, 3] = NAN
    assert math.isnan(final(name, task, outputs[0], target[0])) == (name not in DECIDED)


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
