"""A sweep: gives the missing jobs to an engine, and stores the runs that come back."""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from lcpool.progress import clock
from lcpool.sweep.claims import Owner
from lcpool.sweep.engines.engine import Engine, Happened
from lcpool.sweep.engines.task import (
    Ended,
    EpochDone,
    Event,
    Failed,
    Finished,
    Noted,
    Planned,
    Stopped,
    Task,
    in_short,
    is_fault,
)
from lcpool.sweep.grid import Cell, Job, Wanted
from lcpool.sweep.store import Store
from lcpool.train.checkpoint import interrupt_later

TRIES = 3  # failures after which a job is set aside
EPOCH_TIMEOUT = 3600.0  # seconds; the first epoch may also read much data and compile kernels
TICK = 0.5  # seconds between two looks at the clock
POLL = 2.0  # seconds between two looks at what other commands have left
# Time for stopping cleanly: at most so many seconds, and this share of a limit.
GRACE, GRACE_SHARE = 10.0, 0.1
# The most seconds of silence that one turn adds: a sweep that was itself stopped (Ctrl-Z) heard
# nothing meanwhile.
HEARING = 10.0
# Rough times of a training step, relative to no pooling; only the order of jobs depends on them.
COST = {"nopool": 1.0, "topkpool": 1.1, "sagpool": 1.3, "mincutpool": 1.4, "diffpool": 1.5,
        "lcpool": 2.0, "lcpool*": 2.2, "asapool": 3.0}  # fmt: skip
OWN_COST = 2.0


class View(Protocol):
    """Shows a sweep to a user."""

    def say(self, message: str) -> None:
        """Print a line that stays."""

    def show(self, sweep: Sweep) -> None:
        """Show the current state; called often."""


@dataclass
class AtWork:
    """A job that is being trained.

    Attributes:
        job: the job.
        left: how many of its runs have not ended.
        since: when it was given to the engine.
        epoch: the last epoch that ended.
        silent: seconds since its last event; they count once a worker has begun it.
    """

    job: Job
    left: int
    since: float = field(default_factory=time.monotonic)
    epoch: EpochDone | None = None
    silent: float = -math.inf

    def listen(self, event: Event) -> None:
        """Note an event."""
        self.silent = 0.0
        if isinstance(event, EpochDone):
            self.epoch = event


@dataclass(frozen=True)
class Outcome:
    """How a sweep ended.

    Attributes:
        complete: how many jobs have all their runs.
        failed: jobs that were set aside, each with its last error.
        left: jobs that are still to be trained.
        others: other commands that train some of these.
        runs: how many runs this sweep trained.
        seconds: how long it took.
        stopped: why it ended early, if it did.
    """

    complete: int
    failed: list[tuple[Job, str]]
    left: list[Job]
    others: list[str]
    runs: int
    seconds: float
    stopped: str = ""

    @property
    def jobs(self) -> int:
        """How many jobs there were."""
        return self.complete + len(self.failed) + len(self.left)


