"""A sweep: gives the missing jobs to an engine, and stores the runs that come back."""

from __future__ import annotations

import contextlib
import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from lcpool.progress import Board, Display, clock
from lcpool.sweep.claims import Claims
from lcpool.sweep.engine import (
    Ended,
    Engine,
    EpochDone,
    Failed,
    Finished,
    Happened,
    Last,
    Noted,
    Planned,
    Task,
    in_short,
    is_fault,
)
from lcpool.sweep.grid import Job, Wanted
from lcpool.sweep.store import Store
from lcpool.train.checkpoint import interrupt_later
from lcpool.words import count

TRIES = 3  # failures after which a job is set aside
EPOCH_TIMEOUT = 3600.0  # seconds; the first epoch may also read much data and compile kernels
TICK = 0.5  # seconds between two looks at the clock
POLL = 2.0  # seconds between two looks at what other commands have left
# Time for stopping cleanly: at most so many seconds, and this share of a limit.
GRACE, GRACE_SHARE = 10.0, 0.1
# One turn of the loop adds at most this to a job's silence: after Ctrl-Z the jobs must not look
# hung.
HEARING = 10.0
# Rough times of a training step, relative to no pooling; only the order of jobs depends on them.
COST = {"nopool": 1.0, "topkpool": 1.1, "sagpool": 1.3, "mincutpool": 1.4, "diffpool": 1.5,
        "lcpool": 2.0, "lcpool*": 2.2, "asapool": 3.0}  # fmt: skip
OWN_COST = 2.0
TITLES = ("training", "epoch", "runs", "validation", "time")


@dataclass
class AtWork:
    """A job that is being trained."""

    job: Job
    left: int  # runs that have not ended
    since: float = field(default_factory=time.monotonic)
    epoch: EpochDone | None = None  # the last one
    silent: float = -math.inf  # seconds since its last event; they count once it has begun

    def row(self) -> tuple[str, ...]:
        """Its row of the table."""
        state, e = ("–", "–", "–"), self.epoch
        if e is not None:
            state = str(e.epoch), f"{e.going}/{e.runs}", e.validation
        return str(self.job), *state, clock(time.monotonic() - self.since)


@dataclass(frozen=True)
class Outcome:
    """How a sweep ended."""

    complete: int  # jobs that have all their runs
    failed: list[tuple[Job, str]]  # jobs that were set aside, each with its last error
    left: list[Job]  # jobs that are still to be trained
    others: list[str]  # other commands that train some of these
    runs: int  # how many runs this sweep trained
    seconds: float
    stopped: str = ""  # why it ended early
    rescued: Path | None = None  # the file with all runs, if the store was deleted or moved

    @property
    def jobs(self) -> int:
        return self.complete + len(self.failed) + len(self.left)


