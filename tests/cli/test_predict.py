"""``lcpool predict``: the file it writes, and what it refuses."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from targets import with_labels, with_values
from typer.testing import CliRunner

from lcpool.cli.app import app
from lcpool.cli.predict import predictions, scores
from lcpool.data import GraphSet, builtin
from lcpool.train import Model, train

QUICK = {"runs": 2, "epochs": 2, "hidden": 8, "device": "cpu"}


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("models") / "model.pt"
    train("builtin", "nopool", **QUICK).model.save(path)
    return path


def run(*words: object):
    return CliRunner().invoke(app, ["predict", *map(str, words)])


def test_predictions_are_those_of_the_model(saved: Path, tmp_path: Path):
    done = run(saved, "builtin", "--out", tmp_path / "p.csv", "--device", "cpu")
    assert done.exit_code == 0, done.output
    table, model, graphs = pd.read_csv(tmp_path / "p.csv"), Model.load(saved), builtin()
    assert table["graph"].tolist() == list(range(600))
    assert table["target"].tolist() == graphs.y.tolist()
    assert table["predicted"].tolist() == model.predict(graphs).tolist()
    probable = table[["probability_0", "probability_1"]].to_numpy()
    np.testing.assert_allclose(probable, model.probabilities(graphs).numpy(), rtol=1e-6)
    for name, part in zip(model.split._fields, model.split, strict=True):
        assert sorted(part.tolist()) == table.index[table["part"] == name].tolist()
    right = (table["predicted"] == table["target"])[table["part"] == "test"]
    assert f"{100 * right.mean():.2f} %" in done.stderr
    again = run(saved, "builtin", "--device", "cpu")
    assert again.stdout == (tmp_path / "p.csv").read_text()


@pytest.mark.parametrize("graphs", [with_labels(), with_values(values=1)], ids=repr)
def test_labels_and_values(graphs: GraphSet):
    model = train(graphs, "nopool", **QUICK).model
    table = predictions(model, graphs)
    assert set(table["part"]) == {"train", "val", "test"}
    given = table[[f"predicted_{name}" for name in model.columns]].to_numpy()
    np.testing.assert_allclose(given, model.predict(graphs).numpy(), rtol=1e-6)
    truth = table[[f"target_{name}" for name in model.columns]].to_numpy()
    np.testing.assert_allclose(truth, graphs.y.numpy(), rtol=1e-6)
    assert any(name.startswith("probability") for name in table) == (graphs.task == "labels")
    assert len(scores(model, graphs, table)) <= 3


def test_other_graphs_have_no_part(saved: Path):
    model, other = Model.load(saved), builtin(seed=1, num_graphs=20)
    table = predictions(model, other)
    assert "part" not in table
    assert scores(model, other, table)[0].startswith("accuracy of 20 graphs")
    assert "target" not in predictions(model, GraphSet.from_graphs(unlabelled(other)))


def unlabelled(graphs: GraphSet) -> list:
    rows = graphs.to_graphs()
    for row in rows:
        row.y = None
    return rows


@pytest.mark.parametrize("words", [("no.pt", "builtin"), ("{model}", "no-such-data/x")])
def test_what_is_missing_is_named_in_one_line(saved: Path, words: tuple):
    done = run(*(word.format(model=saved) for word in words))
    assert done.exit_code == 2
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_folder_is_no_file_for_predictions(saved: Path, tmp_path: Path):
    for folder in (tmp_path, "/"):
        done = run(saved, "builtin", "--out", folder)
        assert done.exit_code == 2
        assert f"--out {folder}" in done.stderr


def test_the_remedy_for_a_class_of_ones_own_is_an_option(tmp_path: Path):
    own = tmp_path / "own.pt"
    train("builtin", "nopool", conv="torch_geometric.nn:SGConv", **QUICK).model.save(own)
    done = run(own, "builtin")
    assert done.exit_code == 2
    assert "--trust" in done.stderr
    assert run(own, "builtin", "--trust").exit_code == 0
