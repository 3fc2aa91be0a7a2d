"""What a training gives: figures in percent, and a network that predicts, saves and loads."""

import errno
import json
import math
import os
import pickle
import statistics
from dataclasses import replace

import networkx as nx
import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.io import read_tu_data
from torch_geometric.loader import DataLoader

from lcpool.data import DataWarning, GraphSet, builtin, load_dataset
from lcpool.data.columns import with_words
from lcpool.models import Architecture, Backbone
from lcpool.settings import in_groups
from lcpool.train import RULES, Model, Protocol, Result, Run, train
from lcpool.train.protocol import EpochChoice

GRAPHS = builtin(num_graphs=40)
QUICK = {"runs": 2, "epochs": 2, "hidden": 8, "device": "cpu"}


def result_of(*tests, diverged=()):
    """A result whose runs have these test accuracies, (by accuracy, by loss)."""
    runs = [
        Run(
            n, choices={r: EpochChoice(r, n not in diverged and 2, 0.25, 0.75) for r in RULES},
            curves=[(0.9, 0.8, 0.125), (0.7, 0.75, 0.25)],
            test={"accuracy": (a, 0.5), "loss": (b, 0.5)}, diverged=3 if n in diverged else None,
            num_test=8, largest_class=0.625 + n / 8, constant={"accuracy": n > 0, "loss": n == 0},
        )
        for n, (a, b) in enumerate(tests)
    ]  # fmt: skip
    architecture = Architecture(pool="nopool", hidden=8)
    return Result("toy", architecture, Protocol(), runs, 1.5, "CPU", len(runs), best=None)


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


def test_one_short_line_says_what_it_is(model):
    assert repr(model) == "Model('graphs', nopool, hierarchical, gcn, 2 features, 2 classes)"
    result = result_of((0.5, 0.5), (0.75, 0.5))
    assert repr(result) == "Result('toy', nopool, hierarchical, gcn, 2 runs, 62.50 ± 17.68 %)"
    lost = result_of((0.5, 0.5), diverged=(0,))
    assert repr(lost).startswith("Result('toy', nopool, hierarchical, gcn, 1 run")
    assert not any(sign in repr(lost) for sign in ("%", "±", "nan"))


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


def test_runs_that_diverged_at_once_do_not_count():
    result = result_of((0.5, 0.5), (0.0, 0.0), (0.7, 0.7), diverged=[1])
    assert result.accuracies().tolist() == pytest.approx([50.0, 70.0])
    assert result.mean() == pytest.approx(60.0)
    assert result.std("loss") == pytest.approx(statistics.stdev([50.0, 70.0]))


def test_what_cannot_be_computed_does_not_count():
    result = result_of((math.nan, 0.5), (0.75, 0.25), (0.25, 0.75))
    assert (result.mean(), result.mean("loss")) == (50, 50)
    assert result.std() == pytest.approx(statistics.stdev([75, 25]))
    assert len(result.values()) == 3
    assert result.known().tolist() == [75, 25]
    nothing = result_of((math.nan, 0.5))
    assert math.isnan(nothing.mean())
    assert math.isnan(nothing.std())
    assert "diverged" not in repr(nothing)


def test_a_run_that_diverged_later_counts_with_the_epoch_chosen_before():
    result = result_of((0.5, 0.5), (0.7, 0.7))
    result.runs[1].diverged = 4
    assert result.accuracies().tolist() == pytest.approx([50.0, 70.0])