class Sweep:
    """Trains jobs with an engine, and stores the runs.

    Args:
        jobs: the jobs.
        store: where the runs go; those that it has already are not trained.
        engine: where to train.
        view: shows what happens.
        stack: the most runs to train as one.
        limit: seconds after which to stop.
        epoch_timeout: seconds after which a job whose epoch has not ended is killed.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        store: Store,
        engine: Engine,
        view: View,
        stack: int | None = None,
        limit: float = math.inf,
        epoch_timeout: float = EPOCH_TIMEOUT,
    ) -> None:
        self.jobs, self.store, self.engine, self.view = list(jobs), store, engine, view
        self.stack, self.epoch_timeout = stack, epoch_timeout
        self.failures: Counter[Job] = Counter()
        self.reasons: dict[Job, str] = {}
        self.suspects: set[Job] = set()
        self.at_work: dict[Task, AtWork] = {}
        self.started = self.turned = time.monotonic()
        self.runs = 0
        self.stopping = ""
        self.blocked_until = 0.0
        grace = min(GRACE, GRACE_SHARE * max(limit, 0.0))
        self.last_call = self.started + limit - grace  # No epoch goes on after this,
        self.end = self.started + limit - grace / 4  # no process after that.
        self.waiting = in_order(self._missing())

    def run(self) -> Outcome:
        """Train until everything is there, or nothing more can be done."""
        before = sum(self.store.work.has_checkpoint(job) for job in self.waiting)
        if before:
            self.view.say(f"{counted(before, 'job')} continue from checkpoints")
        try:
            with interrupt_later() as interrupted, Owner(self.store) as owner:
                try:
                    for _ in self._turns(interrupted):
                        self._fill(owner)
                        self._handle(self.engine.events(TICK), owner)
                        self._handle(self._hanging(), owner)
                        self.view.show(self)
                    self._tidy(owner)
                finally:
                    self.engine.close()
                return self._outcome(owner)
        finally:
            self.store.work.clean_up()

    def _turns(self, interrupted: Callable[[], bool]) -> Iterator[None]:
        """Go on until all jobs have ended, or it is time to stop and all have stopped."""
        while self.at_work or (not self.stopping and self.to_do()):
            if not self.stopping and (interrupted() or time.monotonic() > self.last_call):
                self.stopping = "interrupted" if interrupted() else "time is up"
                self.end = min(self.end, time.monotonic() + GRACE)
                self.engine.stop()
            if time.monotonic() > self.end:
                return
            yield

    def _fill(self, owner: Owner) -> None:
        """Give jobs to the engine while it has free slots."""
        if self.stopping or time.monotonic() < self.blocked_until:
            return
        for job in list(self.waiting):
            if len(self.at_work) >= self.engine.slots:
                return
            if not self._may_start(job):
                continue
            missing = owner.claim(job)
            if missing is not None:
                self.waiting.remove(job)
            if missing:
                self._submit(job, missing)
        if len(self.at_work) < self.engine.slots:
            self.blocked_until = time.monotonic() + POLL  # Other commands have the rest.

    def _may_start(self, job: Job) -> bool:
        """Not after too many failures; and a job that may have caused a GPU fault only alone."""
        suspected = not self.suspects.isdisjoint({job, *(w.job for w in self.at_work.values())})
        return not self.set_aside(job) and not (suspected and self.at_work)

    def _submit(self, job: Job, missing: Wanted) -> None:
        task = Task(
            missing,
            self.store.work.checkpoints(missing[0][0]),
            self._stack_of(job),
            self.engine.share,
            time.time() + self.last_call - time.monotonic(),
        )
        self.at_work[task] = AtWork(job, len(missing))
        self.engine.submit(task)

    def _stack_of(self, job: Job) -> int | None:
        """As many runs as one as when the job was begun, so that its checkpoints fit."""
        if self.stack is not None:
            return self.stack
        (row,) = self.store.rows("SELECT stack FROM cells WHERE id = ?", job.cells[0].id)
        planned: int | None = row["stack"]
        return planned

    def _hanging(self) -> list[Happened]:
        """Kill the tasks whose epoch takes too long; they have failed, and are not tried again."""
        now = time.monotonic()
        passed, self.turned = min(now - self.turned, HEARING), now
        found: list[Happened] = []
        for task, work in self.at_work.items():
            work.silent += passed
            if work.silent > self.epoch_timeout:
                self.engine.abandon(task)
                self.failures[work.job] = TRIES
                reason = (
                    f"no epoch ended within {clock(self.epoch_timeout)}: it hangs, or needs a "
                    "longer --epoch-timeout"
                )
                found.append((task, Failed(reason, counts=False)))
        return found

    def _handle(self, happened: list[Happened], owner: Owner) -> None:
        self._find_culprit([self.at_work[t].job for t, e in happened if t and is_fault(e)])
        for task, event in happened:
            if isinstance(event, Noted):
                about = f"{self.at_work[task].job}: " if task else ""
                self.view.say(f"{about}{event.message}")
            if task is None:
                continue
            work = self.at_work[task]
            work.listen(event)
            if isinstance(event, Planned):
                # All runs as one is no limit: with more runs, more may fit.
                limit = event.stack if event.stack < len(task.runs) else None
                self.store.plan(work.job.cells, limit)
            elif isinstance(event, Finished):
                self.store.save(event.rows)
                self.runs += len(event.rows)
                work.left -= len(event.rows)
            elif isinstance(event, Ended | Stopped | Failed):
                self._leave(task, event, owner)

    def _find_culprit(self, faulted: list[Job]) -> None:
        """Count a GPU fault against the job that was alone; several are tried again, each alone.

        Under MPS a fault of one process takes all down, and nothing tells which one it was.
        """
        if len(faulted) == 1:
            self.failures[faulted[0]] += 1
        elif faulted:
            self.suspects.update(faulted)
            self.view.say(
                f"the GPU faulted under {len(faulted)} jobs; they are trained again one at a time"
            )

    def _leave(self, task: Task, event: Ended | Stopped | Failed, owner: Owner) -> None:
        """A task has ended; what is not complete waits again."""
        job, since = self.at_work[task].job, self.at_work.pop(task).since
        if isinstance(event, Ended):
            self.store.work.forget(job)
        owner.release(job)
        self.blocked_until = 0.0
        if isinstance(event, Ended):
            self.suspects.discard(job)
            self.view.say(f"{job}: done in {time.monotonic() - since:.0f} s")
            return
        self.waiting.append(job)
        # While all are being stopped, an end is not a failure.
        if isinstance(event, Failed) and not self.stopping:
            self.failures[job] += event.counts and not event.fault
            self.reasons[job] = event.reason
            self.store.fail(job.cells, event.reason, time.time())
            aside = self.set_aside(job)
            self.view.say(f"{job}: {'set aside' if aside else 'failed'}: {in_short(event.reason)}")
            if aside and len(job.cells) > 1:
                self._split(job)

    def _split(self, job: Job) -> None:
        """Try the cells of a job that failed one by one, so that one does not fail the others."""
        parts = [replace(job, wanted=tuple(w for w in job.wanted if w[0] == c)) for c in job.cells]
        for jobs in (self.jobs, self.waiting):
            jobs.remove(job)
            jobs.extend(parts)

    def _tidy(self, owner: Owner) -> None:
        """Remove checkpoints of jobs that were complete when a command was killed."""
        missing, work = self._missing(), self.store.work
        for job in self.jobs:
            left_over = any(work.checkpoints(cell).exists() for cell in job.cells)
            if left_over and job not in missing and owner.claim(job) == ():
                work.forget(job)

    def _missing(self) -> list[Job]:
        done = self.store.done(cell for job in self.jobs for cell in job.cells)
        return [job for job in self.jobs if any((cell.id, n) not in done for cell, n in job.wanted)]

    def to_do(self) -> list[Job]:
        """Jobs that wait to be trained."""
        return [job for job in self.waiting if not self.set_aside(job)]

    def set_aside(self, job: Job) -> bool:
        """Whether a job has failed too often."""
        return self.failures[job] >= TRIES

    def complete(self) -> int:
        """How many jobs are complete."""
        return len(self.jobs) - len(self.waiting) - len(self.at_work)

    def seconds_left(self) -> float | None:
        """Time per run so far × runs left; None until a run has ended."""
        if not self.runs:
            return None
        waiting = sum(len(job.wanted) for job in self.to_do())
        left = waiting + sum(work.left for work in self.at_work.values())
        return (time.monotonic() - self.started) / self.runs * left

    def _outcome(self, owner: Owner) -> Outcome:
        missing = self._missing()
        failed = [(job, self.reasons[job]) for job in missing if self.set_aside(job)]
        left = [job for job in missing if not self.set_aside(job)]
        seconds, complete = time.monotonic() - self.started, len(self.jobs) - len(missing)
        others = owner.others(left)
        return Outcome(complete, failed, left, others, self.runs, seconds, self.stopping)


def in_order(jobs: Iterable[Job]) -> list[Job]:
    """The order in which to begin jobs: datasets side by side, slow jobs first in each.

    Large graphs keep a GPU busy, small ones keep the processes busy that feed it; side by side they
    use both.
    """
    by_dataset: defaultdict[str, list[Job]] = defaultdict(list)
    for job in sorted(jobs, key=_cost, reverse=True):
        by_dataset[job.cells[0].dataset.digest].append(job)
    share = {job: n / len(line) for line in by_dataset.values() for n, job in enumerate(line)}
    return sorted(share, key=lambda job: share[job])


def _cost(job: Job) -> float:
    cell: Cell = job.cells[0]
    network = cell.architecture
    size = network.hidden * network.poolings * COST.get(network.pool, OWN_COST)
    return len(job.wanted) * cell.protocol.epochs * size


def counted(number: int, thing: str) -> str:
    """A number of things.

    >>> counted(1, "job"), counted(2, "job")
    ('1 job', '2 jobs')
    """
    return f"{number} {thing}{'' if number == 1 else 's'}"
