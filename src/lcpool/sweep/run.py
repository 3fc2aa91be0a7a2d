"""A sweep at work: takes what is missing, has it trained, stores what comes back."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from lcpool.sweep.blame import Blame
from lcpool.sweep.claims import Owner, others
from lcpool.sweep.engine import Engine, Happened
from lcpool.sweep.estimate import Estimate, time_left
from lcpool.sweep.events import Ended, Failed, Finished, Noted, Planned, Stopped, Task
from lcpool.sweep.folder import begun, checkpoints, clean_up, forget
from lcpool.sweep.grid import Cell, Job
from lcpool.sweep.jobs import AtWork, Outcome, counted
from lcpool.sweep.order import mixed
from lcpool.sweep.store import Store
from lcpool.train.checkpoint import interrupt_later

TICK = 0.5  # Seconds between two looks at the clock.
POLL = 2.0  # Seconds between two looks at what others have left.
# Time for stopping cleanly: at most so many seconds, and this share of a limit.
GRACE, GRACE_SHARE = 10.0, 0.1
# The most seconds of silence that one turn counts for: a sweep that was itself stopped (Ctrl-Z)
# could hear nothing.
HEARING = 10.0


class View(Protocol):
    """Shows a sweep to a user."""

    def say(self, message: str) -> None:
        """A line that stays."""

    def show(self, sweep: Sweep) -> None:
        """The state of things; called often."""


class Sweep:
    """Works off jobs with an engine, and stores the runs.

    Args:
        jobs: what is wanted.
        store: where it goes, and where it may be already.
        engine: who trains.
        view: who shows it.
        stack: the most runs to train as one.
        limit: seconds after which to stop.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        store: Store,
        engine: Engine,
        view: View,
        stack: int | None = None,
        limit: float = math.inf,
    ) -> None:
        self.jobs, self.store, self.engine, self.view = jobs, store, engine, view
        self.stack = stack
        self.blame = Blame()
        self.estimate = Estimate(store, engine.cuda)
        self.at_work: dict[Task, AtWork] = {}
        self.reasons: dict[Job, str] = {}
        self.started = self.turned = time.monotonic()
        self.runs = 0
        self.stopping = ""
        self.blocked_until = 0.0
        grace = min(GRACE, GRACE_SHARE * max(limit, 0.0))
        self.last_call = self.started + limit - grace  # No epoch goes on beyond it,
        self.end = self.started + limit - grace / 4  # no process beyond that.
        self.waiting = self._missing()

    def run(self) -> Outcome:
        """Train until all is there, or nothing more can be done."""
        self.estimate.learn(self._cells())
        before = sum(begun(self.store.path, job) for job in self._to_do())
        if before:
            self.view.say(f"{counted(before, 'job')} begun before: going on from checkpoints")
        with interrupt_later() as interrupted, Owner(self.store) as owner:
            try:
                for _ in self._turns(interrupted):
                    self._fill(owner)
                    self._handle(self.engine.events(TICK), owner)
                    self._handle(self._given_up(), owner)
                    self.view.show(self)
                self._tidy(owner)
            finally:
                self.engine.close()
                clean_up(self.store.path)
            found = others(self.store, owner, self.waiting)
        return self._outcome(found)

    def _turns(self, interrupted: Callable[[], bool]) -> Iterator[None]:
        """Go on until all is done, or it is time to stop and all have stopped."""
        while self.at_work or (not self.stopping and self._to_do()):
            if not self.stopping and (interrupted() or time.monotonic() > self.last_call):
                self.stopping = "interrupted" if interrupted() else "time is up"
                self.end = min(self.end, time.monotonic() + GRACE)
                self.engine.stop()
            if time.monotonic() > self.end:
                return
            yield

    def _to_do(self) -> list[Job]:
        return [job for job in self.waiting if not self.blame.set_aside(job)]

    def _fill(self, owner: Owner) -> None:
        """Give work to whoever is free, what has failed last."""
        full = len(self.at_work) >= self.engine.slots
        if full or self.stopping or time.monotonic() < self.blocked_until:
            return
        self.waiting = mixed(self.waiting, self.at_work.values(), self._seconds)
        self.waiting.sort(key=lambda job: self.blame.failures[job])
        for job in list(self.waiting):
            if len(self.at_work) >= self.engine.slots:
                return
            at_work = [work.job for work in self.at_work.values()]
            if not self.blame.may_start(job, at_work):
                continue
            missing = owner.claim(job)
            if missing is not None:
                self.waiting.remove(job)
            if missing:
                self._submit(job, missing)
        if len(self.at_work) < self.engine.slots:
            self.blocked_until = time.monotonic() + POLL  # Others have the rest.

    def _submit(self, job: Job, missing: tuple[tuple[Cell, int], ...]) -> None:
        left = self.last_call - time.monotonic()
        task = Task(
            missing,
            checkpoints(self.store.path, missing[0][0]),
            self._stack_of(job),
            self.engine.share,
            time.time() + left,
        )
        self.at_work[task] = AtWork(job, self.estimate.seconds(missing, task.stack))
        self.engine.submit(task)

    def _stack_of(self, job: Job) -> int | None:
        """As many runs as one as when the job was begun, so that it goes on where it was."""
        if self.stack is not None:
            return self.stack
        (row,) = self.store.rows("SELECT stack FROM cells WHERE id = ?", job.cells[0].id)
        planned: int | None = row["stack"]
        return planned

    def _given_up(self) -> list[Happened]:
        """Tasks that hang: they are ended by force, and have failed."""
        now = time.monotonic()
        passed, self.turned = min(now - self.turned, HEARING), now
        given_up: list[Happened] = []
        for task, work in self.at_work.items():
            work.silent += passed
            if work.hangs():
                self.engine.abandon(task)
                given_up.append((task, Failed(f"it hangs: silent for {work.silent / 60:.0f} min")))
        return given_up

    def _handle(self, happened: list[Happened], owner: Owner) -> None:
        faulted = []
        for task, event in happened:
            if isinstance(event, Noted):
                self.view.say(
                    f"{self.at_work[task].job}: {event.message}" if task else event.message
                )
            if task is None:
                continue
            work = self.at_work[task]
            work.listen(event)
            if isinstance(event, Planned):
                # All as one is no limit: with more runs, more may be trained as one.
                limit = event.stack if event.stack < len(task.runs) else None
                self.store.plan(work.job.cells, limit)
                work.expected = self.estimate.seconds(task.runs, event.stack)
            elif isinstance(event, Finished):
                self.store.save(event.rows)
                self.runs += len(event.rows)
            elif isinstance(event, Failed) and event.fault:
                faulted.append(work.job)
            elif isinstance(event, Failed) and event.counts:
                self.blame.failed(work.job)
            if isinstance(event, Ended | Stopped | Failed):
                self._leave(task, event, owner)
        if faulted:
            self.blame.faulted(faulted)
            lost = counted(len(faulted), "job")
            self.view.say(f"the GPU faulted, and {lost} went down with it; again.")

    def _leave(self, task: Task, event: Ended | Stopped | Failed, owner: Owner) -> None:
        """A task has ended; what is not done waits again."""
        work = self.at_work.pop(task)
        if isinstance(event, Ended):
            forget(self.store.path, work.job)
        owner.release(work.job)
        self.blocked_until = 0.0
        if isinstance(event, Ended):
            self.blame.finished(work.job)
            self.estimate.learn(self._cells())
            self.view.say(f"{work.job}: done in {time.monotonic() - work.since:.0f} s")
            return
        self.waiting.append(work.job)
        # While all are being stopped, an end is no failure.
        if isinstance(event, Failed) and not self.stopping:
            self.reasons[work.job] = event.reason
            self.store.fail(work.job.cells, event.reason, time.time())
            aside = self.blame.set_aside(work.job)
            self.view.say(f"{work.job}: {'set aside' if aside else 'failed'}: {event.last_line}")

    def _tidy(self, owner: Owner) -> None:
        """Remove checkpoints of jobs that were done when a command was killed."""
        missing = self._missing()
        for job in self.jobs:
            left_over = any(checkpoints(self.store.path, cell).exists() for cell in job.cells)
            if left_over and job not in missing and owner.claim(job) == ():
                forget(self.store.path, job)

    def _missing(self) -> list[Job]:
        done = self.store.done(self._cells())
        return [job for job in self.jobs if any((cell.id, n) not in done for cell, n in job.wanted)]

    def _cells(self) -> Iterable[Cell]:
        return (cell for job in self.jobs for cell in job.cells)

    def _seconds(self, job: Job) -> float:
        return self.estimate.seconds(job.wanted, self.stack)

    def left(self) -> float:
        """Seconds until all is done."""
        working = [work.left() for work in self.at_work.values()]
        return time_left(working, map(self._seconds, self._to_do()), self.engine.slots)

    def complete(self) -> int:
        """Jobs that are done."""
        return len(self.jobs) - len(self.waiting) - len(self.at_work)

    def aside(self) -> list[Job]:
        """Jobs that have failed too often."""
        return [job for job in self.waiting if self.blame.set_aside(job)]

    def _outcome(self, found: list[str]) -> Outcome:
        missing = self._missing()
        failed = [(job, self.reasons[job]) for job in missing if self.blame.set_aside(job)]
        left = [job for job in missing if not self.blame.set_aside(job)]
        complete = len(self.jobs) - len(missing)
        seconds = time.monotonic() - self.started
        return Outcome(complete, failed, left, found, self.runs, seconds, self.stopping)
