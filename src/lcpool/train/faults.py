"""Errors of a GPU: which ones mean a fault, and which too little memory."""

from __future__ import annotations

import torch


def is_fault(error: BaseException | None) -> bool:
    """Whether the GPU has faulted, after which this process cannot use it any more."""
    if is_out_of_memory(error) or not isinstance(error, RuntimeError):
        return False
    # Of torch, of the driver by torch, of cuBLAS, and of Triton, which launches kernels itself.
    signs = ("CUDA error", "CUDA driver error", "CUBLAS_STATUS", "Triton Error [CUDA]")
    return any(sign in str(error) for sign in signs)


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether a GPU ran out of memory, as reported by torch or by the libraries it calls."""
    signs = (
        "CUBLAS_STATUS_ALLOC_FAILED", "CUDA error: out of memory",
        "CUDA driver error: out of memory", "Triton Error [CUDA]: out of memory",
    )  # fmt: skip
    return isinstance(error, torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and any(sign in str(error) for sign in signs)
    )
