"""Whatever is killed, the sweep that continues ends like one that was never disturbed."""

import os
import random
import signal
import subprocess
import sys
import time

import psutil
import pytest
from said import naming, numbers
from sweep.sweeping import LONG, Silent, command, figures, small_jobs, sweep, wait_until, write_tu

from lcpool.cli.sweep import terminated_like_interrupted
from lcpool.sweep.engines.worker import process_context
from lcpool.sweep.grid import Grid, make_jobs
from lcpool.sweep.store import Store

SETTINGS = {"pools": ["nopool", "topkpool", "asapool"], "epochs": 12, "splits": ["shared", "fresh"]}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    path = tmp_path_factory.mktemp("undisturbed") / "bench.sqlite"
    assert sweep(path, small_jobs(**SETTINGS)).complete == 3
    return figures(path)


def start(path, **options):
    process = process_context().Process(target=command, args=(path, SETTINGS), kwargs=options)
    process.start()
    return process


def ended(process):
    process.join(LONG)
    assert process.exitcode is not None
    return process.exitcode


def checkpoints(path):
    return set(path.parent.glob("*.work/checkpoints/*/*.ckpt"))


def test_a_command_killed_in_the_middle_of_epochs(tmp_path, undisturbed):
    """Each kill follows a step of the optimizer: a training was hit, and continues."""
    path, chance, stored = tmp_path / "bench.sqlite", random.Random(0), []
    for _ in range(3):
        # An epoch has three steps; it is hit in the middle, and one at least is complete.
        assert ended(start(path, fatal_step=3 * chance.randrange(1, 8) + 1)) == -signal.SIGKILL
        stored.append(len(figures(path)))
        assert checkpoints(path)
    assert stored == sorted(stored)  # No stored run was lost.
    assert 0 < stored[-1] < len(undisturbed)
    assert ended(start(path)) == 0
    assert figures(path) == undisturbed
    assert os.listdir(tmp_path) == ["bench.sqlite"]


def test_a_continued_training_does_not_start_over(tmp_path, undisturbed):
    path = tmp_path / "bench.sqlite"
    assert ended(start(path, fatal_step=7)) == -signal.SIGKILL  # two epochs of three steps
    seen = []

    class Watch(Silent):
        def show(self, sweep):
            seen.extend(work.epoch for work in sweep.at_work.values() if work.epoch)

    watch = Watch()
    sweep(path, small_jobs(**SETTINGS), view=watch)
    assert seen[0].epoch == 3
    assert "checkpoint" in watch.said[0]
    assert figures(path) == undisturbed


def test_two_commands_share_the_work(tmp_path, undisturbed):
    path = tmp_path / "bench.sqlite"
    pipes = [process_context().Pipe() for _ in range(2)]
    processes = [start(path, outcome=theirs) for _, theirs in pipes]
    assert all(ours.poll(LONG) for ours, _ in pipes)
    outcomes = [ours.recv() for ours, _ in pipes]
    assert [ended(process) for process in processes] == [0, 0]
    assert sum(runs for runs, _ in outcomes) == len(undisturbed)  # No run was trained twice.
    assert [complete for _, complete in outcomes] == [3, 3]  # Both waited for the whole.
    assert figures(path) == undisturbed


def test_a_waiting_command_takes_over_from_a_dead_one(tmp_path, undisturbed):
    path = tmp_path / "bench.sqlite"
    first = start(path)
    wait_until(lambda: checkpoints(path), first)  # it is in the middle of a job
    os.kill(first.pid, signal.SIGSTOP)
    second = start(path)
    wait_until(lambda: len(figures(path)) == 8, second)  # all but the job of the first
    time.sleep(0.2)
    assert len(figures(path)) == 8
    assert checkpoints(path)
    first.kill()
    assert ended(second) == 0
    assert figures(path) == undisturbed


OWN = """\
import time
from sweep.poolings import Plain
class Slow(Plain):
    def forward(self, *args):
        with open({steps!r}, "a") as steps:
            steps.write(".")
        time.sleep(0.01)
        return super().forward(*args)
"""


def test_the_real_command_interrupted_and_killed(tmp_path, monkeypatch):
    """Its workers end with it, and the same command continues."""
    monkeypatch.setenv("LCPOOL_CACHE", str(tmp_path / "cache"))
    dataset, path, steps = write_tu(tmp_path), tmp_path / "out" / "bench.sqlite", tmp_path / "steps"
    (tmp_path / "own.py").write_text(OWN.format(steps=str(steps)))
    settings = {"pools": ["nopool", "own:Slow"], "runs": 2, "hidden": 8, "epochs": 8}
    options = [f"--{name}={','.join(v) if name == 'pools' else v}" for name, v in settings.items()]

    def bench():
        return subprocess.Popen(
            [sys.executable, "-m", "lcpool", "bench", "-d", dataset, *options, "--device", "cpu",
             "--workers", "2", "--store", path], cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, text=True,
            stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    def wait_for(condition, command):
        until = time.monotonic() + LONG
        while not condition():
            assert command.poll() is None, command.communicate(timeout=LONG)[1]
            assert time.monotonic() < until
            time.sleep(0.02)

    # Ctrl-C reaches all processes, here while the workers start: no traceback, nothing failed.
    first = bench()
    wait_for(lambda: list(path.parent.glob("*.work/claims/*")), first)
    os.killpg(first.pid, signal.SIGINT)
    _, said = first.communicate(timeout=LONG)
    assert first.returncode == 130, said
    assert "Traceback" not in said
    with Store(path, readonly=True) as store:
        assert store.rows("SELECT * FROM failures") == []

    # The pooling has been called in training, and not for the last time.
    steps.write_text("")
    second = bench()
    wait_for(lambda: steps.stat().st_size > 10, second)
    workers = psutil.Process(second.pid).children(recursive=True)
    assert workers
    second.kill()
    _, alive = psutil.wait_procs(workers, timeout=20)
    assert not alive
    second.communicate(timeout=LONG)
    with Store(path, readonly=True) as store:
        query = "SELECT * FROM runs JOIN cells ON cell = id WHERE pool = 'own:Slow'"
        assert len(store.rows(query)) < 2

    third = bench()
    _, said = third.communicate(timeout=LONG)
    assert third.returncode == 0, said
    assert numbers(naming(said, "bench.sqlite")[0])[:2] == [2, 2]
    assert os.listdir(path.parent) == ["bench.sqlite"]
    monkeypatch.syspath_prepend(tmp_path)
    sweep(tmp_path / "undisturbed.sqlite", make_jobs([Grid.of(datasets=dataset, **settings)]))
    assert figures(path) == figures(tmp_path / "undisturbed.sqlite")


def test_sigterm_stops_like_ctrl_c(tmp_path):
    class Terminates(Silent):
        def show(self, sweep):
            if not sweep.stopping and any(work.epoch for work in sweep.at_work.values()):
                signal.raise_signal(signal.SIGTERM)

    with terminated_like_interrupted():
        outcome = sweep(tmp_path / "a.sqlite", small_jobs(["nopool"]), view=Terminates())
    assert (outcome.stopped, len(outcome.left)) == ("interrupted", 1)
