"""The loop that works a grid off, in this process."""

import io
import re
import signal
import time

import pytest
from rich.console import Console
from said import naming, numbers
from sweep.sweeping import GRAPHS, Silent, figures, small_jobs, sweep

from lcpool import progress
from lcpool.data import builtin
from lcpool.progress import LineDisplay, drawing
from lcpool.sweep.claims import Claims
from lcpool.sweep.engine import Ended, Failed
from lcpool.sweep.grid import Dataset, Grid, make_jobs
from lcpool.sweep.results import Results
from lcpool.sweep.run import TRIES, in_order
from lcpool.sweep.store import Store, WorkFolder
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


def test_the_slowest_first(tmp_path):
    class Watch(Silent):
        def show(self, sweep):
            self.said.extend(work.job.cells[0].names[3] for work in sweep.at_work.values())

    watch = Watch()
    sweep(tmp_path / "a.sqlite", small_jobs(["nopool", "asapool", "topkpool"]), view=watch)
    order = list(dict.fromkeys(w for w in watch.said if ":" not in w))
    assert order == ["asapool", "topkpool", "nopool"]


def test_datasets_side_by_side_each_the_slowest_first():
    datasets = [Dataset.of(builtin(num_graphs=30 + i), name=name) for i, name in enumerate("AB")]
    pools = ["nopool", "topkpool", "asapool"]
    jobs = in_order(make_jobs([Grid.of(datasets=datasets, pools=pools)]))
    names = [(job.names[0], job.names[3]) for job in jobs]
    for start, pool in zip((0, 2, 4), ("asapool", "topkpool", "nopool"), strict=True):
        assert sorted(names[start : start + 2]) == [("A", pool), ("B", pool)]


class Pretends:
    """An engine of three slots that trains nothing; some tasks fail, together or alone.

    ``wrong`` says which of the tasks at work go wrong, and how.
    """

    slots, share = 3, 1.0

    def __init__(self, wrong):
        self.wrong, self.tasks, self.tried = wrong, [], []

    def submit(self, task):
        self.tasks.append(task)

    def events(self, timeout):
        tasks, self.tasks = self.tasks, []
        self.tried.append([cells(task) for task in tasks])
        return [(task, event) for task, event in zip(tasks, self.wrong(tasks), strict=True)]

    def stop(self): ...

    def close(self): ...


def cells(task):
    return sorted({cell.names[1:] for cell, _ in task.runs})


def pool(task):
    return task.runs[0][0].architecture.pool


def test_after_a_gpu_fault_jobs_are_tried_one_at_a_time(tmp_path):
    """A fault takes all down; only the job that caused it is set aside in the end."""

    def fault(tasks):
        if any(pool(task) == "sagpool" for task in tasks):
            return [Failed("fault", fault=True)] * len(tasks)
        return [Ended()] * len(tasks)

    engine = Pretends(fault)
    pools = ["nopool", "topkpool", "sagpool", "asapool", "lcpool"]
    outcome = sweep(tmp_path / "a.sqlite", small_jobs(pools), engine)
    assert [job.names[3] for job, _ in outcome.failed] == ["sagpool"]
    assert [len(tried) for tried in engine.tried[:2]] == [3, 2]
    assert all(len(tried) == 1 for tried in engine.tried[2:])
    assert sum("sagpool" in str(tried) for tried in engine.tried) == 1 + TRIES


def test_a_cell_that_fails_does_not_fail_the_other_cells_of_its_job(tmp_path):
    def plain_fails(tasks):
        wrong = [any("plain" in names for names in cells(task)) for task in tasks]
        return [Failed("no luck") if bad else Ended() for bad in wrong]

    engine = Pretends(plain_fails)
    jobs = small_jobs(["nopool"], backbones=["hierarchical", "plain"])
    outcome = sweep(tmp_path / "a.sqlite", jobs, engine)
    alone = [("hierarchical", "gcn", "nopool")]
    assert sum(alone in tried for tried in engine.tried) == 1
    assert [job.names[1] for job, _ in outcome.failed] == ["plain"]
    assert outcome.jobs == 2


