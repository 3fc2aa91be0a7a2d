"""Classes, labels and values: losses, what is learnt, what is predicted, what is refused."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from targets import with_labels, with_values

from lcpool.data import DataWarning, GraphSet, builtin
from lcpool.models import Architecture
from lcpool.train import Model, Protocol, Trainer, train
from lcpool.train.metrics import METRICS
from lcpool.train.tasks import TASKS

NAN = math.nan
QUICK = {"runs": 2, "epochs": 2, "hidden": 8, "device": "cpu"}


def test_the_loss_of_labels_is_the_mean_over_known_ones_of_each_run():
    random = torch.Generator().manual_seed(0)
    scores = torch.randn(8, 3, generator=random, requires_grad=True)
    target = (torch.rand(8, 3, generator=random) < 0.5).float()
    target[0, 1] = target[6] = NAN
    losses = TASKS["labels"].run_losses(scores, target, None, 2)
    for run, part in enumerate((slice(0, 4), slice(4, 8))):
        known = ~target[part].isnan()
        expected = F.binary_cross_entropy_with_logits(scores[part][known], target[part][known])
        torch.testing.assert_close(losses[run], expected)
    losses.sum().backward()
    assert scores.grad[6].tolist() == [0, 0, 0]
    assert scores.grad.isfinite().all()


def test_the_loss_of_values_is_that_of_scaled_ones():
    random = torch.Generator().manual_seed(0)
    y = 100 + 7 * torch.randn(12, 2, generator=random)
    y[3, 0] = NAN
    parts = [torch.arange(0, 5), torch.arange(4, 9)]
    scale = TASKS["values"].scale(y, parts)
    scores = torch.randn(6, 2, generator=random)
    losses = TASKS["values"].run_losses(scores, y[[0, 1, 3, 4, 5, 6]], scale, 2)
    for run, part in enumerate(([0, 1, 3], [4, 5, 6])):
        seen = y[parts[run]].double()
        mean = torch.stack([c[~c.isnan()].mean() for c in seen.T])
        std = torch.stack([c[~c.isnan()].std(correction=0) for c in seen.T])
        errors = scores[3 * run : 3 * run + 3].double() - (y[part].double() - mean) / std
        torch.testing.assert_close(
            losses[run].double(), errors[~errors.isnan()].square().mean(), rtol=1e-5, atol=0
        )
        outputs = TASKS["values"].outputs(scores, scale, 2)[run]
        expected = scores[3 * run : 3 * run + 3].double() * std + mean
        torch.testing.assert_close(outputs.double(), expected, rtol=1e-5, atol=1e-4)


def test_values_that_float32_rounds_are_reported():
    graphs = with_values(40)
    far = replace(graphs, name="FAR", y=graphs.y * torch.tensor([100.0, 0.01]) + 1e6)
    with pytest.warns(DataWarning, match="FAR: value 1 ") as said:
        TASKS["values"].check(far)
    assert len(said) == 1
    for same in (0.0, 0.1):
        TASKS["values"].check(replace(graphs, y=torch.full_like(graphs.y, same)))


def test_values_that_do_not_vary_are_not_divided_by_zero():
    y = torch.tensor([[3.0, NAN], [3.0, NAN]])
    scale = TASKS["values"].scale(y, [torch.arange(2)])
    assert scale.tolist() == [[[3.0, 0.0], [1.0, 1.0]]]


def test_a_network_that_gives_nan_is_not_taken_for_a_missing_label():
    scores = torch.tensor([[NAN, 1.0], [1.0, 1.0]])
    target = torch.ones(2, 2)
    assert TASKS["labels"].run_losses(scores, target, None, 2)[0].isnan()
    scale = torch.tensor([[[0.0, 0.0], [1.0, 1.0]]] * 2)
    assert TASKS["values"].run_losses(scores, target, scale, 2)[0].isnan()


@pytest.mark.parametrize("graphs", [with_labels(120), with_values(120, missing=0.1)], ids=repr)
def test_runs_as_one_train_as_alone(graphs: GraphSet):
    architecture, protocol = Architecture(hidden=8), Protocol(epochs=3, lr=0.01)
    together = Trainer(graphs, architecture, protocol, range(3))
    alone = [Trainer(graphs, architecture, protocol, [n]) for n in range(3)]
    for trainer in (together, *alone):
        while not trainer.ended:
            trainer.train_epoch()
        trainer.test()
    for run, other in zip(together.runs, alone, strict=True):
        for ours, theirs in zip(run.curves, other.runs[0].curves, strict=True):
            assert ours == pytest.approx(theirs, rel=1e-4)
        for rule in together.rules:
            assert run.test[rule] == pytest.approx(other.runs[0].test[rule], rel=1e-4)


def test_values_are_learnt_in_their_own_units():
    graphs = with_values(200)
    result = train(graphs, "nopool", runs=2, epochs=60, hidden=16, lr=0.01, device="cpu")
    assert result.metric.name == "rmse"
    test = result.model.split.test
    spread = graphs.y[test].double().std(0).mean()
    assert result.mean() < 0.5 * spread
    assert result.mean(metric="r2") > 0.5
    given = result.model.predict(graphs.subset(test))
    assert given.shape == (20, 2)
    assert (given - graphs.y[test]).abs().mean() < spread
    assert result.model.score(graphs.subset(test)) == pytest.approx(
        result.runs[result.model.run].test["rmse"][0], rel=1e-4
    )
    with pytest.raises(ValueError, match="predict"):
        result.model.probabilities(graphs)
    with pytest.raises(ValueError, match="mae, rmse, r2"):
        result.accuracies()


def test_labels_are_learnt():
    graphs = with_labels(300)
    result = train(graphs, "nopool", runs=2, epochs=60, hidden=16, lr=0.01, device="cpu")
    assert result.metric.name == "roc_auc"
    assert result.mean() > 75
    probable = result.model.probabilities(graphs)
    assert probable.shape == (300, 3)
    assert torch.equal(result.model.predict(graphs), (probable > 0.5).long())
    best = result.runs[result.model.run]
    found = result.model.score(graphs.subset(result.model.split.test))
    assert found == pytest.approx(best.test["roc_auc"][0], rel=1e-6)


@pytest.mark.parametrize("name", [m for m in METRICS if m not in ("mae", "rmse", "r2")])
def test_every_metric_selects(name: str):
    result = train(builtin(num_graphs=60), "nopool", metric=name, **QUICK | {"epochs": 6})
    higher = METRICS[name].higher
    for run in result.runs:
        values = [row[2] for row in run.curves]
        chosen = run.choices[name]
        assert chosen.value == (max(values) if higher else min(values))
        assert values[chosen.epoch - 1] == chosen.value
        assert run.test[name][0] == run.measured[name][name]
        assert set(run.measured[name]) == {m.name for m in TASKS["classes"].metrics}
    best = (max if higher else min)(run.choices[name].value for run in result.runs)
    assert result.runs[result.model.run].choices[name].value == best


def test_predictions_give_the_accuracy_again():
    graphs = builtin(num_graphs=60)
    result = train(graphs, "nopool", **QUICK)
    for run in result.runs:
        for rule in result.rules:
            kept = run.predictions[rule]
            assert kept.outputs.dtype == "float32"
            right = kept.outputs.argmax(1) == graphs.targets[kept.graphs.astype(int)].numpy()
            assert (kept.target == graphs.targets[kept.graphs.astype(int)].numpy()).all()
            assert run.test[rule][0] == right.mean()


def test_words_are_predicted_as_words():
    graphs = builtin(num_graphs=60)
    named = replace(graphs, classes=("line", "ring"))
    result = train(named, "nopool", **QUICK)
    given = result.model.predict(named)
    assert set(given) <= {"line", "ring"}
    right = [
        named.classes[c] == word for c, word in zip(named.targets.tolist(), given, strict=True)
    ]
    assert result.model.score(named) == sum(right) / 60


@pytest.mark.parametrize("graphs", [with_labels(), with_values(values=1)], ids=repr)
def test_models_of_other_tasks_survive_a_file(tmp_path, graphs: GraphSet):
    model = train(graphs, "lcpool", **QUICK).model
    model.save(tmp_path / "model.pt")
    again = Model.load(tmp_path / "model.pt")
    assert repr(again) == repr(model)
    assert torch.equal(again.predict(graphs), model.predict(graphs))
    assert (again.run, again.metric, again.columns) == (model.run, model.metric, model.columns)
    assert all(map(torch.equal, again.split, model.split))


@pytest.mark.parametrize(
    ("graphs", "metric", "words"),
    [
        (with_values(), "accuracy", "mae, rmse, r2"),
        (with_labels(), "rmse", "accuracy, .*roc_auc"),
        (builtin(num_graphs=20), "r2", "accuracy, .*roc_auc"),
    ],
    ids=repr,
)
def test_a_metric_that_does_not_fit_is_refused(graphs, metric, words):
    with pytest.raises(ValueError, match=words):
        train(graphs, "nopool", metric=metric, **QUICK)


def test_targets_that_are_all_missing_are_refused():
    graphs = with_labels()
    with pytest.raises(ValueError, match="missing"):
        train(replace(graphs, y=torch.full_like(graphs.y, NAN)), "nopool", **QUICK)


def test_a_model_is_scored_on_targets_of_its_own_kind():
    model = train(with_values(), "nopool", **QUICK).model
    with pytest.raises(ValueError, match=r"values.*labels"):
        model.score(with_labels())
    with pytest.raises(ValueError, match=r"2 values.* 1"):
        model.score(with_values(values=1))
    with pytest.raises(ValueError, match="mae, rmse, r2"):
        model.score(with_values(), metric="accuracy")
