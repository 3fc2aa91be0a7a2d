"""The way a stack is trained to its end, the same for a training alone and for a sweep."""

import contextlib
import errno
import os
import re

import pytest
import torch
from typer.testing import CliRunner

from lcpool.atomic import write_atomically
from lcpool.cli.app import app
from lcpool.data import builtin
from lcpool.models import Architecture
from lcpool.train import Protocol, Trainer, checkpoint, train
from lcpool.train.checkpoint import Checkpoint
from lcpool.train.device import in_stacks, stack_size
from lcpool.train.loop import training

GRAPHS = builtin(num_graphs=40)
QUICK = {"pool": "nopool", "hidden": 8, "epochs": 4, "batch_size": 16, "device": "cpu"}


def make(runs=2):
    return Trainer(GRAPHS, Architecture(pool="nopool", hidden=8), Protocol(epochs=4), range(runs))


def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def every_epoch(monkeypatch):
    monkeypatch.setattr(checkpoint, "INTERVAL", -1.0)


def test_stopped_and_continued_is_the_same(tmp_path):
    whole = make()
    assert [trainer.epoch for trainer in training(whole, Checkpoint(None, {}), pytest.fail)] == [
        1, 2, 3, 4,
    ]  # fmt: skip
    asked, first, second = iter([False, False, True]), make(), make()
    file = Checkpoint(tmp_path, {})
    assert len(list(training(first, file, pytest.fail, lambda: next(asked)))) == 2
    assert not first.tested
    seen = [t.epoch for t in training(second, Checkpoint(tmp_path, {}), pytest.fail)]
    assert seen == [3, 4]
    assert second.tested
    assert second.runs == whole.runs


def test_an_epoch_that_would_not_end_in_time_is_not_begun(tmp_path, monkeypatch):
    now = 100.0
    monkeypatch.setattr("lcpool.train.loop.time.time", lambda: now)
    trainer = make()
    for _ in training(trainer, Checkpoint(tmp_path, {}), pytest.fail, deadline=110.0):
        trainer.pace = 9.0 if trainer.epoch == 1 else 11.0
    assert trainer.epoch == 2
    assert len(list(tmp_path.iterdir())) == 1
    assert not list(training(make(), Checkpoint(None, {}), pytest.fail, deadline=0.0))


@pytest.mark.usefixtures("every_epoch")
def test_without_room_for_checkpoints_it_goes_on_and_says_so_once(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "write_atomically", full)
    notes, trainer = [], make()
    assert len(list(training(trainer, Checkpoint(tmp_path, {}), notes.append))) == 4
    assert trainer.tested
    assert len(notes) == 1
    assert os.strerror(errno.ENOSPC) in notes[0]


@contextlib.contextmanager
def small_files(limit):
    """No file can become larger while inside, as on a full disk."""
    resource = pytest.importorskip("resource", reason="no such limit on Windows")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("every_epoch")
@pytest.mark.parametrize("limit", [0, 1000, 8192, 12_000])
def test_a_full_disk_does_not_end_a_training(tmp_path, limit):
    with small_files(limit), pytest.warns(UserWarning, match=str(tmp_path)) as said:
        result = train(GRAPHS, **QUICK, runs=2, checkpoints=tmp_path)
    assert len(said) == 1
    assert len(result.accuracies()) == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", range(1500, 9000, 750))
