"""Every kernel compiled for GPUs by Triton, on first use, and cached on disk."""

from lcpool.ops.cells.gpu import *
from lcpool.ops.connect.gpu import *
from lcpool.ops.contract.gpu import *
from lcpool.ops.fused_lcpool.gpu import *
from lcpool.ops.independent_set.gpu import *
from lcpool.ops.inspect.gpu import *
from lcpool.ops.matching.gpu import *
from lcpool.ops.matmul.gpu import *
from lcpool.ops.message.gpu import *
from lcpool.ops.readout.gpu import *
from lcpool.ops.topk.gpu import *
