"""How kernels are launched: on the GPU of their tensors, and without being looked at each time.

Triton launches on the current GPU, wherever the tensors are. And in every call it works out anew
which of its compiled versions the arguments ask for, which takes the host longer than the launch
(``benchmarks/dispatch.py``); a layer on small graphs waits for little else.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import triton
from torch import Tensor
from triton.runtime.jit import JITFunction

LEAST, MOST = -(2**31), 2**31 - 1


class Kernel:
    """A Triton kernel. The first of its arguments is a tensor.

    What Triton compiles a version for is known by the arguments: the type of a tensor and whether
    it begins at a multiple of 16 bytes; whether a number is 1, a multiple of 16, or too large for
    32 bits; and the value of a constant.
    """

    def __init__(self, function: JITFunction[Any]) -> None:
        self.function = function
        self.constant = [parameter.is_constexpr for parameter in function.params]
        self.versions: dict[tuple[Any, ...], Any] = {}

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        return partial(self.launch, grid)

    def launch(self, grid: tuple[int, ...], *args: Any, **options: int) -> None:
        """Run ``grid`` programs."""
        gpu = args[0].device.index
        if gpu != torch.cuda.current_device():
            with torch.cuda.device(gpu):
                return self.launch(grid, *args, **options)
        version = (
            gpu, *options.values(),
            *(
                arg if constant
                else (arg.dtype, arg.data_ptr() % 16 == 0) if isinstance(arg, Tensor)
                else (arg == 1, arg % 16 == 0, LEAST <= arg <= MOST)
                for arg, constant in zip(args, self.constant, strict=True)
            ),
        )  # fmt: skip
        compiled = self.versions.get(version)
        if compiled is None:
            self.versions[version] = self.function[grid](*args, **options)
        else:
            compiled[(*grid, 1, 1)[:3]](*args)
        return None


def kernel(function: Callable[..., None]) -> Any:
    """Make a Triton kernel of a function.

    As Triton makes it where that is needed: for its interpreter, and for AMD's GPUs, for which it
    looks at more.
    """
    made = triton.jit(function)
    known = isinstance(made, JITFunction) and torch.version.hip is None
    return Kernel(made) if known else made


def cdiv(count: int, size: int) -> int:
    """⌈count / size⌉. Triton's own, made for kernels, takes some microseconds."""
    return -(-count // size)


def power_of_2(count: int) -> int:
    """The next power of two, at least 1."""
    return 1 << max(count - 1, 0).bit_length()
