"""GPU kernels, compiled by Triton on first use and cached on disk."""

from lcpool.ops.gpu.connect import connect_assignment, connect_clusters
from lcpool.ops.gpu.graph import readout, readout_backward, softmax, softmax_backward
from lcpool.ops.gpu.message import aggregate, difference_sum, difference_sum_backward, gcn_roots

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
