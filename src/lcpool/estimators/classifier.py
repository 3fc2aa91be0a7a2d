"""Classes, or several labels, of graphs."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score

from lcpool.data import DataWarning, GraphSet
from lcpool.data.load import Graphs
from lcpool.estimators.base import GraphEstimator
from lcpool.warn import warn_caller


class GraphClassifier(ClassifierMixin, GraphEstimator):
    """A network that learns the class of graphs, in scikit-learn's manner.

    ``y`` is either one class per graph (numbers or words), or one row of 0/1 labels per graph, with
    NaN where a label is missing.

    Args:
        settings: how to choose a pooling, split, build and train.
        device: where to train and predict; by default a GPU if there is one.
        progress: show the progress on stderr.

    Attributes:
        classes_: the classes, sorted; for labels, a row ``[0, 1]`` for each.
        model_: the trained :class:`lcpool.train.Model`; ``model_.save`` writes it to a file.
        n_iter_: how many epochs were trained.
        loss_curve_: the training loss of each epoch.
        validation_scores_: the metric on the validation graphs of each epoch.
        pool_choice_: the pooling, and with "auto" those that it was compared with; print it.

    Example:
        >>> from lcpool.data import builtin
        >>> from sklearn.model_selection import cross_val_score
        >>> graphs = builtin(num_graphs=60)
        >>> classifier = GraphClassifier("nopool", epochs=2, hidden=8, device="cpu")
        >>> classifier.fit(graphs[:50]).predict(graphs[50:]).shape
        (10,)
        >>> len(cross_val_score(classifier, graphs, graphs.known(), cv=3))
        3
    """

    classes_: NDArray[Any]

    def fit(self, X: Graphs, y: Any = None) -> Self:
        super().fit(X, y)
        model = self.model_
        if model.kind == "labels":
            self.classes_ = np.tile(np.arange(2), (model.num_outputs, 1))
            return self
        self.classes_ = np.array(model.classes)
        given = np.asarray([] if y is None else y).dtype
        if y is not None and given.kind in "bf":  # True and False, or 1.0 and 2.0, stay such
            self.classes_ = self.classes_.astype(given)
        return self

    def predict(self, X: Graphs) -> NDArray[Any]:
        """The class of each graph, ``[graphs]``; or 0 or 1 for each label, ``[graphs, labels]``."""
        outputs = self._outputs(X).numpy()
        if self.model_.kind == "labels":
            return (outputs > 0).astype(np.int64)
        found: NDArray[Any] = self.classes_[outputs.argmax(1)]
        return found

    def predict_proba(self, X: Graphs) -> NDArray[np.float64]:
        """The probability of each class, in the order of ``classes_``; or of each label."""
        found: NDArray[np.float64] = self._ready().task.probabilities(self._outputs(X)).numpy()
        return found

    def score(self, X: Graphs, y: Any = None) -> float:
        """The share of graphs whose class, or whose known labels all, are predicted."""
        graphs = self._known(X, y)
        if y is None and len(graphs) > 1 and len(graphs.classes) == 1 < len(self.classes_):
            # scikit-learn makes folds of equal parts of each class only if it sees the classes.
            warn_caller(
                f"all {len(graphs)} graphs to score are of class {graphs.classes[0]!r}. If these "
                f"are folds of sorted graphs, pass y to scikit-learn, too: cross_val_score("
                f"classifier, graphs, graphs.known()).",
                DataWarning,
            )
        if graphs.task == "classes":
            return float(accuracy_score(graphs.known(), self._ready().predict(graphs)))
        true = graphs.y.cpu().numpy()
        return float(((self.predict(graphs) == true) | np.isnan(true)).all(1).mean())

    def _check(self, graphs: GraphSet) -> None:
        super()._check(graphs)
        if graphs.task == "values":
            raise ValueError(
                "Unknown label type: y has numbers that are no classes, or several that are not 0 "
                "and 1. GraphRegressor predicts such."
            )

    def _check_training(self, graphs: GraphSet) -> None:
        if graphs.task != "classes":
            return
        for number, count in enumerate(graphs.targets.bincount().tolist()):
            if count == 1:
                raise ValueError(
                    f"class {graphs.classes[number]!r} has one graph, which cannot both train and "
                    f"validate: add another, or leave it out."
                )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags
