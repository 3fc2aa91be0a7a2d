"""Graph algebra without parameters."""

from lcpool.ops.assignment import Assignment
from lcpool.ops.blocks import Blocks, cluster_connect_blocks
from lcpool.ops.connect import assignment_connect, cluster_connect

__all__ = [
    "Assignment",
    "Blocks",
    "assignment_connect",
    "cluster_connect",
    "cluster_connect_blocks",
]
