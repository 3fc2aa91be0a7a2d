"""CPU kernels, compiled by numba on first use and cached on disk."""

from lcpool.ops.cpu.blocks import cluster_search
from lcpool.ops.cpu.choose import choose, choose_backward
from lcpool.ops.cpu.connect import connect_clusters
from lcpool.ops.cpu.gate import gate, gate_backward
from lcpool.ops.cpu.graph import readout, readout_backward, softmax, softmax_backward
from lcpool.ops.cpu.lcsmp import (
    combine,
    combine_backward,
    shifted_difference_backward,
    shifted_difference_sum,
)
from lcpool.ops.cpu.maximum import neighbour_max, neighbour_max_backward
from lcpool.ops.cpu.message import aggregate, difference_sum, difference_sum_backward, gcn_roots
from lcpool.ops.cpu.product import (
    columns,
    connect_assignment,
    connect_assignment_backward,
    takes_assignment,
)
from lcpool.ops.cpu.select import select
from lcpool.ops.cpu.survey import rows, survey
from lcpool.ops.cpu.weights import entry_dot, weighted_sum

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
