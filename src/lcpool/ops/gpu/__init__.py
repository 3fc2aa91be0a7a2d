"""GPU kernels, compiled by Triton on first use and cached on disk."""

from lcpool.ops.gpu.choose import choose, choose_backward
from lcpool.ops.gpu.connect import connect_clusters
from lcpool.ops.gpu.gate import gate, gate_backward
from lcpool.ops.gpu.graph import readout, readout_backward, softmax, softmax_backward
from lcpool.ops.gpu.lcsmp import (
    combine,
    combine_backward,
    shifted_difference_backward,
    shifted_difference_sum,
)
from lcpool.ops.gpu.maximum import neighbour_max, neighbour_max_backward
from lcpool.ops.gpu.message import aggregate, difference_sum, difference_sum_backward, gcn_roots
from lcpool.ops.gpu.product import connect_assignment, connect_assignment_backward, takes_assignment
from lcpool.ops.gpu.select import select
from lcpool.ops.gpu.survey import rows, survey
from lcpool.ops.gpu.weights import entry_dot, weighted_sum
from lcpool.ops.plain import cluster_search, columns

__all__ = [
    "aggregate",
    "choose",
    "choose_backward",
    "cluster_search",
    "columns",
    "combine",
    "combine_backward",
    "connect_assignment",
    "connect_assignment_backward",
    "connect_clusters",
    "difference_sum",
    "difference_sum_backward",
    "entry_dot",
    "gate",
    "gate_backward",
    "gcn_roots",
    "neighbour_max",
    "neighbour_max_backward",
    "readout",
    "readout_backward",
    "rows",
    "select",
    "shifted_difference_backward",
    "shifted_difference_sum",
    "softmax",
    "softmax_backward",
    "survey",
    "takes_assignment",
    "weighted_sum",
]
