import errno
import os
import re
import subprocess

import pytest
import torch
from sweep.sweeping import CPU, GRAPHS, small_jobs

from lcpool.sweep.engine import (
    Begun,
    Ended,
    EpochDone,
    Failed,
    Finished,
    Noted,
    Planned,
    Stopped,
    Task,
    in_short,
)
from lcpool.sweep.engines import execute
from lcpool.sweep.engines.execute import attempt, commit
from lcpool.sweep.store import unpack_curves
from lcpool.train import Trainer, checkpoint, train
from lcpool.train.faults import is_fault


def events(job, stop=lambda: False, **options):
    return list(attempt(Task(job.wanted, **options), CPU, stop))


def rows(found):
    return [row for event in found if isinstance(event, Finished) for row in event.rows]


def test_runs_of_both_backbones_as_one_are_what_each_is_alone():
    (both,) = small_jobs(["lcpool"], backbones=["hierarchical", "plain"])
    found = rows(events(both))
    figures = {}
    for backbone in ("hierarchical", "plain"):
        (job,) = small_jobs(["lcpool"], backbones=backbone)
        alone = rows(events(job))
        names = ("cell", "run", "test_accuracy", "val_loss", "curves")
        mine = [row for row in found if row["cell"] == job.cells[0].id]
        assert [[row[n] for n in names] for row in mine] == [[r[n] for n in names] for r in alone]
        figures[backbone] = [row["curves"] for row in mine]
    assert figures["hierarchical"] != figures["plain"]


def test_runs_of_both_splits_as_one_are_what_each_is_alone():
    (both,) = small_jobs(["topkpool"], splits=["shared", "fresh"])
    found = rows(events(both))
    for position, split in enumerate(["shared", "fresh"]):
        alone = train(
            GRAPHS, "topkpool", runs=2, hidden=8, epochs=4, batch_size=16, lr=0.01, split=split,
            device="cpu",
        )  # fmt: skip
        for run, row in zip(alone.runs, found[2 * position :], strict=False):
            assert unpack_curves(row["curves"]).tolist() == [list(curve) for curve in run.curves]
            assert row["test_accuracy"] == 100 * run.test["accuracy"][0]
            assert row["test_accuracy_by_loss"] == 100 * run.test["loss"][0]
            assert row["epoch"] == run.choices["accuracy"].epoch


def test_what_a_job_says():
    (job,) = small_jobs(["nopool"], epochs=3)
    begun, planned, *progress, finished, ended = events(job)
    assert isinstance(begun, Begun)
    assert planned == Planned(2)
    assert [p.epoch for p in progress if isinstance(p, EpochDone)] == [1, 2, 3]
    assert progress[-1].going == 0
    assert isinstance(finished, Finished)
    assert isinstance(ended, Ended)
    assert sum(row["seconds"] for row in finished.rows) > 0