def test_a_full_disk_is_named_and_leaves_nothing(tmp_path, size):
    """Wherever torch's writer is when the disk is full."""
    values = {str(i): torch.randn(size) for i in range(5)}
    with small_files(24_576), pytest.raises(OSError, match=r"model\.pt"):
        write_atomically(values, tmp_path / "model.pt")
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_cannot_be_saved_is_not_lost(tmp_path, monkeypatch):
    """The checkpoint is removed last: the same command saves the model, without training."""
    model, folder = tmp_path / "model.pt", tmp_path / "checkpoints"
    command = ["train", "builtin", "--pool", "nopool", "--hidden", "8", "--runs", "1"]
    command += ["--epochs", "2", "--checkpoints", str(folder), "--save", str(model)]
    with monkeypatch.context() as patch:
        patch.setattr("lcpool.train.model_file.write_atomically", full)
        done = CliRunner().invoke(app, command)
    assert done.exit_code == 1
    assert re.search(r"\d+\.\d\d %", done.stdout)
    assert os.strerror(errno.ENOSPC) in done.stderr
    assert len(list(folder.iterdir())) == 1
    monkeypatch.setattr(Trainer, "train_epoch", pytest.fail)
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.stderr
    assert model.exists()
    assert list(folder.iterdir()) == []


def test_a_checkpoint_that_cannot_be_removed_does_not_cost_the_result(tmp_path, monkeypatch):
    monkeypatch.setattr("pathlib.Path.unlink", full)
    assert len(train(GRAPHS, **QUICK, runs=1, checkpoints=tmp_path).runs) == 1


def test_memory_that_does_not_suffice_halves_the_stack(tmp_path, monkeypatch):
    """As in a sweep; the runs are those of the stack that did not fit."""
    whole = train(GRAPHS, **QUICK, runs=5)
    epoch = Trainer.train_epoch

    def cramped(self):
        if len(self.active) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        epoch(self)

    monkeypatch.setattr(Trainer, "train_epoch", cramped)
    with pytest.warns(UserWarning, match="memory") as said:
        result = train(GRAPHS, **QUICK, runs=5, checkpoints=tmp_path)
    assert len(said) == 2  # five, three, two
    assert result.stack == 2
    assert result.runs == whole.runs
    assert not list(tmp_path.iterdir())


def test_a_single_run_that_does_not_fit_is_an_error(monkeypatch):
    def no_room(_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(Trainer, "train_epoch", no_room)
    with pytest.raises(torch.OutOfMemoryError):
        train(GRAPHS, **QUICK, runs=1)


def cramped(part, stop_at=None):
    """Trains a stack of numbers; there is room for two."""
    if len(part) > 2:
        raise torch.OutOfMemoryError("CUDA out of memory")
    yield list(part)
    return stop_at not in part


@pytest.mark.parametrize(
    ("stop_at", "said"),
    [
        (None, [3, 2, [0, 1], [2, 3], [4]]),
        (2, [3, 2, [0, 1], [2, 3]]),
    ],
)
def test_in_stacks(stop_at, said):
    device = torch.device("cpu")
    stacks = in_stacks(
        range(5), 5, lambda part: cramped(part, stop_at), device, int, kind=lambda run: "same"
    )
    assert list(stacks) == said


def test_runs_with_other_numbers_of_graphs_are_another_stack():
    sizes = dict(enumerate([7, 7, 7, 8, 7, 7]))
    stacks = in_stacks(range(6), 2, cramped, torch.device("cpu"), int, sizes.__getitem__)
    assert list(stacks) == [[0, 1], [2], [3], [4, 5]]


@pytest.mark.parametrize(
    ("free", "share", "size"), [(100, 1.0, 8), (50, 1.0, 4), (100, 0.5, 4), (1, 1.0, 1)]
)
def test_what_fits_is_the_share_of_the_gpu_or_what_is_free_of_it(free, share, size, monkeypatch):
    """A step of one run takes 10 of 100 bytes, of which four fifths are counted on."""

    class OnAGPU:
        is_cuda, device = True, torch.device("cpu")

    class Graphs:
        x = OnAGPU()

    monkeypatch.setattr("lcpool.train.device.step_memory", lambda *_: 10)
    monkeypatch.setattr("lcpool.train.device.initial_model", lambda *_: None)
    monkeypatch.setattr("lcpool.train.device.as_one", lambda *_: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (free, 100))
    assert stack_size(Graphs(), Architecture(), Protocol(), 20, None, share) == size
    assert stack_size(Graphs(), Architecture(), Protocol(), 20, 15, share) == 15