def test_a_result_survives_json():
    result = result_of((0.5, 0.1), (0.7, 0.3))
    result.runs[1].measured["accuracy"] = {"brier": 0.25, "macro_f1": 0.5}
    values = json.loads(json.dumps(result.to_dict(), allow_nan=True))
    assert values["test_accuracy"] == {
        f"by_{rule}": {"mean": result.mean(rule), "std": result.std(rule)} for rule in RULES
    }
    assert values["runs"][1] == {
        "number": 1,
        "epochs": 2,
        "diverged": None,
        "chosen": {f"by_{rule}": {"epoch": 2, "accuracy": 25.0, "loss": 0.75} for rule in RULES},
        "test": {
            "by_accuracy": {"accuracy": 70.0, "loss": 0.5},
            "by_loss": {"accuracy": 30.0, "loss": 0.5},
        },
        "metrics": {"by_accuracy": {"brier": 0.25, "macro_f1": 50.0}},
        "num_test": 8,
        "largest_class": 75.0,
        "constant": {"by_accuracy": True, "by_loss": False},
        "curves": {
            "training_loss": [0.9, 0.7],
            "validation_loss": [0.8, 0.75],
            "validation_accuracy": [12.5, 25.0],
        },
    }
    network, protocol = in_groups(values["settings"])
    assert Architecture(**network) == result.architecture
    assert Protocol(**protocol) == result.protocol
    assert (values["dataset"], values["device"], values["stack"]) == ("toy", "CPU", 2)
    assert (values["num_test"], values["largest_class"]) == (8, 68.75)


def test_runs_that_predict_one_class_are_told_by_rule():
    result = result_of((0.5, 0.5), (0.7, 0.7), (0.8, 0.8), diverged=[2])
    assert result.constant_runs() == [1]  # 2 has no network
    assert result.constant_runs("loss") == [0]
    assert result.largest_class == pytest.approx((62.5 + 75.0) / 2)
    assert result.num_test == 8
    lost = result_of((0.5, 0.5), (0.5, 0.5), diverged=(0, 1))
    assert lost.constant_runs() == []
    assert math.isnan(lost.largest_class)
    assert lost.to_dict()["runs"][1]["constant"] == {"by_accuracy": None, "by_loss": None}


def test_a_model_that_always_says_the_largest_class_is_seen():
    """285 graphs of one class and 15 of the other, with nothing to tell them apart."""
    graphs = [ring(int(n % 20 == 0), 1) for n in range(300)]
    options = {"runs": 3, "epochs": 5, "lr": 0.03, "hidden": 8, "split": "fresh", "device": "cpu"}
    result = train(graphs, "nopool", **options)
    assert result.constant_runs() == result.constant_runs("loss") == [0, 1, 2]
    assert result.num_test == 30
    assert result.largest_class == pytest.approx(result.mean())
    assert result.largest_class > 80


# --- predictions


def mislabelled(graphs, labels, every=7):
    """The graphs with the other of two labels on some of them, so that nothing scores 1."""
    other = dict(zip(labels, reversed(labels), strict=True))
    return [
        Data(x=g.x, edge_index=g.edge_index, y=other[g.y] if n % every == 0 else g.y)
        for n, g in enumerate(graphs)
    ]


def write_tu(folder, graphs):
    """The graphs as a TU dataset whose node labels are the sign of their first feature."""
    lines = {"A": [], "graph_indicator": [], "graph_labels": [], "node_labels": []}
    offset = 1
    for number, graph in enumerate(graphs, 1):
        lines["A"] += [f"{a}, {b}" for a, b in (graph.edge_index.T + offset).tolist()]
        lines["graph_indicator"] += [number] * graph.num_nodes
        lines["graph_labels"].append(graph.y)
        lines["node_labels"] += (graph.x[:, 0] > 0).long().tolist()
        offset += graph.num_nodes
    folder.mkdir()
    for kind, rows in lines.items():
        text = "".join(f"{row}\n" for row in rows)
        (folder / f"{folder.name}_{kind}.txt").write_text(text)
    return folder


def assert_scores_by_its_predictions(model, graphs, expected, tmp_path):
    """What a user counts by hand is what ``score`` gives, also of a saved model."""
    y = graphs.y if isinstance(graphs, GraphSet) else torch.tensor([int(g.y) for g in graphs])
    model.save(tmp_path / "model.pt")
    for found in (model, Model.load(tmp_path / "model.pt")):
        assert found.score(graphs) == expected
        assert (found.predict(graphs) == y).float().mean() == found.score(graphs)
        assert found.classes == tuple(sorted(set(y.tolist())))


LEARNS = {"runs": 1, "epochs": 15, "lr": 0.03, "hidden": 8, "device": "cpu", "split": "shared"}