class Shown(Silent):
    """Keeps what both views would show."""

    def __init__(self):
        super().__init__()
        self.lines, self.boards = io.StringIO(), []
        self.line = LineDisplay(Console(file=self.lines, width=200))

    def say(self, message):
        self.line.say(message)

    def show(self, sweep):
        self.line.show(sweep.board)
        drawn = io.StringIO()
        Console(file=drawn, width=200).print(drawing(sweep.board()))
        self.boards.append(drawn.getvalue())


def test_what_is_shown(tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "PAUSE", 0.0)
    shown = Shown()
    jobs = small_jobs(["nopool", "topkpool", "sweep.poolings:Raises"])
    sweep(tmp_path / "a.sqlite", jobs, view=shown)
    lines, boards = shown.lines.getvalue(), "".join(shown.boards)
    nopool, topkpool, raises = map(str, jobs)
    assert len(naming(lines, nopool)) == 1
    failed, again, aside = naming(lines, raises, "ZeroDivisionError")
    assert failed == again != aside
    assert all(re.search(r"poolings\.py:\d+:", line) for line in (failed, aside))
    # Jobs done, all jobs, jobs in training, failures, jobs set aside, runs per minute.
    (_, _, _, *found) = numbers(naming(lines, " · ")[-1])
    assert found[:2] == [3, 1]
    assert found[2] > 0
    assert topkpool in boards
    assert "2/2" in boards


def test_the_time_left_is_shown_once_a_run_has_ended(tmp_path):
    """Time per run so far × runs left."""

    class Watch(Shown):
        def show(self, sweep):
            if not sweep.runs:
                assert sweep.seconds_left() is None
            elif sweep.runs == 2:  # of four
                sweep.started = time.monotonic() - 100
                assert sweep.seconds_left() == pytest.approx(100, abs=5)
            super().show(sweep)

    shown = Watch()
    sweep(tmp_path / "a.sqlite", small_jobs(["nopool", "topkpool"]), view=shown)
    summaries = [board.splitlines()[-1] for board in shown.boards]
    assert len(re.findall(r"\d:\d\d:\d\d", summaries[0])) == 1  # the time that has passed
    assert any(len(re.findall(r"0:01:\d\d", text)) == 2 for text in summaries)


def test_jobs_that_differ_in_settings_are_told_apart(tmp_path):
    usual = {"datasets": [Dataset.of(GRAPHS)], "pools": "topkpool", "runs": 1, "hidden": 8,
             "epochs": 2}  # fmt: skip
    shown = Shown()
    jobs = make_jobs([Grid.of(**usual, ratio=0.25), Grid.of(**usual)])
    sweep(tmp_path / "a.sqlite", jobs, view=shown)
    quarter, half = map(str, jobs)
    assert ("ratio=0.25" in quarter, "ratio" in half) == (True, False)
    for text in (shown.lines.getvalue(), "".join(shown.boards)):
        assert quarter in text
        assert half in text


def checkpoints(path):
    return list(path.parent.glob("*.work/checkpoints/*/*.ckpt"))


@pytest.mark.parametrize("then", [{"stack": 1}, {}])
def test_a_stack_that_was_cut_otherwise_leaves_no_checkpoint(tmp_path, then):
    path, jobs = tmp_path / "a.sqlite", small_jobs(["nopool"], epochs=20, patience=20)

    class Presses(Silent):
        def show(self, sweep):
            if not sweep.stopping and any(work.epoch for work in sweep.at_work.values()):
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
    left_over = WorkFolder(path).path / "checkpoints" / jobs[0].cells[0].id / "old.ckpt"
    left_over.parent.mkdir(parents=True)
    left_over.touch()
    more = small_jobs(["nopool"], runs=3)
    with Store(path) as store, Claims(store) as other:
        assert other.claim(more[0])
        sweep(path, jobs)
        assert left_over.exists()
    sweep(path, jobs)
    assert not WorkFolder(path).path.exists()


def test_a_sweep_that_was_stopped_itself_takes_nobody_for_dead(tmp_path, monkeypatch):
    """Ctrl-Z, and an hour later fg: time has passed, but not for the workers."""
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
    assert "[red]x[/]" in "".join(shown.boards)
    assert "[red]x[/]" in shown.lines.getvalue()


def test_no_time_at_all(tmp_path):
    outcome = sweep(tmp_path / "a.sqlite", small_jobs(["nopool"]), limit=0.0)
    assert (outcome.stopped, outcome.runs, len(outcome.left)) == ("time is up", 0, 1)
