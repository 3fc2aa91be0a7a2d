"""The loop that works a grid off, in this process."""

import io

import pytest
from rich.console import Console
from sweep.sweeping import Silent, figures, small_jobs, sweep

from lcpool.sweep import view
from lcpool.sweep.results import Results
from lcpool.sweep.store import Store
from lcpool.sweep.view import LineView, board, clock
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


class Shown(Silent):
    """Keeps what both views would show."""

    def __init__(self):
        super().__init__()
        self.lines, self.boards = io.StringIO(), io.StringIO()
        self.line = LineView(Console(file=self.lines, width=200))

    def say(self, message):
        self.line.say(message)

    def show(self, sweep):
        self.line.show(sweep)
        Console(file=self.boards, width=200).print(board(sweep))


def test_what_is_shown(tmp_path, monkeypatch):
    monkeypatch.setattr(view, "PAUSE", 0.0)
    shown = Shown()
    jobs = small_jobs(["nopool", "topkpool", "sweep.poolings:Raises"])
    sweep(tmp_path / "a.sqlite", jobs, view=shown)
    lines, boards = shown.lines.getvalue(), shown.boards.getvalue()
    assert "builtin hierarchical gcn nopool shared: done in" in lines
    assert "Raises shared: failed: ZeroDivisionError: no luck" in lines
    assert "Raises shared: set aside: ZeroDivisionError: no luck" in lines
    assert "time left: known when the first is done" in lines
    assert "left" in lines.splitlines()[-1] or "set aside" in lines
    assert "3 failures, 1 set aside" in lines
    assert "runs a minute" in lines
    assert "builtin hierarchical gcn topkpool shared" in boards
    assert "2/2" in boards


def test_a_name_is_no_markup(tmp_path):
    from dataclasses import replace

    shown = Shown()
    (job,) = small_jobs(["nopool"], epochs=1)
    named = replace(job.cells[0].dataset, name="[red]x[/]")
    wanted = tuple((replace(cell, dataset=named), n) for cell, n in job.wanted)
    sweep(tmp_path / "a.sqlite", [replace(job, wanted=wanted)], view=shown)
    assert "[red]x[/] hierarchical gcn nopool" in shown.boards.getvalue()
    assert "[red]x[/] hierarchical gcn nopool shared: done" in shown.lines.getvalue()


def test_times():
    assert clock(3725.4) == "1:02:05"


@pytest.mark.parametrize("limit", [0.0])
def test_no_time_at_all(tmp_path, limit):
    outcome = sweep(tmp_path / "a.sqlite", small_jobs(["nopool"]), limit=limit)
    assert (outcome.stopped, outcome.runs, len(outcome.left)) == ("time is up", 0, 1)