@pytest.mark.parametrize("labels", [(-1, 1), (3, 7), (7, 3), (0, 1)])
def test_the_score_of_graphs_of_ones_own_is_the_share_predicted_right(labels, tmp_path):
    trained = train(rings(labels), "nopool", **LEARNS).model
    assert trained.predict(rings(labels)).tolist() == [graph.y for graph in rings(labels)]
    assert trained.score(rings(labels)) == 1.0
    graphs = mislabelled(rings(labels), labels)  # 6 of 40
    assert_scores_by_its_predictions(trained, graphs, 34 / 40, tmp_path)
    assert_scores_by_its_predictions(trained, GraphSet.from_graphs(graphs), 34 / 40, tmp_path)
    assert trained.score(graphs[1]) == 1.0
    assert trained.score(graphs[0]) == 0.0
    for other in (iter(graphs), Batch.from_data_list(graphs), DataLoader(graphs, 7, shuffle=True)):
        assert trained.score(other) == 34 / 40


@pytest.mark.parametrize("labels", [(1, 2), (2, 1)])
def test_the_score_of_a_tu_dataset_speaks_of_its_labels(labels, tmp_path, monkeypatch):
    monkeypatch.setenv("LCPOOL_CACHE", str(tmp_path / "cache"))
    folder = write_tu(tmp_path / "RINGS", mislabelled(rings(labels), labels))
    graphs = load_dataset(folder)
    assert sorted(set(graphs.y.tolist())) == [0, 1]
    trained = train(write_tu(tmp_path / "CLEAN", rings(labels)), "nopool", **LEARNS).model
    assert_scores_by_its_predictions(trained, graphs, 34 / 40, tmp_path)
    assert_scores_by_its_predictions(trained, graphs.to_graphs(), 34 / 40, tmp_path)
    data, _, _ = read_tu_data(str(folder), "RINGS")
    assert (trained.predict(graphs) == data.y).float().mean() == trained.score(graphs)


def test_a_score_of_some_of_the_classes(model):
    whole = GraphSet.from_graphs(rings())
    assert model.score(whole.subset(torch.arange(0, 40, 2))) == 1.0
    assert model.score(rings()[::2]) == 1.0


def test_columns_of_probabilities_follow_the_classes(model):
    assert model.classes == (-1, 1)
    chosen = torch.tensor(model.classes)[model.probabilities(rings()).argmax(-1)]
    assert torch.equal(chosen, model.predict(rings()))


def test_what_cannot_be_scored_is_said(model):
    unlabelled = [Data(x=graph.x, edge_index=graph.edge_index) for graph in rings()]
    for graphs in (unlabelled, GraphSet.from_graphs(unlabelled)):
        with pytest.raises(ValueError, match=r"\(y\)"):
            model.score(graphs)
    with pytest.raises(ValueError, match="graphs"):
        model.score([])
    with pytest.raises(ValueError, match=r"\b2\b.*\b5\b.*-1, 1"):
        model.score([*rings()[:2], ring(5, 1)])
    numbered = GraphSet.from_graphs(rings((0, 1)))
    with pytest.raises(ValueError, match=r"\b0\b.*\b0\b.*-1, 1"):
        model.score(numbered)


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
    monkeypatch.setattr("lcpool.train.model.EVAL_BATCH", 7)
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
    with pytest.raises(ValueError, match=r"\b2\b.*\b6\b"):
        model.predict(GRAPHS)


def path_of(num_nodes, **more):
    nodes = torch.arange(num_nodes - 1)
    edges = torch.stack([nodes, nodes + 1])
    return Data(edge_index=torch.cat([edges, edges.flip(0)], dim=1), num_nodes=num_nodes, **more)


def star_of(num_leaves, **more):
    edges = torch.stack([torch.zeros(num_leaves, dtype=torch.long), torch.arange(num_leaves) + 1])
    edges = torch.cat([edges, edges.flip(0)], dim=1)
    return Data(edge_index=edges, num_nodes=num_leaves + 1, **more)


