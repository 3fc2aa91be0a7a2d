"""Top-k in plain torch: two stable sorts."""

from __future__ import annotations

import torch
from torch import Tensor

from lcpool.graph.sizes import owners

__all__ = ["topk"]


def topk(
    rank: Tensor, counts: Tensor, ptr: Tensor, kept_ptr: Tensor, num_kept: int
) -> tuple[Tensor, Tensor]:
    order = rank.argsort(descending=True, stable=True)
    order = order[owners(ptr, rank.numel())[order].argsort(stable=True)]
    # Slot t of the output is the (t − Σ_{b' < b} k_b')-th best node of its graph b.
    batch = owners(kept_ptr, num_kept)
    slots = torch.arange(num_kept, device=rank.device)
    return order[slots + (ptr - kept_ptr)[batch]], batch
