"""Graph algebra without parameters."""

from lcpool.ops.assignment import Assignment
from lcpool.ops.connect import assignment_connect, cluster_connect

__all__ = ["Assignment", "assignment_connect", "cluster_connect"]
