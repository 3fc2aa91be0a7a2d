"""What scikit-learn does with an estimator works: clone, cross-validation, search, pipelines."""

import inspect
import pickle
import pydoc

import joblib
import numpy as np
import pytest
from estimators.fitting import GRAPHS, QUICK, RED, THREE, WORDS, molecule
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks

from lcpool import GraphClassifier, GraphRegressor
from lcpool.data import GraphSet, load_dataset
from lcpool.settings import SETTINGS

BOTH = pytest.mark.parametrize("kind", [GraphClassifier, GraphRegressor])
TARGETS = {GraphClassifier: WORDS, GraphRegressor: RED}
SET = load_dataset(GRAPHS, y=WORDS.tolist())


@BOTH
def test_every_setting_is_a_parameter(kind):
    signature = inspect.signature(kind).parameters
    assert all(one.kind != one.VAR_KEYWORD for one in signature.values())
    names = SETTINGS.keys() - {"seed", "split"}
    assert {name: signature[name].default for name in names} == {
        name: SETTINGS[name].default for name in names
    }
    own = {"validation_fraction", "random_state", "device", "progress"}
    assert kind().get_params().keys() == signature.keys() == names | own
    assert not [name for name in signature if hasattr(kind, name)]  # it would hide a method
    page = pydoc.render_doc(kind, renderer=pydoc.plaintext)
    assert all(f" {name}: " in page for name in signature)
    assert repr(kind(hidden=8)) == f"{kind.__name__}(hidden=8)"


@BOTH
def test_names_that_are_none_are_refused(kind):
    slips = {"hiden": "hidden", "randomstate": "random_state", "runs": "pool, "}
    for wrong, meant in slips.items():
        with pytest.raises(ValueError, match=meant):
            kind(**{wrong: 8})
    for name, instead in {"seed": "random_state", "split": "validation_fraction"}.items():
        with pytest.raises(ValueError, match=instead):
            kind(**{name: 1})
    with pytest.raises(ValueError, match="hiden"):
        kind().set_params(hiden=8)
    assert kind().set_params(hidden=8, pool="kmis").get_params()["pool"] == "kmis"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("pool", "kitchen"), ("hidden", 0), ("validation_fraction", 0.0),
        ("validation_fraction", 0.6), ("random_state", -1), ("random_state", "x"),
        ("device", "tpu"), ("metric", "rmse"), ("batch_size", 1),
    ],
)  # fmt: skip
def test_values_are_checked_by_fit(name, value):
    classifier = GraphClassifier(**{"epochs": 1, name: value})
    with pytest.raises(ValueError, match=name if name == "hidden" else str(value)):
        classifier.fit(GRAPHS, WORDS)
    assert clone(classifier).get_params() == classifier.get_params()


@BOTH
def test_before_it_is_fitted(kind):
    for method in ("predict", "score", *["predict_proba"] * (kind is GraphClassifier)):
        with pytest.raises(NotFittedError):
            getattr(kind(), method)(GRAPHS)


@BOTH
def test_a_clone_is_not_fitted_and_fits_to_the_same(kind):
    first = kind("topkpool", **QUICK, random_state=4).fit(GRAPHS, TARGETS[kind])
    second = clone(first)
    assert not hasattr(second, "model_")
    again = second.fit(GRAPHS, TARGETS[kind]).predict(GRAPHS)
    assert (first.predict(GRAPHS) == again).all()
    other = clone(first).set_params(random_state=5).fit(GRAPHS, TARGETS[kind])
    assert first.loss_curve_ == second.loss_curve_ != other.loss_curve_


def test_random_states():
    def curve(state):
        return GraphClassifier("nopool", **QUICK, random_state=state).fit(GRAPHS, WORDS).loss_curve_

    assert curve(np.random.RandomState(1)) == curve(np.random.RandomState(1))
    assert curve(np.random.RandomState(1)) != curve(np.random.RandomState(2))
    assert curve(np.int64(3)) == curve(3)
    assert curve(None) != curve(None)


@BOTH
@pytest.mark.parametrize("through", ["pickle", "joblib"])
def test_what_is_written_and_read_predicts_the_same(kind, through, tmp_path):
    fitted = kind("lcpool", **QUICK).fit(GRAPHS, TARGETS[kind])
    if through == "pickle":
        read = pickle.loads(pickle.dumps(fitted))
    else:
        joblib.dump(fitted, tmp_path / "fitted.joblib")
        read = joblib.load(tmp_path / "fitted.joblib")
    assert (read.predict(GRAPHS) == fitted.predict(GRAPHS)).all()
    assert read.get_params() == fitted.get_params()
    assert repr(read.pool_choice_) == repr(fitted.pool_choice_)


def _as_objects(graphs):
    found = np.empty(len(graphs), object)
    found[:] = graphs
    return found


FORMS = {
    "a tuple": tuple(GRAPHS),
    "an object array": _as_objects(GRAPHS),
    "a set": SET,
    "networkx": [molecule(3 + n % 4, "CO") for n in range(40)],
    "SMILES": ["C" * n + "O" for n in range(1, 41)],
}


