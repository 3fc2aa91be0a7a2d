"""How kernels run on a CPU: compiled, on the threads that torch's own kernels run on.

After each operation torch's threads wait actively for more work, and keep their core busy. Threads
of another pool would compete with them for the cores after every matrix product. So work is given
to torch's OpenMP runtime. Where there is no GNU OpenMP, or in a forked process (a data loader's
worker), which does not have its parent's threads, a plain pool does it.

Numba's own parallel loops abort in a forked process, or when two threads enter at once, depending
on the threading layer. The kernels release the GIL; nothing else is needed.
"""

from __future__ import annotations

import ctypes
import logging
import multiprocessing
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

import torch
from numba import njit
from numba.core import event
from torch import Tensor

from lcpool.process import PROCESS

Entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
# A second thread pays from this many additions on.
SUMS_PER_THREAD = 2**19


class Announcement(event.Listener):  # type: ignore[misc]
    """Says once per process that kernels are compiled, which takes some seconds.

    It is one line on stderr, unless the program sets up logging otherwise.
    """

    said = False

    def on_start(self, compiling: Any) -> None:
        module = compiling.data["dispatcher"].py_func.__module__
        if module.partition(".")[0] == "lcpool" and not self.said:
            self.said = True
            logging.getLogger("lcpool").warning(
                "lcpool compiles CPU kernels on first use: some seconds; later runs have them."
            )

    def on_end(self, compiling: Any) -> None: ...


if multiprocessing.parent_process() is None:  # Workers are silent.
    event.register("numba:compile", Announcement())


def compiled(function: Callable[..., Any], **options: Any) -> Any:
    """``function`` compiled, without the GIL, and cached on disk if a folder can be written."""
    try:
        return njit(nogil=True, cache=True, **options)(function)
    except RuntimeError:  # No folder can be written: each process compiles.
        return njit(nogil=True, **options)(function)


def regrouped(function: Callable[..., Any]) -> Any:
    """``function`` compiled with vectorised sums, whose order is fixed when it is compiled.

    The same input gives the same bits.
    """
    return compiled(function, fastmath={"reassoc"})


def arrays(*tensors: Tensor | None) -> list[Any]:
    """The tensors as numba reads them."""
    # Only where it must be: to detach takes as long as the rest.
    bare = (x.detach() if x is not None and x.requires_grad else x for x in tensors)
    return [None if x is None else x.numpy() for x in bare]


def sum_rows(part: Callable[..., Any], size: int, work: int, *tensors: Tensor | None) -> list[Any]:
    """:func:`in_parts` for rows of tensors, and ``work`` additions."""
    return in_parts(part, size, work, SUMS_PER_THREAD, *arrays(*tensors))


def in_parts(
    part: Callable[..., Any], size: int, work: int, least: int, *args: Any, share: int = 1
) -> list[Any]:
    """``part(start, stop, *args)`` for parts of ``range(size)``; its results in order.

    Uses as many threads as torch, but none with less than ``least`` of the ``work``: to wake a
    thread takes as long. Each takes ``share`` parts, more where the work may be uneven.
    """
    threads = min(torch.get_num_threads(), max(1, work // least))
    if threads == 1:
        return [part(0, size, *args)]
    count = threads * share
    cuts = list(pairwise(size * t // count for t in range(count + 1)))
    left, found = iter(range(count)), [None] * count
    errors: list[tuple[int, BaseException]] = []

    def take(_: Any = None) -> None:
        """Work on parts that no thread has taken yet; errors are raised in the calling thread."""
        i = count
        try:
            while not errors:
                i = next(left, count)
                if i == count:
                    return
                found[i] = part(*cuts[i], *args)
        except BaseException as error:
            errors.append((i, error))

    run_together(take)
    take()  # Where no other thread came, or all were interrupted.
    if errors:
        raise min(errors, key=lambda pair: pair[0])[1]
    return found


def run_together(take: Callable[..., None]) -> None:
    """Call ``take`` in all of torch's threads at once, this one among them.

    OpenMP would end threads that are left out, and start them again for the next product.
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
    """The function that starts a parallel region of torch's OpenMP runtime, or None."""
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
    """A pool of threads, started as they are needed."""
    return ThreadPoolExecutor(os.cpu_count(), "lcpool")


if hasattr(os, "register_at_fork"):  # A forked process has the pool, but none of its threads.
    os.register_at_fork(after_in_child=own_threads.cache_clear)
