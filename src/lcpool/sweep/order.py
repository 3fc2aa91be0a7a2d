"""Which job is begun next."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

from lcpool.sweep.grid import Job
from lcpool.sweep.jobs import AtWork


def mixed(
    waiting: Iterable[Job], at_work: Iterable[AtWork], seconds: Callable[[Job], float]
) -> list[Job]:
    """The jobs that wait, in the order to begin them: datasets side by side, longest first in each.

    Large graphs keep a GPU busy, and small ones the processes that feed it. Side by side they use
    both; one dataset after the other, which is what the longest first of all comes to, leaves now
    the GPU idle and now the processes. So each dataset is worked at in proportion to what is left
    of it: a worker goes where the most is left for each worker, itself included (d'Hondt's way of
    giving seats to parties).

    Args:
        waiting: jobs to begin.
        at_work: jobs that are being trained.
        seconds: how long a job will take.
    """
    lines: dict[str, list[Job]] = defaultdict(list)
    left: defaultdict[str, float] = defaultdict(float)
    workers: Counter[str] = Counter()
    for work in at_work:
        left[_dataset(work.job)] += work.left()
        workers[_dataset(work.job)] += 1
    for job in sorted(waiting, key=seconds):
        left[_dataset(job)] += seconds(job)
        lines[_dataset(job)].append(job)
    order = []
    while lines:
        name = max(lines, key=lambda name: left[name] / (workers[name] + 1))
        workers[name] += 1
        order.append(lines[name].pop())
        if not lines[name]:
            del lines[name]
    return order


def _dataset(job: Job) -> str:
    return job.cells[0].dataset.digest
