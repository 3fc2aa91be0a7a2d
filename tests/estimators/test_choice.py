"""``pool="auto"``: what is compared, what is taken, and that it says why."""

import logging
import math

import numpy as np
import pandas as pd
import pytest
from estimators.fitting import GRAPHS, QUICK, VALUES, WORDS

from lcpool import GraphClassifier, GraphRegressor
from lcpool.data import load_dataset
from lcpool.estimators import PoolChoice, Trial
from lcpool.estimators.choice import CANDIDATES
from lcpool.models import POOLINGS
from lcpool.train.loop import Trainer


def trial(pool, value, loss, epoch=3):
    cost = (-value, loss) if epoch else (math.inf, math.inf)
    return Trial(pool, value, loss, cost, epoch, 5, 0.25)


CHOICE = PoolChoice(
    "accuracy", 8, (trial("a", 0.75, 0.5), trial("b", 0.75, 0.25), trial("<c>", 0.5, 0.125))
)


def test_the_best_metric_and_then_the_lowest_loss():
    assert CHOICE.taken.pool == "b"
    lost = PoolChoice("accuracy", 8, (trial("a", -1.0, math.inf, epoch=0), CHOICE.trials[2]))
    assert lost.taken.pool == "<c>"
    assert "diverged" in repr(lost)


def test_it_is_printed_as_a_table_with_the_best_first():
    reason, head, *rows = repr(CHOICE).splitlines()
    assert all(word in reason for word in ("b", "75.00 %", "8", "a", "<c> 50.00 %"))
    assert [row.split()[0] for row in rows] == ["b", "a", "<c>"]
    assert len({len(line) for line in (head, *rows)}) == 1
    page = CHOICE._repr_html_()
    assert "&lt;c&gt;" in page
    assert "<c>" not in page
    assert pd.DataFrame(CHOICE.trials)["pool"].tolist() == ["a", "b", "<c>"]


def test_candidates_are_poolings():
    assert set(CANDIDATES) <= POOLINGS.keys()
    assert next(iter(CANDIDATES)) == "nopool"  # of equal ones the first is taken


@pytest.mark.parametrize(("kind", "y"), [(GraphClassifier, WORDS), (GraphRegressor, VALUES)])
def test_it_takes_the_best_of_those_trained_alone(kind, y, caplog):
    caplog.set_level(logging.INFO, "lcpool")
    auto = kind("auto", **QUICK).fit(GRAPHS, y)
    alone = {pool: kind(pool, **QUICK).fit(GRAPHS, y) for pool in CANDIDATES}
    tried = {trial.pool: trial for trial in auto.pool_choice_.trials}
    for pool, one in alone.items():
        (same,) = one.pool_choice_.trials
        assert tried[pool]._replace(seconds=0) == same._replace(seconds=0)
        metric = one.validation_scores_
        assert same.value in (max(metric), min(metric))
    taken = auto.pool_choice_.taken.pool
    assert auto.model_.network.architecture.pool == taken
    assert auto.get_params()["pool"] == "auto"
    assert (auto.predict(GRAPHS) == alone[taken].predict(GRAPHS)).all()
    (line,) = [record.getMessage() for record in caplog.records]
    assert auto.pool_choice_.reason in line
    again = kind("auto", **QUICK).fit(GRAPHS, y)
    assert [t[:6] for t in again.pool_choice_.trials] == [t[:6] for t in auto.pool_choice_.trials]


def test_only_training_and_validation_graphs_are_looked_at(monkeypatch):
    """All graphs of X are one or the other, and nothing is ever tested."""
    monkeypatch.setattr(Trainer, "test", None)
    model = GraphClassifier("nopool", **QUICK).fit(load_dataset(GRAPHS), WORDS).model_
    assert len(model.split.test) == 0
    assert np.sort(np.concatenate(model.split)).tolist() == list(range(40))


def test_a_training_that_diverges(recwarn):
    huge = [graph.clone().update({"x": graph.x * 1e38}) for graph in GRAPHS]
    with pytest.raises(ValueError, match="lr="):
        GraphClassifier("nopool", **QUICK, norm="none", lr=1e30).fit(huge, WORDS)


def test_progress_names_the_poolings(capsys):
    GraphClassifier("auto", **{**QUICK, "epochs": 1}, progress=True).fit(GRAPHS, WORDS)
    said = capsys.readouterr()
    assert said.out == ""
    assert all(f"{pool}: " in said.err for pool in CANDIDATES)
