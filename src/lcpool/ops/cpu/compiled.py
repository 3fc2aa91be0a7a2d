"""How kernels for a CPU are compiled, and how they share its cores.

Threads, not numba's own parallel loops: those abort in a forked process (a data loader's workers)
or when two threads enter at once, depending on the threading layer. The kernels release the GIL, so
a plain thread pool gives the same speed with neither trap.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
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


def in_parts(
    part: Callable[[int, int], Any], size: int, work: int, least: int, share: int = 1
) -> list[Any]:
    """``part(start, stop)`` for parts of ``range(size)``, in order.

    By as many threads as torch has, but none with less than ``least`` of the ``work``: to wake one
    costs as much. Each takes ``share`` parts, far from each other, where the work may be uneven.
    """
    threads = min(torch.get_num_threads(), max(1, work // least))
    if threads == 1:
        return [part(0, size)]
    count = threads * share
    cuts = list(pairwise(size * t // count for t in range(count + 1)))

    def run(thread: int) -> list[Any]:
        return [part(*cut) for cut in cuts[thread::threads]]

    others = [workers().submit(run, thread) for thread in range(1, threads)]
    by_thread = [run(0), *(other.result() for other in others)]
    return [by_thread[i % threads][i // threads] for i in range(count)]


@cache
def workers() -> ThreadPoolExecutor:
    """Threads that wait for work, started as they are needed."""
    return ThreadPoolExecutor(os.cpu_count(), "lcpool")


if hasattr(os, "register_at_fork"):  # A forked process has the pool, but none of its threads.
    os.register_at_fork(after_in_child=workers.cache_clear)