@pytest.fixture(scope="module")
def degree_model():
    """A network that tells stars from paths, graphs without features."""
    graphs = [star_of(3 + n % 3, y=0) if n % 2 else path_of(3 + n % 4, y=1) for n in range(40)]
    return train(graphs, "nopool", runs=1, epochs=15, lr=0.03, hidden=8, device="cpu").model


def test_graphs_without_features_are_predicted_one_by_one(degree_model, tmp_path):
    """Whatever degrees these graphs have: none above 2, or more than training knew."""
    assert degree_model.num_features == 6
    degree_model.save(tmp_path / "model.pt")
    for model in (degree_model, Model.load(tmp_path / "model.pt")):
        for graph, label in ((path_of(4), 1), (star_of(4), 0), (star_of(200), 0)):
            assert model.predict([graph]).tolist() == [label]
            assert model.predict(GraphSet.from_graphs([graph])).tolist() == [label]
        both = model.probabilities([path_of(4), star_of(4)])
        alone = torch.cat([model.probabilities([g]) for g in (path_of(4), star_of(4))])
        torch.testing.assert_close(alone, both)


def test_a_degree_above_all_that_were_seen_counts_as_the_largest(degree_model):
    seven = degree_model.probabilities([star_of(7)])
    as_five = Data(x=torch.eye(6)[[5, *[1] * 7]], edge_index=star_of(7).edge_index)
    batch = GraphSet.from_graphs([as_five]).batch(torch.tensor([0]))
    logits = degree_model.network.eval()(batch).logits
    torch.testing.assert_close(seven, logits.softmax(-1).detach())


@pytest.mark.parametrize("width", [1, 6])
def test_features_are_not_taken_for_degrees(degree_model, width):
    ones = Data(x=torch.ones(4, width), edge_index=path_of(4).edge_index)
    for graphs in ([ones], GraphSet.from_graphs([ones])):
        with pytest.raises(ValueError, match=r"degrees.*\b0\b"):
            degree_model.predict(graphs)


def test_degrees_are_not_taken_for_features(model):
    bare = Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
    assert GraphSet.from_graphs([bare]).num_features == model.num_features
    with pytest.raises(ValueError, match=r"\b0\b.*'x'"):
        model.predict([bare])
    with pytest.raises(ValueError, match=r"\b1\b.*'x'"):
        model.predict([ring(1, 1), bare])


def test_features_that_are_the_degrees_may_be_given_or_not(degree_model):
    given = Data(x=torch.eye(6)[[5, 1, 1, 1, 1, 1]], edge_index=star_of(5).edge_index)
    expected = degree_model.probabilities([star_of(5)])
    torch.testing.assert_close(degree_model.probabilities([given]), expected)
    nothing = Data(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=0)
    assert degree_model.probabilities([nothing]).shape == (1, 2)


def test_batches_are_predicted_graph_by_graph(model, degree_model):
    graphs = rings(number=5)
    assert torch.equal(model.predict(Batch.from_data_list(graphs)), model.predict(graphs))
    assert torch.equal(model.predict(DataLoader(graphs, batch_size=2)), model.predict(graphs))
    bare = [path_of(4), star_of(4)]
    assert degree_model.predict(Batch.from_data_list(bare)).tolist() == [1, 0]


def test_of_no_graphs_nothing_is_predicted(model):
    assert model.predict([]).tolist() == []
    assert model.predict([]).dtype == model.predict(rings()).dtype
    assert model.probabilities([]).shape == (0, 2)
    none = GraphSet.from_graphs(rings()).subset(torch.empty(0, dtype=torch.long))
    assert model.predict(none).tolist() == []


def test_a_part_of_graphs_without_features_is_enough_to_train_on():
    whole = GraphSet.from_graphs([star_of(3 + n % 9, y=n % 2) for n in range(40)])
    part = whole.subset(torch.tensor([n for n in range(40) if n % 9 < 3]))
    trained = train(part, "nopool", runs=1, epochs=1, hidden=8, device="cpu").model
    assert trained.num_features == 12
    assert len(trained.predict([path_of(4)])) == 1


# --- files


