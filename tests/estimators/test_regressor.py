"""Numbers in scikit-learn's manner."""

import numpy as np
import pytest
from estimators.fitting import GRAPHS, QUICK, RED, THREE, VALUES, WORDS
from sklearn.metrics import r2_score

from lcpool import GraphRegressor
from lcpool.data import load_dataset


@pytest.mark.parametrize(
    "y", [RED, THREE, VALUES, VALUES[:, :1]], ids=["one", "whole", "two", "a column"]
)
def test_numbers(y):
    regressor = GraphRegressor("nopool", **QUICK).fit(GRAPHS, y)
    said = regressor.predict(GRAPHS)
    assert said.shape == (VALUES.shape if y is VALUES else (40,))
    assert regressor.score(GRAPHS, y) == pytest.approx(r2_score(y, said), rel=1e-6)
    assert not hasattr(regressor, "predict_proba")
    assert regressor.predict([]).shape == said[:0].shape


def test_it_learns_in_the_units_of_y():
    learnt = GraphRegressor("lcpool", epochs=25, hidden=8, lr=0.01, batch_size=8, device="cpu")
    assert learnt.fit(GRAPHS[:30], VALUES[:30]).score(GRAPHS[30:], VALUES[30:]) > 0.5
    assert learnt.predict(GRAPHS).mean(0) == pytest.approx(VALUES.mean(0), rel=0.1)
    assert learnt.model_.metric == "rmse"


def test_some_numbers_may_be_missing():
    y = VALUES.copy()
    y[::3, 0] = np.nan
    regressor = GraphRegressor("nopool", **QUICK).fit(GRAPHS, y)
    said, known = regressor.predict(GRAPHS), ~np.isnan(y[:, 0])
    first, second = r2_score(y[known, 0], said[known, 0]), r2_score(y[:, 1], said[:, 1])
    assert regressor.score(GRAPHS, y) == pytest.approx((first + second) / 2, rel=1e-6)


@pytest.mark.parametrize(
    ("y", "named"),
    [
        (WORDS, "graph 0"),
        ([*RED[:39], np.nan], "graph 39"),
        ([*RED[:39], np.inf], "graph 39"),
        (RED[:39], "39 targets for 40 graphs"),
        (None, "pass y"),
    ],
    ids=["words", "NaN", "infinite", "too few", "none"],
)
def test_what_cannot_be_learnt_from_is_refused(y, named):
    with pytest.raises(ValueError, match=named):
        GraphRegressor("nopool", **QUICK).fit(GRAPHS, y)


def test_classes_of_a_set_are_numbers_only_if_they_are_numbers():
    whole = load_dataset(GRAPHS, y=THREE)
    by_set = GraphRegressor("nopool", **QUICK).fit(whole).predict(GRAPHS)
    assert (by_set == GraphRegressor("nopool", **QUICK).fit(GRAPHS, THREE).predict(GRAPHS)).all()
    for graphs in (load_dataset(GRAPHS, y=WORDS), load_dataset(GRAPHS)):
        with pytest.raises(ValueError):  # noqa: PT011 - two messages
            GraphRegressor("nopool", **QUICK).fit(graphs)
