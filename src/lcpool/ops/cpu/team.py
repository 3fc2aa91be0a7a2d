"""How kernels share the cores of a CPU: on the threads that torch's own kernels run on.

These wait for more work for a while before they sleep, and keep their core busy meanwhile. Threads
of another pool would have to fight them for it after every matrix product. So work is handed to
torch's OpenMP runtime. Where there is none of GNU's kind, or in a forked process (a data loader's
worker), whose parent has kept the threads, a plain pool does it.

Numba's own parallel loops abort in a forked process, or when two threads enter at once, depending
on the threading layer. The kernels release the GIL; nothing else is needed.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

import torch

PROCESS = os.getpid()
Entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def in_parts(
    part: Callable[[int, int], Any], size: int, work: int, least: int, share: int = 1
) -> list[Any]:
    """``part(start, stop)`` for parts of ``range(size)``, in order.

    By as many threads as torch has, but none with less than ``least`` of the ``work``: to wake one
    costs as much. ``share`` parts for each, where the work may be uneven.
    """
    threads = min(torch.get_num_threads(), max(1, work // least))
    if threads == 1:
        return [part(0, size)]
    count = threads * share
    cuts = list(pairwise(size * t // count for t in range(count + 1)))
    left, found, wrong = iter(range(count)), [None] * count, {}

    def take() -> None:
        for i in left:  # Each thread takes what the others have left.
            try:
                found[i] = part(*cuts[i])
            except BaseException as error:  # raised below, where somebody can catch it
                wrong[i] = error

    run_together(take, threads)
    if wrong:
        raise wrong[min(wrong)]
    return found


def run_together(take: Callable[[], None], threads: int) -> None:
    """Call ``take`` in up to so many threads at once, this one among them."""
    parallel = torch_threads()
    if parallel is not None and os.getpid() == PROCESS:
        parallel(Entry(lambda _: take()), None, threads, 0)
        return
    others = [own_threads().submit(take) for _ in range(threads - 1)]
    take()
    for other in others:
        other.result()


@cache
def torch_threads() -> Any:
    """What starts a parallel region of the OpenMP runtime that torch has loaded, or None."""
    if sys.platform != "linux":
        return None
    try:
        parallel = ctypes.CDLL(None).GOMP_parallel
    except AttributeError:
        return None
    parallel.argtypes = [Entry, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
    parallel.restype = None
    return parallel


@cache
def own_threads() -> ThreadPoolExecutor:
    """Threads that wait for work, started as they are needed."""
    return ThreadPoolExecutor(os.cpu_count(), "lcpool")


if hasattr(os, "register_at_fork"):  # A forked process has the pool, but none of its threads.
    os.register_at_fork(after_in_child=own_threads.cache_clear)
