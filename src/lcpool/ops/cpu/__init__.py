"""CPU kernels, compiled by numba on first use and cached on disk."""

from lcpool.ops.cpu.connect import connect_clusters
from lcpool.ops.cpu.graph import readout, readout_backward, softmax, softmax_backward
from lcpool.ops.cpu.message import aggregate, difference_sum, difference_sum_backward, gcn_roots
from lcpool.ops.cpu.product import connect_assignment

__all__ = [
    "aggregate",
    "connect_assignment",
    "connect_clusters",
    "difference_sum",
    "difference_sum_backward",
    "gcn_roots",
    "readout",
    "readout_backward",
    "softmax",
    "softmax_backward",
]
