"""A training that was interrupted ends like one that was not."""

import io
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from lcpool.data import builtin
from lcpool.train import RULES, Run, Trainer, checkpoint, train
from lcpool.train.checkpoint import Checkpoint, interrupt_later

GRAPHS = builtin(num_graphs=40)
OPTIONS = {"pool": "nopool", "runs": 3, "hidden": 8, "epochs": 6, "patience": 3, "lr": 0.01,
           "batch_size": 16, "split": "fresh", "device": "cpu"}  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def leaving():
    """Three runs leave the stack after 6, 4 and 2 epochs, whatever their figures."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Run,
            "ended",
            lambda run, protocol: run.epochs >= min((6, 4, 2)[run.number], protocol.epochs),
        )
        yield


class BrokenOffError(Exception):
    pass


def training(folder=None, stop=None, graphs=GRAPHS, **options):
    """Train, and give what came of it; ``stop`` is the number of epochs after which to break off.

    ``epochs`` are those that were trained now, not before an interruption.
    """
    epochs, trainers = [], []

    def on_epoch(trainer):
        epochs.append(trainer.epoch)
        if trainer not in trainers:
            trainers.append(trainer)
        if len(epochs) == stop:
            raise BrokenOffError

    result = train(graphs, **OPTIONS | options, checkpoints=folder, on_epoch=on_epoch)
    return SimpleNamespace(
        runs=result.runs,
        best=[trainer.best for trainer in trainers],
        model=result.model.network.state_dict(),
        epochs=epochs,
    )


def break_off(folder, after, **options):
    with pytest.raises(BrokenOffError):
        training(folder, stop=after, **options)


def first_epoch(folder, graphs=GRAPHS, **options):
    """The epoch with which a training begins."""
    epochs = []

    def on_epoch(trainer):
        epochs.append(trainer.epoch)
        raise BrokenOffError

    with pytest.raises(BrokenOffError):
        train(graphs, **OPTIONS | options, checkpoints=folder, on_epoch=on_epoch)
    return epochs[0]


def assert_same(found, expected):
    """Curves, chosen epochs, test figures, and every bit of the parameters."""
    assert found.runs == expected.runs
    assert_equal(found.model, expected.model)
    if found.epochs:  # Otherwise nothing was left to train, and no trainer was seen.
        for trainer, other in zip(found.best, expected.best, strict=True):
            for rule in RULES:
                assert_equal(trainer[rule], other[rule])


def assert_equal(tensors, others):
    assert tensors.keys() == others.keys()
    assert all(torch.equal(value, others[name]) for name, value in tensors.items())


@pytest.fixture(scope="module")
def undisturbed(leaving):
    outcome = training()
    assert [run.epochs for run in outcome.runs] == [6, 4, 2]
    return outcome


@pytest.fixture
def every_epoch(monkeypatch):
    """Write a checkpoint after every epoch."""
    monkeypatch.setattr(checkpoint, "INTERVAL", 0.0)
    clock = iter(range(10**6))  # a clock that always moves on
    monkeypatch.setattr(checkpoint, "time", SimpleNamespace(monotonic=lambda: next(clock)))


@pytest.fixture
def ctrl_c():
    """Presses Ctrl-C; it interrupts, whatever this process inherited."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda: signal.raise_signal(signal.SIGINT)
    signal.signal(signal.SIGINT, before)


# --- continuing


@pytest.mark.usefixtures("every_epoch")
@pytest.mark.parametrize("after", range(1, 7))
def test_a_training_broken_off_after_any_epoch_ends_with_the_same_result(
    after, tmp_path, undisturbed
):
    break_off(tmp_path, after)
    continued = training(tmp_path)
    assert continued.epochs == list(range(after + 1, 7))  # not from the beginning
    assert_same(continued, undisturbed)


@pytest.mark.usefixtures("every_epoch")
def test_a_training_may_be_broken_off_again_and_again(tmp_path, undisturbed):
    for _ in range(3):
        break_off(tmp_path, after=1)
    continued = training(tmp_path)
    assert continued.epochs == [4, 5, 6]
    assert_same(continued, undisturbed)


@pytest.mark.usefixtures("every_epoch")
@pytest.mark.parametrize("pool", ["lcpool", "mincutpool"])
def test_poolings_continue_too(pool, tmp_path):
    options = {"pool": pool, "epochs": 3, "runs": 2}
    break_off(tmp_path, 2, **options)
    continued = training(tmp_path, **options)
    assert continued.epochs == [3]
    assert_same(continued, training(**options))


