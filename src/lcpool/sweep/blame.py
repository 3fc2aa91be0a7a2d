"""Which job to try again, and which to set aside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from lcpool.sweep.grid import Job

TRIES = 3


class Blame:
    """Failures of jobs, and who is suspected of a fault that took several down.

    Under MPS a fault of one process is a fault of all, and nobody says whose it was. All that were
    at work become suspects, and from then on only half as many suspects as were at work in a fault
    may be at work at once: until one is alone among others that are above suspicion. The next fault
    counts against that one. A suspect that finishes is cleared.
    """

    def __init__(self) -> None:
        self.failures: Counter[Job] = Counter()
        self.suspects: set[Job] = set()
        self.at_once = 0

    def failed(self, job: Job) -> None:
        """A job failed by itself."""
        self.failures[job] += 1

    def faulted(self, jobs: Collection[Job]) -> None:
        """These jobs went down together."""
        suspected = [job for job in jobs if job in self.suspects] or list(jobs)
        if len(suspected) == 1:
            self.failures[suspected[0]] += 1
        self.suspects.update(suspected)
        self.at_once = max(1, len(suspected) // 2)

    def finished(self, job: Job) -> None:
        """A job is done."""
        self.suspects.discard(job)

    def set_aside(self, job: Job) -> bool:
        """Whether a job has failed too often."""
        return self.failures[job] >= TRIES

    def may_start(self, job: Job, at_work: Collection[Job]) -> bool:
        """Whether to start a job now, while others are at work."""
        if self.set_aside(job):
            return False
        suspects = sum(other in self.suspects for other in at_work)
        return job not in self.suspects or suspects < self.at_once
