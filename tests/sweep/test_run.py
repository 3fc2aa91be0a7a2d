"""The loop that works a grid off, in this process."""

import io
import re
import signal
from collections import Counter

import pytest
from rich.console import Console
from sweep.sweeping import GRAPHS, Silent, figures, small_jobs, sweep

from lcpool import progress
from lcpool.data import builtin
from lcpool.models import CONVS
from lcpool.progress import LineDisplay, clock, drawing
from lcpool.sweep.claims import Owner
from lcpool.sweep.events import Begun, Progress
from lcpool.sweep.folder import work_folder
from lcpool.sweep.grid import Dataset, Grid, make_jobs
from lcpool.sweep.jobs import FIRST_SILENCE, LEAST_SILENCE, AtWork
from lcpool.sweep.order import mixed
from lcpool.sweep.progress import SweepProgress, board
from lcpool.sweep.results import Results
from lcpool.sweep.store import Store
from lcpool.train import Trainer


def test_asking_again_trains_only_what_is_missing(tmp_path):
    path = tmp_path / "a.sqlite"
    assert sweep(path, small_jobs(["nopool"], runs=2)).runs == 2
    before = figures(path)
    assert sweep(path, small_jobs(["nopool"], runs=2)).runs == 0
    outcome = sweep(path, small_jobs(["nopool", "topkpool"], runs=5))
    assert (outcome.runs, outcome.complete) == (8, 2)
    assert set(before) < set(figures(path))
    runs = Results.read(path).runs
    assert runs[runs.pool == "nopool"]["stack"].tolist() == [2, 2, 3, 3, 3]


def test_what_did_not_fit_is_continued_in_stacks_that_do(tmp_path, monkeypatch):
    import torch

    epoch = Trainer.train_epoch

    def cramped(self):
        if len(self.runs) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        epoch(self)

    monkeypatch.setattr(Trainer, "train_epoch", cramped)
    path, jobs = tmp_path / "a.sqlite", small_jobs(["nopool"], runs=6)
    sweep(path, jobs)
    with Store(path) as store, store.transaction() as connection:
        assert connection.execute("SELECT stack FROM cells").fetchone()["stack"] == 3
        connection.execute("DELETE FROM runs WHERE run > 2")
    whole = figures(path)
    assert sweep(path, jobs).runs == 3
    assert figures(path)[:3] == whole


def test_the_longest_first(tmp_path):
    class Watch(Silent):
        def show(self, sweep):
            self.said.extend(work.job.cells[0].names[3] for work in sweep.at_work.values())

    watch = Watch()
    sweep(tmp_path / "a.sqlite", small_jobs(["nopool", "asapool", "topkpool"]), view=watch)
    order = list(dict.fromkeys(w for w in watch.said if ":" not in w))
    assert order == ["asapool", "topkpool", "nopool"]


def test_datasets_side_by_side_each_the_longest_first():
    """Workers in proportion to what is left: of 14 workers 8, 4 and 2."""
    names = {"large": 400.0, "middle": 200.0, "small": 100.0}
    datasets = [Dataset.of(builtin(num_graphs=30 + i), name=n) for i, n in enumerate(names)]
    pools = ["nopool", "topkpool", "sagpool", "asapool", "lcpool"]
    jobs = make_jobs([Grid.of(datasets=datasets, pools=pools, convs=list(CONVS))])
    rank = {pool: 1 + i / 10 for i, pool in enumerate(pools)}

    def seconds(job):
        dataset, _, _, pool = job.cells[0].names
        return names[dataset] * rank[pool]

    at_work = [AtWork(job, seconds(job)) for job in mixed(jobs, [], seconds)[:14]]
    shares = Counter(work.job.cells[0].names[0] for work in at_work)
    assert shares == {"large": 8, "middle": 4, "small": 2}
    left = [job for job in jobs if job not in {work.job for work in at_work}]
    assert mixed(left, at_work[1:], seconds)[0].cells[0].names[0] == "large"
    for name in names:
        order = [seconds(job) for job in mixed(jobs, [], seconds) if job.cells[0].names[0] == name]
        assert order == sorted(order, reverse=True)


class Shown(Silent):
    """Keeps what both views would show."""

    def __init__(self):
        super().__init__()
        self.lines, self.boards = io.StringIO(), []
        self.line = SweepProgress(LineDisplay(Console(file=self.lines, width=200)))

    def say(self, message):
        self.line.say(message)

    def show(self, sweep):
        self.line.show(sweep)
        drawn = io.StringIO()
        Console(file=drawn, width=200).print(drawing(board(sweep)))
        self.boards.append(drawn.getvalue())


def test_what_is_shown(tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "PAUSE", 0.0)
    shown = Shown()
    jobs = small_jobs(["nopool", "topkpool", "sweep.poolings:Raises"])
    sweep(tmp_path / "a.sqlite", jobs, view=shown)
    lines, boards = shown.lines.getvalue(), "".join(shown.boards)
    assert "builtin hierarchical gcn nopool shared: done in" in lines
    assert re.search(r"Raises shared: failed: \S+\.py:\d+: ZeroDivisionError: no luck", lines)
    assert re.search(r"Raises shared: set aside: \S+\.py:\d+: ZeroDivisionError: no luck", lines)
    assert "3 failures, 1 set aside" in lines
    assert "runs a minute" in lines
    assert "builtin hierarchical gcn topkpool shared" in boards
    assert "2/2" in boards


