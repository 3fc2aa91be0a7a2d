"""The device to train on: choosing it, its name, its errors."""

from __future__ import annotations

import gc

import torch


def pick_device(device: str | torch.device | None) -> torch.device:
    """The given device, or else a GPU if there is one."""
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    found = torch.device(device)
    if found.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device '{device}' was asked for, but torch sees no CUDA device.")
    return found


def device_name(device: torch.device) -> str:
    """The name of a GPU, or "CPU"."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"


def free_memory(device: torch.device) -> None:
    """Free cached memory, as other processes may share the GPU."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def is_fault(error: BaseException | None) -> bool:
    """Whether the GPU has faulted, after which this process cannot use it any more."""
    if is_out_of_memory(error) or not isinstance(error, RuntimeError):
        return False
    return any(sign in str(error) for sign in ("CUDA error", "CUDA driver error", "CUBLAS_STATUS"))


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether a GPU ran out of memory, as reported by torch or by the libraries it calls."""
    signs = ("CUBLAS_STATUS_ALLOC_FAILED", "CUDA error: out of memory")
    return isinstance(error, torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and any(sign in str(error) for sign in signs)
    )