@pytest.mark.usefixtures("every_epoch")
def test_a_diverged_run_stays_diverged(tmp_path, monkeypatch):
    monkeypatch.setattr(
        Run, "ended", lambda run, protocol: run.diverged is not None or run.epochs == 4
    )

    def spoil_run_1(trainer):
        if trainer.epoch == 1:
            with torch.no_grad():
                trainer.stack.tensors()["pre.0.weight"][1] = torch.nan
        if trainer.epoch == 2:
            raise BrokenOffError

    with pytest.raises(BrokenOffError):
        train(GRAPHS, **OPTIONS, checkpoints=tmp_path, on_epoch=spoil_run_1)
    continued = training(tmp_path)
    assert continued.epochs == [3, 4]
    assert [run.diverged for run in continued.runs] == [None, 2, None]
    assert [run.epochs for run in continued.runs] == [4, 2, 4]


@pytest.mark.usefixtures("every_epoch")
def test_of_several_stacks_only_what_is_missing_is_trained(tmp_path, undisturbed):
    """Runs 0 and 1 are a stack of 6 epochs, run 2 a training of 2 of its own."""
    break_off(tmp_path, after=6 + 1, stack=2)
    continued = training(tmp_path, stack=2)
    assert continued.epochs == [2]
    assert continued.runs == undisturbed.runs
    assert_equal(continued.model, undisturbed.model)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("every_epoch")
def test_a_training_that_starts_over_ends_with_the_same_result(tmp_path, undisturbed):
    break_off(tmp_path, after=3)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.warns(UserWarning, match=file.name):
        started_over = training(tmp_path)
    assert started_over.epochs == [1, 2, 3, 4, 5, 6]
    assert_same(started_over, undisturbed)
    assert list(tmp_path.iterdir()) == []


def test_without_a_checkpoint_in_time_a_training_starts_over(tmp_path, undisturbed):
    break_off(tmp_path, after=2)  # far less than INTERVAL seconds
    assert list(tmp_path.iterdir()) == []
    started_over = training(tmp_path)
    assert started_over.epochs == [1, 2, 3, 4, 5, 6]
    assert_same(started_over, undisturbed)