NO_ROOM = (
    torch.OutOfMemoryError("CUDA out of memory"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    RuntimeError("Triton Error [CUDA]: out of memory"),
)


@pytest.mark.parametrize("error", NO_ROOM)
def test_out_of_memory_is_tried_again_with_half_the_stack(error, monkeypatch, tmp_path):
    epoch = Trainer.train_epoch

    def cramped(self):
        if len(self.active) > 2:
            raise error
        epoch(self)

    monkeypatch.setattr(Trainer, "train_epoch", cramped)
    (job,) = small_jobs(["nopool"], runs=7)
    found = events(job, checkpoints=tmp_path)
    assert [e.stack for e in found if isinstance(e, Planned)] == [7, 4, 2]
    assert [row["run"] for row in rows(found)] == list(range(7))
    assert [row["stack"] for row in rows(found)] == [2, 2, 2, 2, 2, 2, 1]
    assert isinstance(found[-1], Ended)


def test_out_of_memory_with_a_single_run_is_a_failure(monkeypatch):
    def no_room(self):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(Trainer, "train_epoch", no_room)
    (job,) = small_jobs(["nopool"])
    *_, failed = events(job)
    assert isinstance(failed, Failed)
    assert not failed.fault
    assert "OutOfMemoryError" in failed.reason


def test_what_goes_wrong_in_a_pooling_of_ones_own_is_told_with_file_and_line():
    (job,) = small_jobs(["sweep.poolings:Raises"])
    *_, failed = events(job)
    assert re.match(r"\S*poolings\.py:\d+: ZeroDivisionError\b", in_short(failed.reason))
    assert "Traceback" in failed.reason
    (job,) = small_jobs(["sweep.poolings:Faults"])
    *_, failed = events(job)
    assert failed.fault


def test_a_pooling_that_changes_while_the_sweep_runs_is_not_trained(monkeypatch):
    (job,) = small_jobs(["sweep.poolings:Plain"], epochs=3, runs=1)
    assert len(rows(events(job))) == 1
    monkeypatch.setattr(execute, "own_code", lambda architecture: "another")
    *_, failed = events(job)
    assert "sweep.poolings:Plain" in failed.reason


def test_stopped_and_continued_is_the_same(tmp_path):
    (job,) = small_jobs(["nopool"], epochs=6)
    asked = iter([False, False, True])
    *_, last = events(job, lambda: next(asked), checkpoints=tmp_path)
    assert isinstance(last, Stopped)
    found = events(job, checkpoints=tmp_path)
    assert [e.epoch for e in found if isinstance(e, EpochDone)] == [3, 4, 5, 6]
    assert [row["curves"] for row in rows(found)] == [row["curves"] for row in rows(events(job))]


def test_an_epoch_that_would_not_end_in_time_is_not_begun():
    (job,) = small_jobs(["nopool"])
    found = events(job, deadline=0.0)
    assert [type(event) for event in found] == [Begun, Planned, Stopped]


def test_without_room_for_checkpoints_the_training_goes_on(monkeypatch, tmp_path):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(checkpoint, "write_atomically", full)
    (job,) = small_jobs(["nopool"])
    found = events(job, checkpoints=tmp_path)
    assert isinstance(found[-1], Ended)
    assert any(isinstance(e, Noted) and os.strerror(errno.ENOSPC) in e.message for e in found)


def test_a_run_that_diverged_at_once_has_no_figures():
    (job,) = small_jobs(["nopool"], lr=1e30)
    (row, _) = rows(events(job))
    assert row["diverged"] == 1
    assert row["test_accuracy"] is row["val_loss"] is row["epoch"] is None


def test_the_commit_of_the_sources(monkeypatch, tmp_path):
    monkeypatch.delenv("LCPOOL_COMMIT", raising=False)
    found = commit()
    assert found == "" or len(found.rstrip("+")) == 40
    monkeypatch.setenv("LCPOOL_COMMIT", "abc")
    assert commit() == "abc"


def test_the_commit_of_a_repository_around_an_installation_is_not_ours(monkeypatch, tmp_path):
    monkeypatch.delenv("LCPOOL_COMMIT", raising=False)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True, timeout=60)
    (tmp_path / "version.py").touch()
    monkeypatch.setattr(execute.version, "__file__", str(tmp_path / "version.py"))
    assert commit() == ""


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (RuntimeError("CUDA error: an illegal instruction was encountered"), True),
        (RuntimeError("CUBLAS_STATUS_EXECUTION_FAILED when calling"), True),
        (torch.OutOfMemoryError("CUDA out of memory. CUDA error"), False),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling"), False),
        (RuntimeError("shapes cannot be multiplied"), False),
        (ValueError("CUDA error"), False),
        (RuntimeError("Triton Error [CUDA]: an illegal memory access was encountered"), True),
        (RuntimeError("Triton Error [CUDA]: out of memory"), False),
        (RuntimeError("CUDA driver error: out of memory"), False),
    ],
)
def test_what_is_a_fault_of_the_gpu(error, fault):
    assert is_fault(error) == fault


def test_the_error_of_a_traceback_in_short():
    fault = "Traceback …\n  File …\ntorch.AcceleratorError: CUDA error: illegal\nCompile with …\n"
    assert in_short(fault) == "torch.AcceleratorError: CUDA error: illegal"
    assert in_short("first\nSIGKILL\n") == "SIGKILL"
    assert len(in_short("").splitlines()) == 1