@pytest.mark.parametrize(
    ("pool", "options"),
    [
        ("nopool", {}),
        ("lcpool", {"backbone": "plain", "conv": "graphconv", "poolings": 2}),
        ("lcpool*", {"norm": "layer"}),
        ("diffpool", {}),  # its shape depends on the mean number of nodes
        ("torch_geometric.nn:TopKPooling", {}),
        ("lcpool", {"conv": "gin", "depth": 2, "dropout": 0.5, "readout": "sum"}),
        ("lcpool", {"conv": "torch_geometric.nn:GATConv", "readout": "mean+set2set"}),
        ("topkpool", {"readout": "median+attentional"}),
    ],
)
def test_a_saved_model_is_the_same_model(pool, options, tmp_path):
    path = tmp_path / "model.pt"
    model = untrained(pool, **options)
    model.save(path)
    loaded = Model.load(str(path), trust=bool(model.network.architecture.own_classes))
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
    weights = values.pop("tensors")
    assert all(isinstance(value, torch.Tensor) for value in weights.values())
    assert json.loads(json.dumps(values)) == values


def test_a_save_that_fails_leaves_the_model_before(tmp_path, monkeypatch):
    path = tmp_path / "model.pt"
    untrained().save(path)
    before = path.read_bytes()

    def full(values, file):
        file.write(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        untrained().save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda path: torch.save([1, 2], path), id="a list"),
        pytest.param(lambda path: torch.save(torch.ones(3), path), id="a tensor"),
        pytest.param(lambda path: torch.save({"state": {}}, path), id="another dictionary"),
        pytest.param(lambda path: torch.save({"lcpool": 99}, path), id="another format"),
        pytest.param(lambda path: path.write_text("no model"), id="text"),
        pytest.param(lambda path: path.write_bytes(b""), id="nothing"),
        pytest.param(lambda path: torch.save(torch.nn.Linear(2, 2), path), id="a module"),
        pytest.param(
            lambda path: (untrained().save(path), path.write_bytes(path.read_bytes()[:-999])),
            id="a part of a model",
        ),
    ],
)
def test_files_of_others_are_refused_by_name(write, tmp_path):
    path = tmp_path / "foreign.pt"
    write(path)
    with pytest.raises(ValueError, match=r"foreign\.pt"):
        Model.load(path)


def test_a_model_with_a_pooling_that_has_changed_since(tmp_path):
    path = tmp_path / "model.pt"
    untrained("lcpool").save(path)
    values = torch.load(path, weights_only=True)
    values["tensors"]["pools.0.score.lin_x.weight"] = torch.ones(3, 3)
    torch.save(values, path)
    with pytest.raises(ValueError, match=r"model\.pt.*lcpool.*lin_x"):
        Model.load(path)


def test_loading_leaves_the_random_numbers_alone(tmp_path):
    untrained().save(tmp_path / "model.pt")
    before = torch.get_rng_state()
    Model.load(tmp_path / "model.pt")
    assert torch.equal(torch.get_rng_state(), before)


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
    for trust in (False, True):
        with pytest.raises(ValueError, match=r"model\.pt"):
            Model.load(path, trust)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "name",
    [
        "lcpool",
        "architecture",
        "classes",
        "num_features",
        "num_outputs",
        "mean_nodes",
        "tensors",
        "degrees",
        "dataset",
        "kind",
        "metric",
        "target_names",
        "scale",
        "run",
        "split",
    ],
)
@pytest.mark.parametrize("value", [None, ("x",), {"a": 1}, [[]], torch.zeros(2)], ids=repr)
def test_a_file_with_other_values_is_refused(tmp_path, name, value):
    if value is None and name in ("scale", "run", "split"):
        return  # as it is
    path = tmp_path / "model.pt"
    untrained().save(path)
    torch.save({**torch.load(path, weights_only=True), name: value}, path)
    with pytest.raises(ValueError, match=r"model\.pt"):
        Model.load(path)


