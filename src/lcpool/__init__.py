"""Graph pooling by local cluster selection: LCPool and its peers as layers for PyG."""

from lcpool.nn import LCSMP, ClusterAttention, ConvScore, ProjectionScore, Score
from lcpool.ops import Assignment, assignment_connect, cluster_connect
from lcpool.pool import (
    ASAPooling,
    DenseAssignmentPooling,
    DiffPooling,
    LCPooling,
    LocalAssignmentPooling,
    LocalClusterPooling,
    MinCutPooling,
    Pooled,
    SAGPooling,
    TopKPooling,
)

__version__ = "0.1.0"

__all__ = [
    "LCSMP",
    "ASAPooling",
    "Assignment",
    "ClusterAttention",
    "ConvScore",
    "DenseAssignmentPooling",
    "DiffPooling",
    "LCPooling",
    "LocalAssignmentPooling",
    "LocalClusterPooling",
    "MinCutPooling",
    "Pooled",
    "ProjectionScore",
    "SAGPooling",
    "Score",
    "TopKPooling",
    "assignment_connect",
    "cluster_connect",
]
