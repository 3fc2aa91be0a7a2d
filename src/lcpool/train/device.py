"""The device that trains: which one, its name, and what it says when it cannot go on."""

from __future__ import annotations

import gc

import torch


def pick_device(device: str | torch.device | None) -> torch.device:
    """The device that was asked for, or a GPU if there is one."""
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    found = torch.device(device)
    if found.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device '{device}' was asked for, but torch sees no CUDA device.")
    return found


def device_name(device: torch.device) -> str:
    """The device in words."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"


def free_memory(device: torch.device) -> None:
    """Give back what a stack has used: other processes share the GPU."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def is_fault(error: BaseException | None) -> bool:
    """Whether the GPU has faulted: nothing can be computed in this process any more."""
    if is_out_of_memory(error) or not isinstance(error, RuntimeError):
        return False
    text = str(error)
    return any(sign in text for sign in ("CUDA error", "CUDA driver error", "CUBLAS_STATUS"))


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether a GPU had no room: torch's own words for it, or those of what torch calls."""
    signs = ("CUBLAS_STATUS_ALLOC_FAILED", "CUDA error: out of memory")
    return isinstance(error, torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and any(sign in str(error) for sign in signs)
    )
