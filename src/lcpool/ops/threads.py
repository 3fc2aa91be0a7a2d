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

from lcpool.process import PROCESS

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
    left, found = iter(range(count)), [None] * count
    wrong: list[tuple[int, BaseException]] = []

    def take(_: Any = None) -> None:
        """Parts that the others have left; what goes wrong is raised where one can catch it."""
        i = count
        try:
            while not wrong:
                i = next(left, count)
                if i == count:
                    return
                found[i] = part(*cuts[i])
        except BaseException as error:
            wrong.append((i, error))

    run_together(take)
    take()  # Where the others were not to be had, or were interrupted.
    if wrong:
        raise min(wrong, key=lambda pair: pair[0])[1]
    return found


def run_together(take: Callable[..., None]) -> None:
    """Call ``take`` in all of torch's threads at once, this one among them.

    In all: OpenMP would end those that are left out, and start them again for the next product.
    """
    parallel, threads = torch_threads(), torch.get_num_threads()
    if parallel is not None and os.getpid() == PROCESS:
        parallel(Entry(take), None, threads, 0)
        return
    others = [own_threads().submit(take) for _ in range(threads - 1)]
    take()
    for other in others:
        if not other.cancel():
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
