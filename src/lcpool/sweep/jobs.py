"""Jobs at work, and what has become of them."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

from lcpool.sweep.events import Event, Progress
from lcpool.sweep.grid import Job

# When a job is taken for dead: silent for so many times its longest silence, but at least for some
# minutes; and for an hour before its first epoch, which may read much data and compile kernels.
SILENCES, LEAST_SILENCE, FIRST_SILENCE = 20, 600.0, 3600.0


@dataclass
class AtWork:
    """A job that is being trained.

    Attributes:
        job: the job.
        expected: the seconds it was thought to take.
        since: when it began here.
        progress: the last epoch that was heard of.
        silent: seconds since anything was heard of it; none count before its worker has begun.
        silence: the longest time without a word after the first epoch.
    """

    job: Job
    expected: float
    since: float = field(default_factory=time.monotonic)
    progress: Progress | None = None
    silent: float = -math.inf
    silence: float = 0.0

    def least(self) -> float:
        """Seconds until patience ends, if nothing improves."""
        return self.progress.pace * self.progress.left if self.progress else 0.0

    def left(self) -> float:
        """Seconds it will still take: as expected, and at least until patience ends."""
        return max(self.expected - (time.monotonic() - self.since), self.least())

    def listen(self, event: Event) -> None:
        """Take note of what it says."""
        if self.progress is not None:
            self.silence = max(self.silence, self.silent)
        self.silent = 0.0
        if isinstance(event, Progress):
            self.progress = event

    def hangs(self) -> bool:
        """Whether nothing has been heard of it for so long that nothing will be."""
        usual = max(LEAST_SILENCE, SILENCES * self.silence)
        return self.silent > (usual if self.progress else FIRST_SILENCE)


@dataclass(frozen=True)
class Outcome:
    """How a sweep ended.

    Attributes:
        complete: jobs with all their runs.
        failed: jobs that were set aside, with the last reason.
        left: jobs that are still to be trained.
        others: who trains some of these.
        runs: how many runs were trained now.
        seconds: how long that took.
        stopped: why it ended before all was done.
    """

    complete: int
    failed: list[tuple[Job, str]]
    left: list[Job]
    others: list[str]
    runs: int
    seconds: float
    stopped: str = ""


def counted(number: int, thing: str) -> str:
    """A number of things.

    >>> counted(1, "job"), counted(2, "job")
    ('1 job', '2 jobs')
    """
    return f"{number} {thing}{'' if number == 1 else 's'}"
