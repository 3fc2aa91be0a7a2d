"""Predictions of test graphs in the store and in an export."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import expit, softmax
from sklearn import metrics as sk
from targets import with_labels, with_values

from lcpool.data import builtin
from lcpool.sweep import predictions
from lcpool.sweep.compare import compare
from lcpool.sweep.predictions import KeptPredictions
from lcpool.sweep.results import Results, key

QUICK = {"runs": 2, "epochs": 2, "hidden": 8, "device": "cpu", "pools": ["nopool", "topkpool"]}
TWO = builtin(num_graphs=150)
THREE = replace(TWO, y=torch.arange(150) % 3, classes=(0, 1, 2))
DATASETS = {"A": TWO, "C": THREE, "L": with_labels(150, missing=0.1), "V": with_values(40)}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "runs.sqlite"
    compare(DATASETS, store=path, **QUICK)
    return Results.read(path)


def recomputed(name: str, one: KeptPredictions, outputs) -> dict[str, float]:
    """What scikit-learn says of the predictions, as the table has it."""
    if name in ("A", "C"):
        y, given, p = one.target[:, 0], outputs.argmax(1), softmax(outputs.astype(float), axis=1)
        scores, classes = (p, np.eye(3)[y.astype(int)]) if name == "C" else (p[:, 1], y)
        return {
            "accuracy": 100 * sk.accuracy_score(y, given),
            "balanced_accuracy": 100 * sk.balanced_accuracy_score(y, given),
            "macro_f1": 100 * sk.f1_score(y, given, average="macro"),
            "roc_auc": 100 * sk.roc_auc_score(y, scores, multi_class="ovr"),
            "average_precision": 100 * sk.average_precision_score(classes, scores),
            "brier": sk.brier_score_loss(y, scores, labels=sorted(set(y))),
        }
    if name == "V":
        return {
            "rmse": sk.root_mean_squared_error(one.target, outputs),
            "mae": sk.mean_absolute_error(one.target, outputs),
            "r2": sk.r2_score(one.target, outputs),
        }
    known = [
        (y[~np.isnan(y)], s[~np.isnan(y)].astype(float))
        for s, y in zip(outputs.T, one.target.T, strict=True)
    ]
    several = [(y, s) for y, s in known if len(set(y)) == 2]

    def mean(measure, pairs):
        return np.mean([measure(y, s) for y, s in pairs])

    return {
        "accuracy": 100 * mean(lambda y, s: sk.accuracy_score(y, s > 0), known),
        "balanced_accuracy": 100 * mean(lambda y, s: sk.balanced_accuracy_score(y, s > 0), known),
        "macro_f1": 100 * mean(lambda y, s: sk.f1_score(y, s > 0, zero_division=0.0), known),
        "roc_auc": 100 * mean(sk.roc_auc_score, several),
        "average_precision": 100 * mean(sk.average_precision_score, several),
        "brier": mean(lambda y, s: sk.brier_score_loss(y, expit(s), labels=[0, 1]), known),
    }


def test_every_metric_can_be_computed_from_the_predictions(stored, tmp_path):
    again = Results.read(stored.write(tmp_path))
    for results in (stored, again):
        assert len(results.predictions) == len(results.runs) == 16
        for row in results.runs.to_dict("records"):
            one = results.predictions[key(row)]
            graphs = DATASETS[row["dataset"]]
            truth = graphs.targets[one.graphs.astype(int)].numpy().reshape(len(one.graphs), -1)
            np.testing.assert_array_equal(one.target, truth)
            for ending, outputs in (("", one.outputs), ("_by_loss", one.outputs_by_loss)):
                for name, value in recomputed(row["dataset"], one, outputs).items():
                    assert row[f"test_{name}{ending}"] == pytest.approx(value, rel=1e-6), name


def test_runs_say_what_was_predicted_and_measured(stored):
    runs = stored.runs.set_index("dataset")
    assert runs["task"].groupby(level=0).first().to_dict() == {
        "A": "classes", "C": "classes", "L": "labels", "V": "values",
    }  # fmt: skip
    assert set(runs.loc["V", "metric"]) == {"rmse"}
    assert runs.loc["V", "test_accuracy"].isna().all()
    assert runs.loc["V", "test_r2"].notna().all()
    assert runs.loc["A", "test_roc_auc"].between(0, 100).all()
    assert runs.loc["A", "test_rmse"].isna().all()
    assert (runs.loc["A", "val_metric"] == runs.loc["A", "val_accuracy"]).all()


def test_some_runs_keep_their_predictions(stored):
    part = stored.where(dataset="L")
    assert set(part.predictions) == {key(row) for row in part.runs.to_dict("records")}


def test_predictions_keep_every_bit():
    random = np.random.default_rng(0)
    one = KeptPredictions(
        np.arange(5, dtype=np.uint32),
        np.full((5, 2), np.nan, np.float32),
        random.normal(size=(5, 3)).astype(np.float32),
        random.normal(size=(5, 3)).astype(np.float32),
    )
    for found in (
        predictions.unpack(predictions.pack(one)),
        predictions.from_arrays(predictions.to_arrays([None, one, None]))[1],
    ):
        for ours, theirs in zip(found, one, strict=True):
            np.testing.assert_array_equal(ours, theirs)
            assert ours.dtype == theirs.dtype
    assert predictions.from_arrays(predictions.to_arrays([None, one]))[0] is None


ODD = {
    "fewer": lambda array: array[:-1],
    "none": lambda array: array[:0],
    "one": lambda array: np.array(3),
    "more dimensions": lambda array: np.stack([array, array]),
    "words": lambda array: np.full(array.shape, "a"),
    "complex": lambda array: array * 1j,
}
ARRAYS = ("lengths", "losses", "accuracies", "test_shapes", "test_graphs", "test_outputs")
COUNTS = ("lengths", "test_shapes", "test_graphs")


@pytest.fixture(scope="module")
def exported(stored, tmp_path_factory):
    return stored.write(tmp_path_factory.mktemp("export") / "runs.csv")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        *((name, change) for name in ARRAYS for change in ODD.values()),
        *((name, lambda array: array + 0.5) for name in COUNTS),
        *((name, lambda array: -array.astype(int) - 1) for name in COUNTS[:2]),
    ],
)
def test_damaged_arrays_of_an_export_are_named(exported, name, change):
    path = exported.with_suffix(".npz")
    content = path.read_bytes()
    with np.load(path) as arrays:
        damaged = {**arrays, name: change(arrays[name])}
    try:
        np.savez(path, **damaged)
        with pytest.raises(ValueError, match=r"runs\.npz"):
            Results.read(exported)
    finally:
        path.write_bytes(content)


def test_a_metric_that_does_not_fit_is_refused_before_training():
    with pytest.raises(ValueError, match="V: 'metric' cannot be accuracy for values"):
        compare({"V": DATASETS["V"]}, metric="accuracy", **QUICK)
