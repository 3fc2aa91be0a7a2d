"""Every kernel compiled for CPUs by numba, on first use, and cached on disk."""

from lcpool.ops.cells.cpu import *
from lcpool.ops.connect.cpu import *
from lcpool.ops.contract.cpu import *
from lcpool.ops.fused_lcpool.cpu import *
from lcpool.ops.independent_set.cpu import *
from lcpool.ops.inspect.cpu import *
from lcpool.ops.matching.cpu import *
from lcpool.ops.matmul.cpu import *
from lcpool.ops.message.cpu import *
from lcpool.ops.readout.cpu import *
from lcpool.ops.topk.cpu import *
