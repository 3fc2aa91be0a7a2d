"""Every kernel in plain torch: for devices without compiled ones, and to check those against.

The gradients among them are differentiable again: second derivatives go through them everywhere.
"""

from lcpool.ops.cells.plain import *
from lcpool.ops.connect.plain import *
from lcpool.ops.contract.plain import *
from lcpool.ops.fused_lcpool.plain import *
from lcpool.ops.independent_set.plain import *
from lcpool.ops.inspect.plain import *
from lcpool.ops.matching.plain import *
from lcpool.ops.matmul.plain import *
from lcpool.ops.message.plain import *
from lcpool.ops.readout.plain import *
from lcpool.ops.topk.plain import *