class Sweep:
    """Trains the jobs whose runs a store lacks with an engine, and stores the runs.

    At most ``stack`` runs are trained as one. The sweep stops after ``limit`` seconds, and kills a
    job whose epoch has not ended after ``epoch_timeout`` seconds.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        store: Store,
        engine: Engine,
        view: Display,
        stack: int | None = None,
        limit: float = math.inf,
        epoch_timeout: float = EPOCH_TIMEOUT,
    ) -> None:
        self.jobs, self.store, self.engine, self.view = list(jobs), store, engine, view
        self.stack, self.epoch_timeout = stack, epoch_timeout
        self.claims = Claims(store)
        self.failures: Counter[Job] = Counter()
        self.reasons: dict[Job, str] = {}
        self.suspects: set[Job] = set()
        self.at_work: dict[Task, AtWork] = {}
        self.started = self.turned = time.monotonic()
        self.runs, self.stopping, self.blocked_until = 0, "", 0.0
        grace = min(GRACE, GRACE_SHARE * max(limit, 0.0))
        self.last_call = self.started + limit - grace  # No epoch goes on after this,
        self.end = self.started + limit - grace / 4  # no process after that.
        self.waiting = in_order(store.missing(jobs))

    def run(self) -> Outcome:
        """Train until everything is there, or nothing more can be done."""
        if before := sum(self.store.work.has_checkpoint(job) for job in self.waiting):
            self.view.say(f"{count(before, 'job')} continue from checkpoints")
        try:
            with interrupt_later() as interrupted, self.claims:
                with contextlib.closing(self.engine):
                    while self.at_work or (not self.stopping and self.to_do()):
                        if not self.stopping:
                            self._stop_if_due(interrupted())
                        if time.monotonic() > self.end:
                            break
                        self._fill()
                        self._handle(self.engine.events(TICK))
                        self._handle(self._hanging())
                        self.view.show(self.board)
                    self._tidy()
                return self._outcome()
        finally:
            self.store.work.clean_up()

    def _stop_if_due(self, interrupted: bool) -> None:
        due = {
            "interrupted": interrupted,
            "time is up": time.monotonic() > self.last_call,
            "the store is gone": self.store.is_gone(),
        }
        self.stopping = next((reason for reason, is_due in due.items() if is_due), "")
        if self.stopping:
            self.end = min(self.end, time.monotonic() + GRACE)
            self.engine.stop()

    def _fill(self) -> None:
        """Give jobs to the engine while it has free slots."""
        if self.stopping or time.monotonic() < self.blocked_until:
            return
        for job in list(self.waiting):
            if len(self.at_work) >= self.engine.slots:
                return
            if not self._may_start(job):
                continue
            missing = self.claims.claim(job)
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
        # As many runs as one as when the job was begun, so that its checkpoints fit.
        (row,) = self.store.rows("SELECT stack FROM cells WHERE id = ?", job.cells[0].id)
        task = Task(
            missing,
            self.store.work.checkpoints / missing[0][0].id,
            row["stack"] if self.stack is None else self.stack,
            self.engine.share,
            time.time() + self.last_call - time.monotonic(),
        )
        self.at_work[task] = AtWork(job, len(missing))
        self.engine.submit(task)

    def _hanging(self) -> list[Happened]:
        """Kill the tasks whose epoch takes too long; they have failed, and are not tried again."""
        now = time.monotonic()
        passed, self.turned = min(now - self.turned, HEARING), now
        found: list[Happened] = []
        for task, work in self.at_work.items():
            work.silent += passed
            if work.silent > self.epoch_timeout and not self.stopping:
                self.engine.abandon(task)
                self.failures[work.job] = TRIES
                reason = (
                    f"no epoch ended within {clock(self.epoch_timeout)}: it hangs, or needs a "
                    "longer --epoch-timeout"
                )
                found.append((task, Failed(reason, counts=False)))
        return found

    def _handle(self, happened: list[Happened]) -> None:
        self._find_culprit([self.at_work[t].job for t, e in happened if t and is_fault(e)])
        for task, event in happened:
            if isinstance(event, Noted):
                about = f"{self.at_work[task].job}: " if task else ""
                self.view.say(f"{about}{event.message}")
            if task is None:
                continue
            work = self.at_work[task]
            work.silent = 0.0
            if isinstance(event, EpochDone):
                work.epoch = event
            elif isinstance(event, Planned):
                # All runs as one is no limit: with more runs, more may fit.
                limit = event.stack if event.stack < len(task.runs) else None
                self.store.plan(work.job.cells, limit)
            elif isinstance(event, Finished):
                self.store.save(event.rows)
                self.runs += len(event.rows)
                work.left -= len(event.rows)
            elif isinstance(event, Last):
                self._leave(task, event)

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

    def _leave(self, task: Task, event: Last) -> None:
        """A task has ended; what is not complete waits again."""
        work = self.at_work.pop(task)
        job = work.job
        if isinstance(event, Ended):
            self.store.work.forget(job)
            self.suspects.discard(job)
            self.view.say(f"{job}: done in {time.monotonic() - work.since:.0f} s")
        else:
            self.waiting.append(job)
        self.claims.release(job)
        self.blocked_until = 0.0
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

    def _tidy(self) -> None:
        """Remove what a command has left that was killed when a job was complete."""
        missing, work = self.store.missing(self.jobs), self.store.work
        for job in self.jobs:
            if work.has_left(job) and job not in missing and self.claims.claim(job) == ():
                work.forget(job)

    def to_do(self) -> list[Job]:
        return [job for job in self.waiting if not self.set_aside(job)]

    def set_aside(self, job: Job) -> bool:
        return self.failures[job] >= TRIES

    def seconds_left(self) -> float | None:
        """Time per run so far × runs left; None until a run has ended."""
        if not self.runs:
            return None
        waiting = sum(len(job.wanted) for job in self.to_do())
        left = waiting + sum(work.left for work in self.at_work.values())
        return (time.monotonic() - self.started) / self.runs * left

    def board(self) -> Board:
        """A row per job that is being trained; below, jobs done and left, pace and time left."""
        seconds = time.monotonic() - self.started
        done = len(self.jobs) - len(self.waiting) - len(self.at_work)
        parts = [f"{done} of {len(self.jobs)} jobs done", f"{len(self.at_work)} training"]
        if failures := self.failures.total():
            aside = sum(map(self.set_aside, self.waiting))
            parts.append(f"{failures} failures, {aside} set aside")
        if self.runs:
            parts.append(f"{60 * self.runs / seconds:.1f} runs per minute")
        parts.append(f"{clock(seconds)} passed")
        if self.stopping:
            parts.append(f"{self.stopping}: stopping")
        elif left := self.seconds_left():
            parts.append(f"about {clock(left)} left")
        return Board(TITLES, [work.row() for work in self.at_work.values()], " · ".join(parts))

    def _outcome(self) -> Outcome:
        missing = self.store.missing(self.jobs)
        failed = [(job, self.reasons[job]) for job in missing if self.set_aside(job)]
        left = [job for job in missing if not self.set_aside(job)]
        seconds, complete = time.monotonic() - self.started, len(self.jobs) - len(missing)
        others = self.claims.others(left)
        rescued = self.store.rescue() if self.store.is_gone() else None
        return Outcome(complete, failed, left, others, self.runs, seconds, self.stopping, rescued)


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
    network, protocol = job.cells[0].architecture, job.cells[0].protocol
    size = network.hidden * network.poolings * COST.get(network.pool, OWN_COST)
    return len(job.wanted) * protocol.epochs * size
