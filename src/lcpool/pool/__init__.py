"""The pooling operators, composed from ``ops`` and ``nn``."""

from lcpool.pool.asap import ASAPooling
from lcpool.pool.dense import DenseAssignmentPooling
from lcpool.pool.diff import DiffPooling
from lcpool.pool.lc import LCPooling
from lcpool.pool.local import LocalAssignmentPooling, LocalClusterPooling
from lcpool.pool.mincut import MinCutPooling
from lcpool.pool.output import Pooled
from lcpool.pool.sag import SAGPooling
from lcpool.pool.topk import TopKPooling

__all__ = [
    "ASAPooling",
    "DenseAssignmentPooling",
    "DiffPooling",
    "LCPooling",
    "LocalAssignmentPooling",
    "LocalClusterPooling",
    "MinCutPooling",
    "Pooled",
    "SAGPooling",
    "TopKPooling",
]
