"""How kernels for a CPU are compiled, and how they share its cores.

Threads, not numba's own parallel loops: those abort in a forked process (a data loader's workers)
or when two threads enter at once, depending on the threading layer. The kernels release the GIL, so
a plain thread pool gives the same speed with neither trap.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import torch
from numba import njit


def compiled(function: Callable[..., Any]) -> Any:
    """``function`` compiled, without the GIL, and cached where there is a folder to write to."""
    try:
        return njit(nogil=True, cache=True)(function)
    except RuntimeError:  # No folder can be written: compile in every process.
        return njit(nogil=True)(function)


def in_parts(part: Callable[[int, int], Any], size: int, work: int, least: int) -> list[Any]:
    """``part(start, stop)`` for parts of ``range(size)``, a thread each, in order.

    As many as torch has threads, but none with less than ``least`` of the ``work``: to start one
    costs as much.
    """
    threads = min(torch.get_num_threads(), max(1, work // least))
    if threads == 1:
        return [part(0, size)]
    cuts = [size * t // threads for t in range(threads + 1)]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda cut: part(*cut), pairwise(cuts)))
