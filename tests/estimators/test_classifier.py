"""Classes and labels in scikit-learn's manner."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from estimators.fitting import GRAPHS, LABELS, QUICK, RED, THREE, WORDS, molecule
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import cross_val_predict, cross_val_score
from torch_geometric.data import Data

from lcpool import GraphClassifier
from lcpool.data import DataWarning, GraphSet, load_dataset
from lcpool.train import train


def bare(graph):
    """A graph without its features."""
    return Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes)


TARGETS = {
    "words": WORDS,
    "two numbers": (RED > 0.5).astype(int),
    "other numbers": np.where(RED > 0.5, 7, -3),
    "truths": RED > 0.5,
    "floats": np.where(RED > 0.5, 2.0, 1.0),
    "three": THREE,
    "a list": WORDS.tolist(),
    "a series": pd.Series(WORDS),
    "a frame": pd.DataFrame({"colour": WORDS}),
    "a tensor": torch.from_numpy(THREE),
}


@pytest.mark.parametrize("y", TARGETS.values(), ids=TARGETS)
def test_classes_are_those_of_y(y):
    classifier = GraphClassifier("nopool", **QUICK)
    assert classifier.fit(GRAPHS, y) is classifier
    given = np.asarray(y).reshape(-1)
    assert classifier.classes_.tolist() == np.unique(given).tolist()
    said, chances = classifier.predict(GRAPHS), classifier.predict_proba(GRAPHS)
    assert said.shape == (40,)
    assert said.dtype.kind == np.array(given.tolist()).dtype.kind
    assert chances.shape == (40, len(classifier.classes_))
    np.testing.assert_allclose(chances.sum(1), 1)
    assert (classifier.classes_[chances.argmax(1)] == said).all()
    assert classifier.score(GRAPHS, y) == accuracy_score(given, said)


def test_it_learns():
    learnt = GraphClassifier("lcpool", epochs=25, hidden=8, lr=0.01, batch_size=8, device="cpu")
    assert learnt.fit(GRAPHS[:30], WORDS[:30]).score(GRAPHS[30:], WORDS[30:]) >= 0.8
    assert learnt.n_iter_ == len(learnt.loss_curve_) == len(learnt.validation_scores_) == 25


def test_targets_of_the_graphs_or_others_in_their_place():
    pairs = zip(GRAPHS, THREE, strict=True)
    own = [graph.clone().update({"y": torch.tensor([k])}) for graph, k in pairs]
    by_own = GraphClassifier("nopool", **QUICK).fit(own)
    by_y = GraphClassifier("nopool", **QUICK).fit(GRAPHS, THREE)
    assert (by_own.predict_proba(own) == by_y.predict_proba(GRAPHS)).all()
    assert by_own.score(own) == by_y.score(GRAPHS, THREE)
    other = GraphClassifier("nopool", **QUICK).fit(own, WORDS)
    assert set(other.predict(own)) <= {"red", "blue"}


def test_labels():
    for y in (LABELS, LABELS.astype(bool), np.where(np.eye(40, 3) > 0, np.nan, LABELS)):
        classifier = GraphClassifier("nopool", **QUICK).fit(GRAPHS, y)
        assert [known.tolist() for known in classifier.classes_] == [[0, 1]] * 3
        said, chances = classifier.predict(GRAPHS), classifier.predict_proba(GRAPHS)
        assert said.shape == chances.shape == (40, 3)
        assert ((chances > 0.5) == said).all()
        known = ~np.isnan(y.astype(float))
        assert classifier.score(GRAPHS, y) == ((said == y) | ~known).all(1).mean()
    assert classifier.score(GRAPHS, LABELS) == accuracy_score(LABELS, said)
    chances = cross_val_predict(classifier, GRAPHS, LABELS, cv=2, method="predict_proba")
    assert chances.shape == (40, 3)


def test_folds_of_sorted_graphs_are_no_folds():
    """Without y scikit-learn cuts the graphs as they come, here one class after the other."""
    order = np.argsort(WORDS, kind="stable")
    graphs = load_dataset([GRAPHS[g] for g in order], y=WORDS[order])
    classifier = GraphClassifier("nopool", **QUICK)
    with pytest.warns(DataWarning, match="known"):
        cross_val_score(classifier, graphs, cv=4)
    with warnings.catch_warnings(action="error"):
        cross_val_score(classifier, graphs, graphs.known(), cv=4)
        classifier.fit(graphs).score(graphs[:1])


def test_scikit_learns_scorers_of_two_labels():
    y = LABELS[:, :2]
    classifier = GraphClassifier("nopool", **QUICK, random_state=3)
    found = cross_val_score(classifier, GRAPHS, y, cv=2, scoring="roc_auc")
    fitted = classifier.fit(GRAPHS[20:], y[20:])
    assert found[0] == roc_auc_score(y[:20], fitted.predict_proba(GRAPHS[:20]))


def test_the_network_is_the_one_of_train():
    """One loop: with the same split, a run of ``train`` gives the same parameters."""
    graphs = load_dataset(GRAPHS, y=THREE)
    model = GraphClassifier("topkpool", **QUICK, random_state=5).fit(graphs).model_
    train_part, val, test = model.split
    assert (len(train_part), len(val), len(test)) == (36, 4, 0)
    more = load_dataset(GRAPHS + GRAPHS[:1], y=[*THREE, 0])  # which is tested
    splits = {"train": train_part, "val": val, "test": [40]}
    other = train(more, "topkpool", runs=1, **QUICK, seed=5, splits=splits).model
    for ours, theirs in zip(model.network.parameters(), other.network.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    assert torch.equal(model.outputs(graphs), other.outputs(graphs))


def test_the_validation_part_has_the_classes_proportions():
    y = np.array(["rare"] * 8 + ["often"] * 32)
    model = GraphClassifier("nopool", **QUICK, validation_fraction=0.25).fit(GRAPHS, y).model_
    assert sorted(y[model.split.val.numpy()]) == ["often"] * 8 + ["rare"] * 2


def test_networkx_graphs_whose_words_differ():
    rings = [molecule(3 + n % 4, "CO" if n % 2 else "CN") for n in range(24)]
    y = ["oxygen" if n % 2 else "nitrogen" for n in range(24)]
    classifier = GraphClassifier("nopool", **QUICK).fit(rings, y)
    one = classifier.predict_proba([molecule(4, "C")])  # neither O nor N
    many = classifier.predict_proba([*rings, molecule(4, "C")])
    np.testing.assert_allclose(one[0], many[-1], rtol=1e-6)
    with pytest.warns(DataWarning, match="'S'"):
        assert len(classifier.predict([molecule(4, "CS")])) == 1


def test_a_part_of_a_set_has_its_own_classes():
    graphs = load_dataset(GRAPHS, y=WORDS.tolist()[:-2] + ["green"] * 2)
    classifier = GraphClassifier("nopool", **QUICK).fit(graphs[:38])
    assert classifier.classes_.tolist() == ["blue", "red"]
    # A class that was not learnt is never right.
    with pytest.warns(DataWarning, match="green"):
        assert classifier.score(graphs[38:]) == 0.0


BAD = {
    "no graphs": ([], None, "empty"),
    "two graphs": (GRAPHS[:2], ["a", "b"], "class 'a'"),
    "no targets": (GRAPHS, None, "pass y"),
    "one class": (GRAPHS, ["a"] * 40, "one class"),
    "too few": (GRAPHS, WORDS[:39], "39 targets for 40 graphs"),
    "too many": (GRAPHS[:39], WORDS, "40 targets for 39 graphs"),
    "a single graph": (GRAPHS, ["once", *["a", "b"] * 19, "a"], "class 'once'"),
    "NaN": (GRAPHS, [0.0, np.nan, *[0.0, 1.0] * 19], "graph 1 is missing"),
    "a fraction among classes": (GRAPHS, [0, 0.5, *[0, 1] * 19], "GraphRegressor"),
    "None": (GRAPHS, [None, *WORDS[1:].tolist()], "graph 0"),
    "numbers": (GRAPHS, RED, "GraphRegressor"),
    "rows of numbers": (GRAPHS, LABELS * 2, "GraphRegressor"),
    "labels unknown": (GRAPHS, np.where(np.arange(40)[:, None] == 3, np.nan, LABELS), "graph 3"),
    "features here and there": ([bare(GRAPHS[0]), *GRAPHS[1:]], WORDS, "graph 0 has no 'x'"),
    "widths": (
        [*GRAPHS[:39], GRAPHS[39].clone().update({"x": torch.ones(GRAPHS[39].num_nodes, 5)})],
        WORDS, "graph 39"),
    "a feature": (
        [*GRAPHS[:7], GRAPHS[7].clone().update({"x": GRAPHS[7].x * np.nan}), *GRAPHS[8:]],
        WORDS, "'x' of graph 7"),
    "no graph": ([1, 2, 3], None, "number 0"),
    "values": (GraphSet.from_graphs(GRAPHS[:1] * 4), [0.5, 1.5, 2.5, 3.5], "GraphRegressor"),
}  # fmt: skip


@pytest.mark.parametrize(("X", "y", "named"), BAD.values(), ids=BAD)
def test_what_cannot_be_learnt_from_is_refused(X, y, named):
    with pytest.raises(ValueError, match=named):
        GraphClassifier("nopool", **QUICK).fit(X, y)


def test_nothing_to_score():
    classifier = GraphClassifier("nopool", **QUICK).fit(GRAPHS, WORDS)
    assert classifier.predict([]).shape == (0,)
    with pytest.raises(ValueError, match="empty"):
        classifier.score([], [])


def test_that_edge_attributes_are_not_read_is_said(recwarn):
    """As ``train`` does; a search says it once."""
    with_attr = [
        graph.clone().update({"edge_attr": torch.rand(graph.num_edges, 2)}) for graph in GRAPHS
    ]
    graphs = load_dataset(with_attr, y=WORDS, name="edges told")
    GraphClassifier("nopool", **QUICK, conv="gine").fit(graphs)
    assert not recwarn
    with pytest.warns(DataWarning, match="gine"):
        GraphClassifier("nopool", **QUICK).fit(graphs)


def test_graphs_without_features_are_told_by_their_degrees():
    without = list(map(bare, GRAPHS))
    classifier = GraphClassifier("nopool", **QUICK).fit(without, WORDS)
    assert classifier.model_.degrees
    assert len(classifier.predict(without[:3])) == 3
    with pytest.raises(ValueError, match="degrees"):
        classifier.predict(GRAPHS)
    with pytest.raises(ValueError, match="graph 0"):
        GraphClassifier("nopool", **QUICK).fit(GRAPHS, WORDS).predict(without)


def test_targets_of_another_kind_are_not_scored():
    classifier = GraphClassifier("nopool", **QUICK).fit(GRAPHS, THREE)
    for y in (WORDS, LABELS):
        with pytest.raises((ValueError, TypeError)):
            classifier.score(GRAPHS, y)
    assert classifier.predict([]).shape == (0,)
    assert classifier.predict_proba([]).shape == (0, 3)
