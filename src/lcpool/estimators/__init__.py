"""Networks that fit in scikit-learn's manner: ``GraphClassifier`` and ``GraphRegressor``."""

from lcpool.extras import needs

with needs("sklearn"):
    from lcpool.estimators.base import GraphEstimator
    from lcpool.estimators.choice import PoolChoice, Trial
    from lcpool.estimators.classifier import GraphClassifier
    from lcpool.estimators.regressor import GraphRegressor

__all__ = ["GraphClassifier", "GraphEstimator", "GraphRegressor", "PoolChoice", "Trial"]
