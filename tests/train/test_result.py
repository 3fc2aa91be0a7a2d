"""What a training gives: figures in percent, and a network that predicts, saves and loads."""

import json
import pickle
import statistics

import pytest
import torch
from torch_geometric.data import Data

from lcpool.data import GraphSet, builtin
from lcpool.models import Architecture, Backbone
from lcpool.train import Model, Protocol, Result, Run, train

GRAPHS = builtin(num_graphs=40)
QUICK = {"runs": 2, "epochs": 2, "hidden": 8, "device": "cpu"}


def result_of(*tests, diverged=()):
    """A result whose runs have these test accuracies, (by accuracy, by loss)."""
    runs = [
        Run(n, test={"accuracy": (a, 0.5), "loss": (b, 0.5)}, diverged=3 if n in diverged else None)
        for n, (a, b) in enumerate(tests)
    ]
    architecture = Architecture(pool="nopool", hidden=8)
    return Result("toy", architecture, Protocol(), runs, 1.5, "CPU", len(runs), model=None)


def ring(label, colour, num_nodes=5):
    """A ring whose nodes all have a colour and the same degree."""
    nodes = torch.arange(num_nodes)
    edges = torch.stack([nodes, nodes.roll(1)])
    x = torch.full((num_nodes, 2), float(colour))
    return Data(x=x, edge_index=torch.cat([edges, edges.flip(0)], dim=1), y=label)


def rings(labels=(-1, 1), number=40):
    """Rings of two kinds that are easily told apart."""
    return [ring(labels[n % 2], 2 * (n % 2) - 1, 3 + n % 4) for n in range(number)]


@pytest.fixture(scope="module")
def model():
    """A network that tells rings apart."""
    return train(rings(), "nopool", runs=1, epochs=15, lr=0.03, hidden=8, device="cpu").model


def untrained(pool="nopool", graphs=GRAPHS, **options):
    torch.manual_seed(0)
    network = Backbone.of(graphs, Architecture(pool=pool, hidden=8, **options))
    return Model(network, graphs.classes, float(graphs.node_counts.double().mean()), graphs.name)


# --- figures


def test_figures_are_percent_with_the_deviation_of_a_sample():
    result = result_of((0.5, 0.1), (0.75, 0.3), (0.85, 0.5))
    assert result.accuracies().tolist() == pytest.approx([50.0, 75.0, 85.0])
    assert result.mean() == pytest.approx(70.0)
    assert result.std() == pytest.approx(statistics.stdev([50.0, 75.0, 85.0]))
    assert result.accuracies("loss").tolist() == pytest.approx([10.0, 30.0, 50.0])
    assert result.mean("loss") == pytest.approx(30.0)
    assert result.std("loss") == pytest.approx(20.0)


def test_a_single_run_has_no_deviation():
    assert result_of((0.5, 0.5)).std() == 0.0


def test_diverged_runs_do_not_count():
    result = result_of((0.5, 0.5), (0.0, 0.0), (0.7, 0.7), diverged=[1])
    assert result.accuracies().tolist() == pytest.approx([50.0, 70.0])
    assert result.mean() == pytest.approx(60.0)
    assert result.std("loss") == pytest.approx(statistics.stdev([50.0, 70.0]))


def test_a_result_survives_json():
    result = result_of((0.5, 0.1), (0.7, 0.3))
    values = json.loads(json.dumps(result.to_dict(), allow_nan=True))
    assert values["mean"] == {"accuracy": result.mean(), "loss": result.mean("loss")}
    assert values["std"] == {"accuracy": result.std(), "loss": result.std("loss")}
    assert [run["test"]["loss"][0] for run in values["runs"]] == [0.1, 0.3]
    assert Architecture.from_dict(values["architecture"]) == result.architecture
    assert Protocol(**values["protocol"]) == result.protocol
    assert (values["dataset"], values["device"], values["stack"]) == ("toy", "CPU", 2)


def test_reported_figures_are_the_test_figures_of_the_runs():
    result = train(GRAPHS, "nopool", **QUICK)
    for rule in ("accuracy", "loss"):
        expected = [100 * run.test[rule][0] for run in result.runs]
        assert result.accuracies(rule).tolist() == expected


# --- predictions


@pytest.mark.parametrize("labels", [(-1, 1), (1, -1), (7, 3), (0, 1)])
def test_predictions_are_labels_of_the_data(labels):
    graphs = rings(labels)
    trained = train(graphs, "nopool", runs=1, epochs=15, lr=0.03, hidden=8, device="cpu").model
    assert trained.classes == tuple(sorted(labels))
    assert trained.predict(graphs).tolist() == [graph.y for graph in graphs]


def test_graphs_are_predicted_as_they_come(model):
    graphs = rings()
    expected = model.probabilities(GraphSet.from_graphs(graphs))
    assert torch.equal(model.probabilities(graphs), expected)
    assert torch.equal(model.probabilities(iter(graphs)), expected)
    backwards = model.probabilities(graphs[::-1])
    torch.testing.assert_close(backwards.flip(0), expected)
    alone = torch.cat([model.probabilities([graph]) for graph in graphs[:3]])
    torch.testing.assert_close(alone, expected[:3])
    assert model.predict(graphs[0]).tolist() == [-1]
    unlabelled = [Data(x=graph.x, edge_index=graph.edge_index) for graph in graphs[:4]]
    assert model.predict(unlabelled).tolist() == [-1, 1, -1, 1]


