"""Whatever is killed, the sweep that goes on ends like one that was never disturbed."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time

import psutil
import pytest
from sweep.sweeping import Silent, command, figures, small_jobs, sweep, write_tu

from lcpool.sweep.grid import Grid, make_jobs
from lcpool.sweep.store import Store
from lcpool.sweep.worker import process_context

SETTINGS = {"pools": ["nopool", "topkpool", "asapool"], "epochs": 12, "splits": ["shared", "fresh"]}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    path = tmp_path_factory.mktemp("undisturbed") / "bench.sqlite"
    assert sweep(path, small_jobs(**SETTINGS)).complete == 3
    return figures(path)


def start(path, outcome=None):
    process = process_context().Process(target=command, args=(path, SETTINGS, outcome))
    process.start()
    return process


def test_a_command_killed_at_random_times(tmp_path, undisturbed):
    path, chance, found = tmp_path / "bench.sqlite", random.Random(0), []
    for _ in range(5):
        process = start(path)
        process.join(chance.uniform(0.1, 1.2))
        process.kill()
        process.join()
        if path.exists():
            found.append(len(figures(path)))
    process = start(path)
    process.join()
    assert process.exitcode == 0
    assert figures(path) == undisturbed
    assert found == sorted(found)  # What was stored stayed.
    assert os.listdir(tmp_path) == ["bench.sqlite"]


def test_a_continued_training_does_not_start_over(tmp_path, undisturbed):
    path, folder = tmp_path / "bench.sqlite", tmp_path / "bench.sqlite.work" / "checkpoints"
    process = start(path)
    while not list(folder.glob("*/*.ckpt")):
        assert process.is_alive()
    process.kill()
    process.join()
    seen = []
    jobs = small_jobs(**SETTINGS)

    class Watch(Silent):
        def show(self, sweep):
            seen.extend(work.progress for work in sweep.at_work.values() if work.progress)

    watch = Watch()
    sweep(path, jobs, view=watch)
    assert seen[0].epoch > 1
    assert "begun before: going on from checkpoints" in watch.said[0]
    assert figures(path) == undisturbed


def test_two_commands_share_the_work(tmp_path, undisturbed):
    path = tmp_path / "bench.sqlite"
    pipes = [process_context().Pipe() for _ in range(2)]
    processes = [start(path, theirs) for _, theirs in pipes]
    outcomes = [ours.recv() for ours, _ in pipes]
    for process in processes:
        process.join()
    assert sum(runs for runs, _ in outcomes) == len(undisturbed)  # No run was trained twice.
    assert [complete for _, complete in outcomes] == [3, 3]  # Both waited for the whole.
    assert figures(path) == undisturbed


def test_who_waits_takes_over_from_the_dead(tmp_path, undisturbed):
    path = tmp_path / "bench.sqlite"
    first = start(path)
    while not (path.exists() and claims(path)):
        assert first.is_alive()
    second = start(path)
    time.sleep(0.5)
    first.kill()
    second.join()
    assert figures(path) == undisturbed


def claims(path):
    try:
        with Store(path, readonly=True) as store:
            return store.rows("SELECT * FROM claims")
    except ValueError:  # It is just being made.
        return []


def bench(path, dataset):
    pools = ["--pools", "nopool,topkpool", "--runs", "2", "--hidden", "8", "--epochs", "8"]
    return subprocess.Popen(
        [sys.executable, "-m", "lcpool", "bench", "-d", dataset, *pools, "--device", "cpu",
         "--workers", "2", "--store", path],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, text=True,
        stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


def wait_for(pattern, folder, process):
    while not list(folder.glob(pattern)):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.02)


def test_the_real_command_killed(tmp_path, monkeypatch):
    """Its workers go with it, and the same command goes on."""
    monkeypatch.setenv("LCPOOL_CACHE", str(tmp_path / "cache"))
    dataset, path = write_tu(tmp_path), tmp_path / "out" / "bench.sqlite"
    folder = path.with_name("bench.sqlite.work")
    first = bench(path, dataset)
    wait_for("worker-*.log", folder, first)
    workers = psutil.Process(first.pid).children(recursive=True)
    assert workers
    first.kill()
    _, alive = psutil.wait_procs(workers, timeout=20)
    assert not alive
    first.communicate()

    second = bench(path, dataset)
    _, said = second.communicate()
    assert second.returncode == 0, said
    assert "2 of 2 jobs are complete" in said
    assert os.listdir(path.parent) == ["bench.sqlite"]
    settings = {"runs": 2, "hidden": 8, "epochs": 8, "pools": ["nopool", "topkpool"]}
    sweep(tmp_path / "undisturbed.sqlite", make_jobs([Grid.of(datasets=dataset, **settings)]))
    assert figures(path) == figures(tmp_path / "undisturbed.sqlite")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_all_processes_while_workers_start(tmp_path, monkeypatch, number):
    """Ctrl-C in a terminal, or ``timeout``: no traceback, nothing failed, and the usual status."""
    monkeypatch.setenv("LCPOOL_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "out" / "bench.sqlite"
    command = bench(path, write_tu(tmp_path))
    while not any("forkserver" in " ".join(child.cmdline()) for child in children(command)):
        assert command.poll() is None, command.communicate()[1]
        time.sleep(0.02)
    os.killpg(command.pid, number)
    _, said = command.communicate(timeout=120)
    assert command.returncode == 130, said
    assert "2 jobs are missing (interrupted)" in said
    assert "Traceback" not in said
    assert "failed" not in said


def children(process):
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(process.pid).children(recursive=True)
    return []