@pytest.mark.parametrize("part", ["pool", "conv"])
def test_a_module_that_a_file_names_is_imported_only_with_trust(tmp_path, monkeypatch, part):
    (tmp_path / "named_by_a_file.py").write_text("raise SystemExit('executed')")
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "model.pt"
    untrained().save(path)
    values = torch.load(path, weights_only=True)
    values["architecture"][part] = "named_by_a_file:Pooling"
    torch.save(values, path)
    with pytest.raises(ValueError, match="trust=True"):
        Model.load(path)
    with pytest.raises(SystemExit):
        Model.load(path, trust=True)


def ring_of(*words, size=4):
    """A ring whose nodes have these words in turn."""
    ring = nx.cycle_graph(size, create_using=nx.Graph)
    nx.set_node_attributes(ring, {v: words[v % len(words)] for v in ring}, "atom")
    return ring


def atoms(*words):
    """Rings in two classes."""
    rings = [ring_of(*words, size=4 + i % 3) for i in range(12)]
    return load_dataset(rings, name="atoms", y=[i % 2 for i in range(12)])


def test_a_model_knows_the_words_of_its_features(tmp_path):
    known = atoms("C", "O")
    assert (known.words, known.categories) == ((("C", "O"),), (2,))
    train(known, "topkpool", runs=1, epochs=1, hidden=8, device="cpu").model.save(tmp_path / "m.pt")
    model = Model.load(tmp_path / "m.pt")
    assert model.words == known.words
    assert len(model.predict(known)) == 12
    assert len(model.predict([ring_of("C", "O")])) == 1  # networkx itself
    with pytest.raises(ValueError, match="graph 0"):
        model.predict([nx.cycle_graph(4)])
    # One word alone is in its own column; as wide, S would be read as O, and is unknown.
    alone, both = atoms("O"), atoms("C", "O")
    assert with_words(alone, model.words).x.tolist() == [[0, 1]] * len(alone.x)
    with pytest.warns(DataWarning, match="'S'") as said:
        seen = model.outputs(atoms("C", "S"))
    assert len(said) == 1
    unknown = replace(both, x=both.x * torch.tensor([1.0, 0.0]))
    assert torch.equal(seen, model.outputs(unknown))
    with pytest.raises(ValueError, match="'N', 'S'"):  # nothing is known
        model.predict(atoms("N", "S"))
    two = [ring_of("C", "O")]
    nx.set_node_attributes(two[0], "up", "side")
    with pytest.raises(ValueError, match="2 features"):
        model.predict(two)


def bonds(*words):
    """Rings whose edges have these words in turn."""
    rings = []
    for i in range(12):
        ring = nx.cycle_graph(4 + i % 3)
        nx.set_edge_attributes(ring, {e: words[n % len(words)] for n, e in enumerate(ring.edges)},
                               "bond")  # fmt: skip
        ring.graph["y"] = i % 2
        rings.append(ring)
    return load_dataset(rings, name="bonds")


def test_a_model_knows_the_words_of_edges(tmp_path):
    known = bonds("double", "single")
    assert (known.edge_words, known.edge_categories) == ((("double", "single"),), (2,))
    trained = train(known, "topkpool", conv="gine", runs=1, epochs=1, hidden=8, device="cpu")
    trained.model.save(tmp_path / "m.pt")
    model = Model.load(tmp_path / "m.pt")
    assert len(model.predict(known)) == 12
    assert model.edge_words == known.edge_words
    # A word is in its own column, in whatever order the words come or if it is alone.
    swapped = replace(known, edge_words=(("single", "double"),), edge_attr=known.edge_attr.flip(1))
    assert torch.equal(model.outputs(swapped), model.outputs(known))
    alone = bonds("single")
    moved = with_words(alone, edge_words=model.edge_words)
    assert moved.edge_attr.tolist() == [[0, 1]] * len(alone.edge_attr)
    # As wide, triple would be read as single: it is unknown.
    with pytest.warns(DataWarning, match="'triple'"):
        seen = model.outputs(bonds("double", "triple"))
    unknown = replace(known, edge_attr=known.edge_attr * torch.tensor([1.0, 0.0]))
    assert torch.equal(seen, model.outputs(unknown))
    with pytest.raises(ValueError, match="'triple'"):  # nothing is known
        model.predict(bonds("triple"))
