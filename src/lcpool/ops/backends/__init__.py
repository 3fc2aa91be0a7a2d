"""All kernels of one kind, gathered from the operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lcpool.ops.backends import cpu, gpu, plain
    from lcpool.ops.kernels import Kernels

    # Here mypy compares what they offer with what is declared.
    in_torch: Kernels = plain
    for_cpus: Kernels = cpu
    for_gpus: Kernels = gpu
