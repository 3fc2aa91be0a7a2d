"""The pooling operators: a base that asks four questions, and a file for each that answers them."""

from lcpool.pool.asap import ASAPooling
from lcpool.pool.base import Pooling, PoolingError
from lcpool.pool.cell import CellPooling
from lcpool.pool.dense import DenseAssignmentPooling
from lcpool.pool.diff import DiffPooling
from lcpool.pool.dmon import DMoNPooling
from lcpool.pool.edge import EdgePooling
from lcpool.pool.foreign import ForeignPooling
from lcpool.pool.graclus import GraclusPooling
from lcpool.pool.kmis import KMISPooling
from lcpool.pool.lc import LCPooling
from lcpool.pool.local import LocalAssignmentPooling, LocalClusterPooling
from lcpool.pool.mincut import MinCutPooling
from lcpool.pool.none import NoPooling
from lcpool.pool.output import Pooled
from lcpool.pool.partition import Partition, PartitionPooling
from lcpool.pool.random import RandomAssignment, RandomSelection
from lcpool.pool.sag import SAGPooling
from lcpool.pool.scored import ScoredPooling
from lcpool.pool.selection import Selection
from lcpool.pool.topk import TopKPooling

__all__ = [
    "ASAPooling",
    "CellPooling",
    "DMoNPooling",
    "DenseAssignmentPooling",
    "DiffPooling",
    "EdgePooling",
    "ForeignPooling",
    "GraclusPooling",
    "KMISPooling",
    "LCPooling",
    "LocalAssignmentPooling",
    "LocalClusterPooling",
    "MinCutPooling",
    "NoPooling",
    "Partition",
    "PartitionPooling",
    "Pooled",
    "Pooling",
    "PoolingError",
    "RandomAssignment",
    "RandomSelection",
    "SAGPooling",
    "ScoredPooling",
    "Selection",
    "TopKPooling",
]
