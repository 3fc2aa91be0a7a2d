"""Graph pooling by local cluster selection: LCPool and its peers as layers for PyG."""

from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from lcpool.sweep import compare

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
    "compare",
]


def __getattr__(name: str) -> Any:
    """``compare`` when it is asked for: the layers do without what the lab needs."""
    if name == "compare":
        from lcpool.sweep import compare

        return compare
    raise AttributeError(f"module 'lcpool' has no attribute '{name}'")
