"""Numbers to predict of graphs."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from lcpool.data.load import Graphs
from lcpool.estimators.base import GraphEstimator
from lcpool.settings import TaskName


class GraphRegressor(RegressorMixin, GraphEstimator):
    """A network that learns one or several numbers of graphs, in scikit-learn's manner.

    ``y`` has a number per graph, or a row of them, of which those that are NaN are not known.
    They are scaled for training, and predicted in their own units.

    Args:
        settings: how to choose a pooling, split, build and train.
        device: where to train and predict; by default a GPU if there is one.
        progress: show the progress on stderr.

    Attributes:
        model_: the trained :class:`lcpool.train.Model`; ``model_.save`` writes it to a file.
        n_iter_: how many epochs were trained.
        loss_curve_: the training loss of each epoch.
        validation_scores_: the metric on the validation graphs of each epoch.
        pool_choice_: the pooling, and with "auto" those that it was compared with; print it.

    Example:
        >>> from lcpool.data import builtin
        >>> graphs = builtin(num_graphs=40)
        >>> sizes = graphs.node_counts.numpy()
        >>> regressor = GraphRegressor("nopool", epochs=2, hidden=8, device="cpu")
        >>> regressor.fit(graphs[:30], sizes[:30]).predict(graphs[30:]).shape
        (10,)
    """

    _task: ClassVar[TaskName | None] = "values"

    def predict(self, X: Graphs) -> NDArray[np.float64]:
        """The number of each graph, ``[graphs]``; of several, ``[graphs, numbers]``."""
        outputs: NDArray[np.float64] = self._outputs(X).numpy()
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs

    def score(self, X: Graphs, y: Any = None) -> float:
        """R² = 1 − Σ(y − ŷ)² / Σ(y − ȳ)², the mean over the numbers."""
        return self._ready().score(self._known(X, y), "r2")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