def test_probabilities_of_more_graphs_than_a_batch(model, monkeypatch):
    expected = model.probabilities(rings())
    assert expected.shape == (40, 2)
    torch.testing.assert_close(expected.sum(-1), torch.ones(40))
    monkeypatch.setattr("lcpool.train.result.EVAL_BATCH", 7)
    torch.testing.assert_close(model.probabilities(rings()), expected)


def test_prediction_does_not_train(model):
    before = {name: value.clone() for name, value in model.network.state_dict().items()}
    expected = model.probabilities(rings())
    model.network.train()  # as after somebody's fine-tuning
    assert torch.equal(model.probabilities(rings()), expected)
    assert not expected.requires_grad
    for name, value in model.network.state_dict().items():
        assert torch.equal(value, before[name])


def test_graphs_of_another_width_are_refused(model):
    with pytest.raises(ValueError, match=r"trained on 2 features a node \(graphs\).* have 6"):
        model.predict(GRAPHS)


@pytest.mark.xfail(
    strict=True, reason="degrees are as many features as the largest of these graphs"
)
def test_graphs_without_features_are_predicted_one_by_one():
    star = Data(edge_index=torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]]), num_nodes=4, y=0)
    path = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3, y=1)
    graphs = [star, path] * 10
    trained = train(graphs, "nopool", runs=1, epochs=1, hidden=8, device="cpu").model
    assert len(trained.predict(graphs)) == 20
    assert len(trained.predict([path])) == 1


# --- files


@pytest.mark.parametrize(
    ("pool", "options"),
    [
        ("nopool", {}),
        ("lcpool", {"backbone": "plain", "conv": "graphconv", "poolings": 2}),
        ("lcpool*", {"norm": "layer"}),
        ("diffpool", {}),  # its shape depends on the mean number of nodes
        ("torch_geometric.nn:TopKPooling", {}),
    ],
)
def test_a_saved_model_is_the_same_model(pool, options, tmp_path):
    path = tmp_path / "model.pt"
    model = untrained(pool, **options)
    model.save(path)
    loaded = Model.load(str(path))
    assert (loaded.classes, loaded.dataset, loaded.mean_nodes) == (
        model.classes,
        model.dataset,
        model.mean_nodes,
    )
    assert loaded.network.architecture == model.network.architecture
    assert torch.equal(loaded.probabilities(GRAPHS), model.probabilities(GRAPHS))


def test_a_trained_model_comes_back_with_its_labels_and_statistics(model, tmp_path):
    model.save(tmp_path / "model.pt")
    loaded = Model.load(tmp_path / "model.pt")
    assert loaded.predict(rings()).tolist() == [graph.y for graph in rings()]
    assert torch.equal(loaded.probabilities(rings()), model.probabilities(rings()))


def test_a_saved_model_holds_nothing_but_weights_and_plain_values(tmp_path):
    untrained().save(tmp_path / "model.pt")
    values = torch.load(tmp_path / "model.pt", weights_only=True)
    weights = values.pop("state")
    assert all(isinstance(value, torch.Tensor) for value in weights.values())
    assert json.loads(json.dumps(values)) == values


def test_a_save_that_fails_leaves_the_model_before(tmp_path, monkeypatch):
    path = tmp_path / "model.pt"
    untrained().save(path)
    before = path.read_bytes()

    def full(values, file):
        file.write(b"half")
        raise OSError("no space left")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(OSError, match="no space left"):
        untrained().save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


NOT_CAUGHT = pytest.mark.xfail(strict=True, reason="torch's own errors come through")


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda path: torch.save([1, 2], path), id="a list"),
        pytest.param(lambda path: torch.save(torch.ones(3), path), id="a tensor"),
        pytest.param(lambda path: torch.save({"state": {}}, path), id="another dictionary"),
        pytest.param(lambda path: torch.save({"lcpool": 99}, path), id="another format"),
        pytest.param(lambda path: path.write_text("no model"), id="text", marks=NOT_CAUGHT),
        pytest.param(lambda path: path.write_bytes(b""), id="nothing", marks=NOT_CAUGHT),
        pytest.param(
            lambda path: torch.save(torch.nn.Linear(2, 2), path), id="a module", marks=NOT_CAUGHT
        ),
        pytest.param(
            lambda path: (untrained().save(path), path.write_bytes(path.read_bytes()[:-999])),
            id="a part of a model",
            marks=NOT_CAUGHT,
        ),
    ],
)
def test_files_of_others_are_refused_by_name(write, tmp_path):
    path = tmp_path / "foreign.pt"
    write(path)
    with pytest.raises(ValueError, match=r"foreign\.pt is no lcpool model"):
        Model.load(path)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.pt"):
        Model.load(tmp_path / "nothing.pt")


class Executed:
    """What reads this with pickle executes it."""

    def __reduce__(self):
        return (pytest.fail, ("the file was executed",))


def test_what_a_file_would_execute_is_refused(tmp_path):
    path = tmp_path / "model.pt"
    torch.save({"lcpool": 1, "architecture": Executed()}, path)
    with pytest.raises((pickle.UnpicklingError, ValueError)):
        Model.load(path)


def test_a_file_cannot_call_any_function_as_its_pooling(tmp_path, capsys):
    path = tmp_path / "model.pt"
    untrained().save(path)
    values = torch.load(path, weights_only=True)
    values["architecture"]["pool"] = "builtins:print"
    torch.save(values, path)
    with pytest.raises((TypeError, ValueError)):
        Model.load(path)
    assert capsys.readouterr().out == ""
