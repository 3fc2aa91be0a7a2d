"""What classifier and regressor share: parameters, fitting, the fitted network."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sized
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from lcpool.data import DataWarning, GraphSet, load_dataset
from lcpool.data.load import Graphs
from lcpool.data.splits import hold_out
from lcpool.estimators.choice import AUTO, CANDIDATES, PoolChoice, fit_best
from lcpool.models import Architecture
from lcpool.progress import display
from lcpool.settings import (
    SETTINGS,
    VALIDATION_FRACTION,
    TaskName,
    by_name,
    in_groups,
    takes_settings,
    with_settings,
)
from lcpool.train.api import check_targets, warn_of_unused
from lcpool.train.device import pick_device
from lcpool.train.model import Model
from lcpool.train.protocol import Protocol

# What takes the place of a setting: the number by scikit-learn's name for it, and a share in place
# of a scheme, for all graphs are here to learn from.
REPLACED = {"seed": "random_state", "split": VALIDATION_FRACTION.name}
TAKEN = {name: one for name, one in SETTINGS.items() if name not in REPLACED}
DESCRIBED = [
    replace(
        TAKEN["pool"],
        help=f"{TAKEN['pool'].help} auto: trains with each of {', '.join(CANDIDATES)} and takes "
        f"the one that is best on the validation graphs; ``pool_choice_`` says why.",
    ),
    VALIDATION_FRACTION,
    replace(
        SETTINGS["seed"],
        name="random_state",
        help="Seed of all random choices, the seed of lcpool.train.train; None or a RandomState to "
        "draw one.",
    ),
    *(one for name, one in TAKEN.items() if name != "pool"),
]


class GraphEstimator(BaseEstimator):
    """The base of :class:`GraphClassifier` and :class:`GraphRegressor`."""

    _task: ClassVar[TaskName | None] = None  # what the targets are; None: as they look
    model_: Model
    pool_choice_: PoolChoice
    n_iter_: int
    loss_curve_: list[float]
    validation_scores_: list[float]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.__doc__ = with_settings(cls.__doc__, DESCRIBED)

    # scikit-learn finds the parameters in the signature, which therefore has all of them.
    @partial(takes_settings, known=TAKEN)
    def __init__(
        self,
        pool: str = SETTINGS["pool"].default,
        *,
        validation_fraction: float = VALIDATION_FRACTION.default,
        random_state: int | np.random.RandomState | None = SETTINGS["seed"].default,
        device: str | torch.device | None = None,
        progress: bool = False,
        **settings: Any,
    ) -> None:
        for name in REPLACED.keys() & settings.keys():
            raise ValueError(f"unknown setting '{name}': pass '{REPLACED[name]}' instead.")
        own = ("validation_fraction", "random_state", "device", "progress")
        by_name(settings, TAKEN, plurals=False, others=own)
        self.pool, self.validation_fraction = pool, validation_fraction
        self.random_state, self.device, self.progress = random_state, device, progress
        for name in TAKEN.keys() - {"pool"}:
            setattr(self, name, settings.get(name, TAKEN[name].default))

    def fit(self, X: Graphs, y: Any = None) -> Self:
        """Train a network on graphs; a share of them chooses its epoch and does not train.

        Args:
            X: a :class:`~lcpool.data.GraphSet`, a list of graphs of PyG or networkx, or whatever
                else :func:`lcpool.data.load_dataset` takes.
            y: a target per graph; by default those that the graphs have.

        Raises:
            ValueError: if a parameter has a wrong value, if the graphs or targets have, or if the
                training diverged.
        """
        values = {name: getattr(self, name) for name in TAKEN if name != "pool"}
        network, protocol = in_groups(values)
        auto = isinstance(self.pool, str) and self.pool.lower() == AUTO
        pools = list(CANDIDATES) if auto else [self.pool]
        architectures = [Architecture(pool=pool, **network) for pool in pools]
        how, device = Protocol(seed=self._seed(), **protocol), pick_device(self.device)
        share = VALIDATION_FRACTION.checked(self.validation_fraction)
        graphs = self._with_targets(X, y)
        self._check(graphs)
        self._check_training(graphs)
        check_targets(graphs, how.metric)
        attributes, networks = graphs.num_edge_features > 0, [(one, how) for one in architectures]
        warn_of_unused(graphs.name, attributes, splits=False, wanted=networks)
        strata = graphs.targets.cpu() if graphs.task == "classes" else None
        split = hold_out(len(graphs), share, how.seed, strata)
        with display(self.progress, keep=True) as on:
            fitted = fit_best(graphs.to(device), architectures, how, split, on)
        self.model_, self.pool_choice_ = fitted.model, fitted.choice
        self.n_iter_ = fitted.run.epochs
        self.loss_curve_ = [loss for loss, _, _ in fitted.run.curves]
        self.validation_scores_ = [value for _, _, value in fitted.run.curves]
        return self

    def _seed(self) -> int:
        """``random_state`` if it is a number, else a number drawn from it."""
        given = self.random_state
        if given is None or not isinstance(given, Integral):
            return int(check_random_state(given).randint(2**31 - 1))
        seed: int = SETTINGS["seed"].checked(given, "random_state")
        return seed

    def _with_targets(self, X: Graphs, y: Any) -> GraphSet:
        """The graphs with the targets ``y``, or their own."""
        if isinstance(X, Sized) and not len(X):
            raise ValueError("X is empty: pass some graphs.")
        if isinstance(X, GraphSet) and y is None and X.task == "classes":
            y = X.known()  # A part of a set may lack some of its classes.
        return load_dataset(X, y=y, task=self._task)

    def _check(self, graphs: GraphSet) -> None:
        """Refuse targets that are missing, or are not what this estimator predicts."""
        if graphs.unlabelled:
            raise ValueError("the graphs have no targets: pass y, one per graph.")
        if graphs.task != "classes":
            unknown = graphs.y.isnan().all(1).nonzero()
            if len(unknown):
                raise ValueError(
                    f"graph {int(unknown[0])} has no target ({len(unknown)} of {len(graphs)}): "
                    f"leave such graphs out."
                )

    def _check_training(self, graphs: GraphSet) -> None:
        """Refuse graphs that can be predicted, but not learnt from."""

    def _ready(self) -> Model:
        """The trained model, on the device to predict on."""
        check_is_fitted(self)
        self.model_.network.to(pick_device(self.device))
        return self.model_

    def _outputs(self, X: Graphs) -> Tensor:
        """What the network gives for each graph, ``[graphs, columns]``, float64."""
        return self._ready().outputs(X).double()

    def _known(self, X: Graphs, y: Any) -> GraphSet:
        """The graphs to score, without the warnings about data, which ``fit`` has given."""
        check_is_fitted(self)
        with warnings.catch_warnings(action="ignore", category=DataWarning):
            graphs = self._with_targets(X, y)
        self._check(graphs)
        if graphs.task != self.model_.kind:
            raise ValueError(f"y are {graphs.task}, but {self.model_.kind} were learnt.")
        return graphs

    def __getstate__(self) -> dict[str, Any]:
        """Everything, with the network on the CPU: there may be no GPU where it is read."""
        state: dict[str, Any] = dict(super().__getstate__())
        if "model_" in state:
            network = copy.deepcopy(self.model_.network).cpu()
            state["model_"] = replace(self.model_, network=network)
        return state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True  # SMILES
        tags.target_tags.required = False
        return tags