def test_the_time_left_is_said_alike_in_a_row_and_below(tmp_path):
    """Until a job is done, only the least is known; afterwards, what was learnt."""
    shown = Shown()
    sweep(tmp_path / "a.sqlite", small_jobs(["nopool", "topkpool"], epochs=60), view=shown)
    first = [text for text in shown.boards if "0 of 2 jobs done" in text]
    later = [text for text in shown.boards if "1 of 2 jobs done" in text]
    assert any("≥ 0:00:0" in text and "at least 0:00:0" in text for text in first)
    assert not any("about" in text for text in first)
    assert any("about 0:00:0" in text for text in later)
    assert not any("≥" in text or "at least" in text for text in later)


def test_jobs_that_differ_in_settings_are_told_apart(tmp_path):
    usual = {"datasets": [Dataset.of(GRAPHS)], "pools": "topkpool", "runs": 1, "hidden": 8,
             "epochs": 2}  # fmt: skip
    shown = Shown()
    jobs = make_jobs([Grid.of(**usual, ratio=0.25), Grid.of(**usual)])
    sweep(tmp_path / "a.sqlite", jobs, view=shown)
    for text in (shown.lines.getvalue(), "".join(shown.boards)):
        assert "builtin hierarchical gcn topkpool (ratio=0.25) fresh" in text
        assert "builtin hierarchical gcn topkpool fresh" in text


def checkpoints(path):
    return list(path.parent.glob("*.work/checkpoints/*/*.ckpt"))


@pytest.mark.parametrize("then", [{"stack": 1}, {}])
def test_a_stack_that_was_cut_otherwise_leaves_no_checkpoint(tmp_path, then):
    path, jobs = tmp_path / "a.sqlite", small_jobs(["nopool"], epochs=20, patience=20)

    class Presses(Silent):
        def show(self, sweep):
            if not sweep.stopping and any(work.progress for work in sweep.at_work.values()):
                signal.raise_signal(signal.SIGINT)

    sweep(path, jobs, view=Presses(), stack=2)
    assert len(checkpoints(path)) == 1
    more = small_jobs(["nopool"], epochs=20, patience=20, runs=3)
    assert sweep(path, more, **then).complete == 1
    assert [file.name for file in tmp_path.iterdir()] == ["a.sqlite"]


def test_a_checkpoint_of_a_job_that_is_done_is_removed_unless_somebody_is_at_it(tmp_path):
    """The command may have been killed after it stored the runs."""
    path, jobs = tmp_path / "a.sqlite", small_jobs(["nopool"])
    sweep(path, jobs)
    left_over = work_folder(path) / "checkpoints" / jobs[0].cells[0].id / "old.ckpt"
    left_over.parent.mkdir(parents=True)
    left_over.touch()
    more = small_jobs(["nopool"], runs=3)
    with Store(path) as store, Owner(store) as other:
        assert other.claim(more[0])
        sweep(path, jobs)
        assert left_over.exists()
    sweep(path, jobs)
    assert not work_folder(path).exists()


def test_a_job_hangs_when_it_is_silent_for_far_longer_than_before(monkeypatch):
    progress = Progress(epoch=1, going=1, runs=1, pace=0.1, accuracy=0.5, left=9)
    work = AtWork(job=None, expected=1.0)
    work.silent += 1e6
    assert not work.hangs()  # Nobody has begun with it.
    work.listen(Begun())
    work.silent += FIRST_SILENCE - 1
    assert not work.hangs()  # The first epoch may compile.
    work.listen(progress)
    work.silent += LEAST_SILENCE + 1
    assert work.hangs()
    work.listen(progress)  # It had not: its epochs are that long.
    work.silent += 19 * LEAST_SILENCE
    assert not work.hangs()
    work.silent += 2 * LEAST_SILENCE
    assert work.hangs()


def test_a_sweep_that_was_stopped_itself_takes_nobody_for_dead(tmp_path, monkeypatch):
    """Ctrl-Z, and an hour later fg: the clock has gone on, the workers have not."""
    leaps = []

    class Leaps(Silent):
        def show(self, sweep):
            if not leaps and sweep.at_work:
                sweep.turned -= 3600
                leaps.append(sweep)

    outcome = sweep(tmp_path / "a.sqlite", small_jobs(["nopool"]), view=Leaps())
    assert leaps
    assert (outcome.complete, outcome.failed) == (1, [])


def test_a_name_is_no_markup(tmp_path):
    from dataclasses import replace

    shown = Shown()
    (job,) = small_jobs(["nopool"], epochs=1)
    named = replace(job.cells[0].dataset, name="[red]x[/]")
    wanted = tuple((replace(cell, dataset=named), n) for cell, n in job.wanted)
    sweep(tmp_path / "a.sqlite", [replace(job, wanted=wanted)], view=shown)
    assert "[red]x[/] hierarchical gcn nopool" in "".join(shown.boards)
    assert "[red]x[/] hierarchical gcn nopool shared: done" in shown.lines.getvalue()


def test_times():
    assert clock(3725.4) == "1:02:05"


@pytest.mark.parametrize("limit", [0.0])
def test_no_time_at_all(tmp_path, limit):
    outcome = sweep(tmp_path / "a.sqlite", small_jobs(["nopool"]), limit=limit)
    assert (outcome.stopped, outcome.runs, len(outcome.left)) == ("time is up", 0, 1)
