"""The way a stack is trained to its end, the same for a training alone and for a sweep."""

import pytest
import torch

from lcpool.data import builtin
from lcpool.models import Architecture
from lcpool.train import Protocol, Trainer, checkpoint, memory, train
from lcpool.train.checkpoint import Checkpoint
from lcpool.train.memory import stack_size
from lcpool.train.training import Halved, in_stacks, training

GRAPHS = builtin(num_graphs=40)
QUICK = {"pool": "nopool", "hidden": 8, "epochs": 4, "batch_size": 16, "device": "cpu"}


def make(runs=2):
    return Trainer(GRAPHS, Architecture(pool="nopool", hidden=8), Protocol(epochs=4), range(runs))


def full(*_):
    raise OSError(28, "No space left on device")


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
    monkeypatch.setattr("lcpool.train.training.time.time", lambda: now)
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
    assert "No space left" in notes[0]
    with pytest.warns(UserWarning, match="no checkpoint can be written") as said:
        result = train(GRAPHS, **QUICK, runs=2, checkpoints=tmp_path)
    assert len(said) == 1
    assert len(result.accuracies()) == 2


def test_memory_that_does_not_suffice_halves_the_stack(tmp_path, monkeypatch):
    """As in a sweep; the runs are those of the stack that did not fit."""
    whole = train(GRAPHS, **QUICK, runs=5)
    epoch = Trainer.train_epoch

    def cramped(self):
        if len(self.active) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        epoch(self)

    monkeypatch.setattr(Trainer, "train_epoch", cramped)
    with pytest.warns(UserWarning, match="memory is too small") as said:
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
        (None, [Halved(3), Halved(2), [0, 1], [2, 3], [4]]),
        (2, [Halved(3), Halved(2), [0, 1], [2, 3]]),
    ],
)
def test_in_stacks(stop_at, said):
    device = torch.device("cpu")
    stacks = in_stacks(range(5), 5, lambda part: cramped(part, stop_at), device)
    assert list(stacks) == said


@pytest.mark.parametrize(
    ("free", "share", "size"), [(100, 1.0, 8), (50, 1.0, 4), (100, 0.5, 4), (1, 1.0, 1)]
)
def test_what_fits_is_the_share_of_the_gpu_or_what_is_free_of_it(free, share, size, monkeypatch):
    """A step of one run takes 10 of 100 bytes, of which four fifths are counted on."""

    class OnAGPU:
        is_cuda, device = True, torch.device("cpu")

    class Graphs:
        x = OnAGPU()

    monkeypatch.setattr(memory, "step_memory", lambda *_: 10)
    monkeypatch.setattr(memory, "initial_model", lambda *_: None)
    monkeypatch.setattr(memory.Stack, "tried", lambda *_: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (free, 100))
    assert stack_size(Graphs(), Architecture(), Protocol(), 20, None, share) == size
    assert stack_size(Graphs(), Architecture(), Protocol(), 20, 15, share) == 15