@pytest.mark.filterwarnings("ignore::lcpool.data.DataWarning")  # bonds have attributes
@pytest.mark.parametrize("X", FORMS.values(), ids=FORMS)
def test_graphs_in_every_form_are_split_and_fitted(X):
    if isinstance(X[0], str):
        pytest.importorskip("rdkit")
    one = GraphClassifier("nopool", **QUICK)
    scores = cross_val_score(one, X, WORDS, cv=2, error_score="raise")
    assert len(scores) == 2
    parts = train_test_split(X, WORDS, random_state=0, stratify=WORDS)
    assert (len(parts[0]), len(parts[1])) == (30, 10)
    assert isinstance(parts[0], GraphSet) == isinstance(X, GraphSet)
    said = one.fit(parts[0], parts[2]).predict(parts[1])
    assert one.score(parts[1], parts[3]) == (said == parts[3]).mean()


def test_a_list_and_a_set_are_the_same_graphs():
    one = GraphClassifier("nopool", **QUICK)
    by_list, by_set = (cross_val_score(one, X, WORDS, cv=3) for X in (GRAPHS, SET))
    assert by_list.tolist() == by_set.tolist()
    assert len(cross_val_score(one, SET, cv=3)) == 3  # by the targets of the graphs


def test_a_search_trains_what_it_says_and_finds_the_best():
    """With a tiny learning rate nothing is learnt."""
    base = GraphRegressor(
        "nopool", hidden=8, epochs=60, batch_size=8, validation_fraction=0.25, device="cpu"
    )
    search = GridSearchCV(base, {"lr": [1e-6, 0.01]}, cv=2, error_score="raise")
    search.fit(GRAPHS, RED)
    little, much = search.cv_results_["mean_test_score"]
    assert search.best_params_ == {"lr": 0.01}
    assert search.best_score_ == much > 0.5 > little + 0.3
    assert search.predict(GRAPHS).tolist() == search.best_estimator_.predict(GRAPHS).tolist()


def test_a_search_over_networks():
    grid = {"pool": ["topkpool", "kmis"], "hidden": [2, 3]}
    search = GridSearchCV(GraphClassifier(epochs=1, device="cpu"), grid, cv=2).fit(GRAPHS, THREE)
    architecture = search.best_estimator_.model_.network.architecture
    best = {"pool": architecture.pool, "hidden": architecture.hidden}
    assert best == search.best_params_


def test_two_processes_find_what_one_does():
    one = GraphClassifier("nopool", **QUICK)
    alone, together = (cross_val_score(one, GRAPHS, WORDS, cv=2, n_jobs=n) for n in (1, 2))
    assert alone.tolist() == together.tolist()


def bright(graphs):
    """The graphs with one feature more."""
    return [graph.clone().update({"x": graph.x.repeat(1, 2)}) for graph in graphs]


def test_a_pipeline():
    pipe = make_pipeline(FunctionTransformer(bright), GraphClassifier("nopool", **QUICK))
    pipe.fit(GRAPHS, WORDS)
    assert pipe[-1].model_.num_features == 4
    assert pipe.score(GRAPHS, WORDS) == (pipe.predict(GRAPHS) == WORDS).mean()
    search = GridSearchCV(pipe, {"graphclassifier__hidden": [2, 3]}, cv=2).fit(GRAPHS, WORDS)
    (hidden,) = search.best_params_.values()
    assert search.best_estimator_[-1].model_.network.architecture.hidden == hidden


def test_members_of_an_ensemble_have_seeds_of_their_own():
    """scikit-learn's ensembles take rows of numbers only; they set ``random_state`` by its name."""
    from sklearn.ensemble._base import _set_random_states

    members = [GraphClassifier("nopool", **QUICK) for _ in range(2)]
    for member, seed in zip(members, (1, 2), strict=True):
        _set_random_states(member, np.random.RandomState(seed))
    assert members[0].random_state != members[1].random_state
    assert BaggingClassifier(members[0]).get_params()["estimator__hidden"] == 4


# Those that fit no table of numbers; check_estimator leaves out the others for such input.
CHECKS = [
    estimator_checks.check_estimator_cloneable,
    estimator_checks.check_estimator_tags_renamed,
    estimator_checks.check_valid_tag_types,
    estimator_checks.check_estimator_repr,
    estimator_checks.check_no_attributes_set_in_init,
    estimator_checks.check_do_not_raise_errors_in_init_or_set_params,
    estimator_checks.check_mixin_order,
    estimator_checks.check_parameters_default_constructible,
    estimator_checks.check_get_params_invariance,
    estimator_checks.check_set_params,
]


@BOTH
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_scikit_learns_checks(kind, check):
    check(kind.__name__, kind())
    assert is_classifier(kind()) == (kind is GraphClassifier)
    assert is_regressor(kind()) == (kind is GraphRegressor)
