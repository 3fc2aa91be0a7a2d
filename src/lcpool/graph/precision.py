"""16-bit numbers, widened for sums."""

from __future__ import annotations

import torch
from torch import Tensor


def wide(x: Tensor) -> Tensor:
    """``x`` in float32 if it has 16 bits: sums of ones stop at 256 (bfloat16) or 2048."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