def test_a_checkpoint_is_written_when_the_last_is_long_ago(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(checkpoint, "time", SimpleNamespace(monotonic=lambda: now[0]))
    file = Checkpoint(tmp_path, {})
    written = []
    for second in (100, 119, 121, 122, 140, 142):
        now[0] = float(second)
        file.save(lambda second=second: written.append(second) or {})
    assert written == [121, 142]
    file.save(lambda: written.append("now") or {}, now=True)
    assert written == [121, 142, "now"]


# --- files


@pytest.mark.usefixtures("every_epoch")
def test_success_leaves_nothing_behind(tmp_path):
    folder = tmp_path / "new" / "folder"
    seen = []
    train(
        GRAPHS,
        **OPTIONS | {"epochs": 2},
        checkpoints=folder,
        on_epoch=lambda _: seen.append(len(list(folder.iterdir()))),
    )
    assert seen == [1, 1]
    assert list(folder.iterdir()) == []


@pytest.mark.usefixtures("every_epoch")
def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(checkpoint, "write_atomically", None)
    training(epochs=1)
    assert list(tmp_path.iterdir()) == []


def flip_signs(data):
    """The same file with all numbers of one tensor negated."""
    weight = torch.load(io.BytesIO(data), weights_only=True)["tensors"]["post.0.weight"]
    numbers = weight.numpy().tobytes()
    assert numbers in data
    return data.replace(numbers, (-weight).numpy().tobytes())


@pytest.mark.usefixtures("every_epoch")
@pytest.mark.parametrize("damage", [
    pytest.param(lambda data: b"", id="empty"),
    pytest.param(lambda data: data[:1], id="one byte"),
    pytest.param(lambda data: data[: len(data) // 2], id="half"),
    pytest.param(lambda data: data[:-1], id="all but a byte"),
    pytest.param(lambda data: bytes(len(data)), id="zeros"),
    pytest.param(lambda data: b"no checkpoint at all", id="text"),
    pytest.param(lambda data: pickle.dumps(Executed()), id="a pickle of something else"),
    pytest.param(flip_signs, id="flipped bits"),
])  # fmt: skip
def test_a_damaged_checkpoint_is_none(damage, tmp_path):
    break_off(tmp_path, after=1)
    (file,) = tmp_path.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    with pytest.warns(UserWarning, match=file.name):
        assert first_epoch(tmp_path) == 1
    assert first_epoch(tmp_path) == 2  # a whole one has taken its place


class Executed:
    """What reads this with pickle executes it."""

    def __reduce__(self):
        return (pytest.fail, ("the checkpoint was executed",))


@pytest.mark.usefixtures("every_epoch")
@pytest.mark.parametrize("state", [{}, [1, 2]])
def test_a_checkpoint_of_another_format_is_none(state, tmp_path):
    break_off(tmp_path, after=1)
    (file,) = tmp_path.iterdir()
    torch.save(state, file)
    with pytest.warns(UserWarning, match=file.name):
        assert first_epoch(tmp_path) == 1


@pytest.mark.usefixtures("every_epoch")
@pytest.mark.parametrize("other", [
    {"pool": "topkpool"}, {"backbone": "plain"}, {"conv": "graphconv"}, {"hidden": 4},
    {"norm": "layer"}, {"poolings": 2}, {"lr": 0.02}, {"batch_size": 24}, {"split": "shared"},
    {"seed": 1}, {"patience": 5}, {"runs": 2}, {"stack": 2},
])  # fmt: skip
def test_another_configuration_does_not_take_the_checkpoint(other, tmp_path):
    break_off(tmp_path, after=1)
    (mine,) = tmp_path.iterdir()
    content = mine.read_bytes()
    assert first_epoch(tmp_path, **other) == 1
    assert len(list(tmp_path.iterdir())) == 2
    assert mine.read_bytes() == content


@pytest.mark.usefixtures("every_epoch")
@pytest.mark.parametrize("other", [{"ratio": 0.25}, {"score_channels": 3}, {"self_loops": False},
                                   {"rescale": True}, {"hops": 2}])  # fmt: skip
def test_nor_do_other_options_of_a_pooling(other, tmp_path):
    break_off(tmp_path, after=1, pool="lcpool", runs=1)
    assert first_epoch(tmp_path, pool="lcpool", runs=1) == 2
    assert first_epoch(tmp_path, pool="lcpool", runs=1, **other) == 1


def other_graphs(kind):
    return {
        "name": lambda: replace(GRAPHS, name="mine"),
        "number": lambda: builtin(num_graphs=41),
        "nodes": lambda: builtin(seed=1, num_graphs=40),
        "labels": lambda: replace(GRAPHS, y=1 - GRAPHS.y),
        "features": lambda: replace(GRAPHS, x=2 * GRAPHS.x),
        "edges": lambda: replace(GRAPHS, edge_index=GRAPHS.edge_index[:1].repeat(2, 1)),
        "width": lambda: replace(GRAPHS, x=GRAPHS.x[:, :5]),
    }[kind]()


@pytest.mark.usefixtures("every_epoch")
@pytest.mark.parametrize(
    "kind",
    [
        "name",
        "number",
        "nodes",
        *(pytest.param(k) for k in ("labels", "features", "width", "edges")),
    ],
)
def test_other_graphs_do_not_take_the_checkpoint(kind, tmp_path):
    break_off(tmp_path, after=1)
    assert first_epoch(tmp_path, graphs=other_graphs(kind)) == 1


# --- Ctrl-C and kill


def in_the_middle_of_epoch(monkeypatch, epoch, action):
    """Let something happen after an epoch's training, before its validation."""
    evaluate = Trainer._evaluate

    def patched(trainer, *parts):
        if trainer.epoch == epoch - 1:
            action()
        return evaluate(trainer, *parts)

    monkeypatch.setattr(Trainer, "_evaluate", patched)


def test_ctrl_c_waits_for_the_epoch_and_saves_it(tmp_path, monkeypatch, ctrl_c, undisturbed):
    with monkeypatch.context() as patch:
        in_the_middle_of_epoch(patch, 3, ctrl_c)
        with pytest.raises(KeyboardInterrupt):
            training(tmp_path)
    continued = training(tmp_path)
    assert continued.epochs == [4, 5, 6]
    assert_same(continued, undisturbed)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_while_progress_is_shown_saves_the_epoch_too(tmp_path, ctrl_c):
    with pytest.raises(KeyboardInterrupt):
        train(
            GRAPHS,
            **OPTIONS,
            checkpoints=tmp_path,
            on_epoch=lambda trainer: ctrl_c() if trainer.epoch == 3 else None,
        )
    assert first_epoch(tmp_path) == 4


def test_ctrl_c_after_the_last_epoch_of_a_stack_stops_before_the_next(
    tmp_path, ctrl_c, undisturbed
):
    """Runs 0 and 1 are a stack of 6 epochs, run 2 a training of 2 of its own."""
    epochs = []

    def on_epoch(trainer):
        epochs.append(trainer.epoch)
        if trainer.ended:
            ctrl_c()

    with pytest.raises(KeyboardInterrupt):
        train(GRAPHS, **OPTIONS, stack=2, checkpoints=tmp_path, on_epoch=on_epoch)
    assert epochs == [1, 2, 3, 4, 5, 6]
    continued = training(tmp_path, stack=2)
    assert continued.epochs == [1, 2]
    assert continued.runs == undisturbed.runs


@pytest.mark.usefixtures("every_epoch")
def test_a_second_ctrl_c_while_the_checkpoint_is_written_leaves_the_one_before(
    tmp_path, ctrl_c, monkeypatch, undisturbed
):
    save = torch.save

    def press(trainer):
        if trainer.epoch == 3:
            ctrl_c()
            patch.setattr(torch, "save", interrupted)

    def interrupted(values, file):
        save(values, file)
        ctrl_c()

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        train(GRAPHS, **OPTIONS, checkpoints=tmp_path, on_epoch=press)
    assert len(list(tmp_path.iterdir())) == 1
    continued = training(tmp_path)
    assert continued.epochs == [4, 5, 6]
    assert_same(continued, undisturbed)


def test_ctrl_c_without_checkpoints_interrupts(monkeypatch, ctrl_c):
    in_the_middle_of_epoch(monkeypatch, 2, ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        training()


def test_a_second_ctrl_c_does_not_wait(ctrl_c):
    with interrupt_later() as interrupted:
        assert not interrupted()
        ctrl_c()
        assert interrupted()
        with pytest.raises(KeyboardInterrupt):
            ctrl_c()
    with pytest.raises(KeyboardInterrupt):
        ctrl_c()  # and afterwards all is as before


def test_a_thread_of_its_own_can_train():
    found = []
    thread = threading.Thread(target=lambda: found.append(training(epochs=1)))
    thread.start()
    thread.join(120)
    assert found[0].epochs == [1]


CHILD = """
import json, os, signal, sys
from lcpool.data import builtin
from lcpool.train import Run, Trainer, checkpoint, train

graphs, options = builtin(num_graphs=40), json.loads(sys.argv[1])
Run.ended = lambda run, protocol: run.epochs >= (6, 4, 2)[run.number]
evaluate = Trainer._evaluate

def press_ctrl_c(trainer, *parts):
    if trainer.epoch == 2:
        os.kill(os.getpid(), signal.SIGINT)
    return evaluate(trainer, *parts)

Trainer._evaluate = press_ctrl_c
try:
    train(graphs, **options, checkpoints="interrupted")
except KeyboardInterrupt:
    print("interrupted")
Trainer._evaluate = evaluate

def kill_in_the_next_writing(trainer):
    if trainer.epoch == 2:
        os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)

checkpoint.INTERVAL = 0.0
train(graphs, **options, checkpoints="killed", on_epoch=kill_in_the_next_writing)
print("alive")
"""


@pytest.fixture(scope="module")
def fallen(tmp_path_factory):
    """What another process leaves: in one folder after Ctrl-C during epoch 3, in the other after
    kill -9 while it wrote the checkpoint of epoch 3."""
    folder = tmp_path_factory.mktemp("fallen")
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    child = subprocess.run(
        [sys.executable, "-c", CHILD, json.dumps(OPTIONS)],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert (child.returncode, child.stdout) == (-signal.SIGKILL, "interrupted\n"), child.stderr
    return folder


@pytest.mark.parametrize(("kind", "epochs"), [("interrupted", 3), ("killed", 2)])
def test_a_process_that_fell_is_continued_by_another(kind, epochs, fallen, tmp_path, undisturbed):
    folder = Path(shutil.copytree(fallen / kind, tmp_path / kind))
    continued = training(folder)
    assert continued.epochs == list(range(epochs + 1, 7))
    assert_same(continued, undisturbed)
    assert list(folder.glob("*.ckpt")) == []


def test_nothing_half_written_stays_after_the_end(fallen, tmp_path):
    folder = Path(shutil.copytree(fallen / "killed", tmp_path / "killed"))
    training(folder)
    assert list(folder.iterdir()) == []
