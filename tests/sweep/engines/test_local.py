"""Worker processes, and what becomes of a sweep when they die."""

import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from types import SimpleNamespace
from typing import ClassVar

import pytest
from said import numbers
from sweep.sweeping import CPU, Silent, figures, small_jobs, sweep

from lcpool.sweep import run
from lcpool.sweep.engine import EngineError
from lcpool.sweep.engines import local
from lcpool.sweep.engines.local import LocalEngine, default_workers
from lcpool.sweep.engines.worker import PRELOADED, Worker
from lcpool.sweep.store import Store, WorkFolder

NOWHERE = SimpleNamespace(type="cpu")  # no device that torch would take


@pytest.fixture
def engine(tmp_path):
    return LocalEngine([CPU], 2, tmp_path / "work", jobs=10)


def failures(path):
    with Store(path, readonly=True) as store:
        return [row["reason"] for row in store.rows("SELECT * FROM failures")]


def test_workers_give_what_one_process_gives(tmp_path, engine):
    jobs = small_jobs(splits=["shared", "fresh"])
    assert sweep(tmp_path / "a.sqlite", jobs, engine).complete == 3
    assert sweep(tmp_path / "b.sqlite", jobs).complete == 3
    assert figures(tmp_path / "a.sqlite") == figures(tmp_path / "b.sqlite")


def test_a_killed_worker_is_replaced_and_its_cell_trained_again(tmp_path, engine):
    killed = []

    class Killer(Silent):
        def show(self, sweep):
            for worker in engine.workers:
                begun = any(work.epoch for work in sweep.at_work.values())
                if len(killed) < 2 and worker not in killed and worker.task and begun:
                    worker.process.kill()
                    killed.append(worker)

    jobs = small_jobs(epochs=20, patience=20)
    outcome = sweep(tmp_path / "a.sqlite", jobs, engine, Killer())
    assert len(killed) == 2
    assert (outcome.complete, outcome.failed) == (3, [])
    assert ["memory" in reason for reason in failures(tmp_path / "a.sqlite")] == [True] * 2
    sweep(tmp_path / "b.sqlite", jobs)
    assert figures(tmp_path / "a.sqlite") == figures(tmp_path / "b.sqlite")


@pytest.mark.parametrize(
    ("pool", "reason"),
    [
        ("Raises", "ZeroDivisionError"),
        ("Dies", "--stack"),
        ("Crashes", "SIGSEGV"),
    ],
)
def test_a_cell_that_fails_repeatedly_is_set_aside(tmp_path, engine, pool, reason):
    path, view = tmp_path / "a.sqlite", Silent()
    outcome = sweep(path, small_jobs(["nopool", f"sweep.poolings:{pool}"]), engine, view)
    assert outcome.complete == 1
    ((job, why),) = outcome.failed
    assert job.cells[0].architecture.pool == f"sweep.poolings:{pool}"
    assert reason in why
    assert len(failures(path)) == 3
    *_, failed, again, aside = (line for line in view.said if pool in line)
    assert failed == again != aside


class PretendMPS:
    """Makes a fault one of all, as MPS does."""

    environment: ClassVar = {}
    started = stopped = 0

    def start(self):
        PretendMPS.started += 1

    def stop(self):
        PretendMPS.stopped += 1


def test_a_fault_takes_all_down_and_only_the_culprit_is_set_aside(tmp_path, monkeypatch, engine):
    monkeypatch.setattr(local, "MPS", PretendMPS)
    monkeypatch.setattr(PretendMPS, "started", 0)
    monkeypatch.setattr(PretendMPS, "stopped", 0)
    engine.mps = PretendMPS()
    # Workers are told what to import; what is set in this process does not reach all of them.
    sign, kinds = tmp_path / "sign", ("FaultsInCompany", "Waits")
    lines = [f"class {kind}(poolings.{kind}):\n    sign = {str(sign)!r}\n" for kind in kinds]
    (tmp_path / "company.py").write_text("from sweep import poolings\n" + "".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    own = [f"company:{kind}" for kind in kinds]
    pools = ["nopool", "topkpool", "sagpool", *own]
    view = Silent()
    outcome = sweep(tmp_path / "a.sqlite", small_jobs(pools, epochs=10), engine, view)
    assert outcome.complete == 4
    ((job, why),) = outcome.failed
    assert "Faults" in str(job)
    assert "CUDA" in why
    assert PretendMPS.started == 1 + run.TRIES
    assert PretendMPS.stopped == PretendMPS.started + 1
    assert 2 in [number for line in view.said if "GPU" in line for number in numbers(line)]


def test_without_mps_a_fault_is_its_own_affair(tmp_path, engine):
    outcome = sweep(tmp_path / "a.sqlite", small_jobs(["nopool", "sweep.poolings:Faults"]), engine)
    assert (outcome.complete, len(outcome.failed)) == (1, 1)
    assert len(failures(tmp_path / "a.sqlite")) == 3


def test_workers_that_cannot_start(tmp_path, monkeypatch, engine):
    monkeypatch.setattr(local, "Worker", lambda device, *more: Worker(NOWHERE, *more))
    with pytest.raises(EngineError, match="worker"):
        sweep(tmp_path / "a.sqlite", small_jobs(), engine)
    assert engine.workers == []


def test_mps_that_lets_no_worker_start_is_given_up(tmp_path, monkeypatch, engine):
    class Broken(PretendMPS):
        environment: ClassVar = {"PRETEND": "1"}

    def make(device, threads, log, environment):
        return Worker(NOWHERE if environment else device, threads, log, environment)

    monkeypatch.setattr(local, "Worker", make)
    engine.mps, view = Broken(), Silent()
    assert sweep(tmp_path / "a.sqlite", small_jobs(), engine, view).complete == 3
    assert any("MPS" in line for line in view.said)


def test_workers_have_the_environment_of_mps(tmp_path, monkeypatch, engine):
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)
    jobs = small_jobs(["sweep.poolings:UnderMPS"])
    engine.mps = PretendMPS()
    monkeypatch.setattr(PretendMPS, "environment", {"CUDA_MPS_PIPE_DIRECTORY": "pretended"})
    assert sweep(tmp_path / "a.sqlite", jobs, engine).complete == 1
    assert "CUDA_MPS_PIPE_DIRECTORY" not in os.environ


def test_workers_have_the_environment_of_this_process(tmp_path, monkeypatch, engine):
    """Not that of when the server began that they are forked from: it may name another GPU."""
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)
    assert sweep(tmp_path / "a.sqlite", small_jobs(["nopool"]), engine).complete == 1
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", "pretended")
    jobs = small_jobs(["sweep.poolings:UnderMPS"])
    other = LocalEngine([CPU], 1, tmp_path / "other", jobs=1)
    assert sweep(tmp_path / "b.sqlite", jobs, other).complete == 1


# A process that has used a GPU cannot fork others that do.
IMPORTS = """
import importlib, sys
import torch

def used(*_, **__):
    raise SystemExit("a GPU was used, or asked for")

for name in ("_lazy_init", "init", "is_available", "device_count", "current_device",
             "get_device_capability", "get_device_properties"):
    setattr(torch.cuda, name, used)
for name in sys.argv[1:]:
    importlib.import_module(name)
try:
    from triton.runtime.driver import driver
except ImportError:
    pass
else:
    assert getattr(driver, "_active", None) is None
"""


def test_what_workers_are_forked_from_uses_no_gpu():
    names = PRELOADED if find_spec("triton") else PRELOADED[:1]
    subprocess.run([sys.executable, "-c", IMPORTS, *names], check=True)


def test_time_is_up(tmp_path, engine):
    """It stops by itself, keeps what is done, and another command goes on from there."""

    class CallsTime(Silent):
        def show(self, sweep):
            if all(work.epoch for work in sweep.at_work.values()):
                sweep.last_call = 0.0

    path, jobs = tmp_path / "a.sqlite", small_jobs(epochs=400, patience=400)
    outcome = sweep(path, jobs, engine, CallsTime())
    assert outcome.stopped not in ("", "interrupted")
    assert outcome.left
    assert list((tmp_path / "a.sqlite.work" / "checkpoints").glob("*/*.ckpt"))
    assert not WorkFolder(path).claims.exists()


def test_ctrl_c_keeps_the_epochs_that_are_done(tmp_path, engine):
    class Presses(Silent):
        def show(self, sweep):
            if not sweep.stopping and all(work.epoch for work in sweep.at_work.values()):
                signal.raise_signal(signal.SIGINT)

    path, jobs = tmp_path / "a.sqlite", small_jobs(epochs=30, patience=30)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    outcome = sweep(path, jobs, engine, Presses())
    signal.signal(signal.SIGINT, before)
    assert (outcome.stopped, outcome.complete + len(outcome.left)) == ("interrupted", 3)
    assert outcome.left
    assert list((tmp_path / "a.sqlite.work" / "checkpoints").glob("*/*.ckpt"))
    assert engine.workers == []
    sweep(path, jobs)
    sweep(tmp_path / "b.sqlite", jobs)
    assert figures(path) == figures(tmp_path / "b.sqlite")


def test_a_pooling_that_hangs_is_killed_and_set_aside(tmp_path, engine):
    path, jobs = tmp_path / "a.sqlite", small_jobs(["sweep.poolings:Hangs"])
    outcome = sweep(path, jobs, engine, epoch_timeout=1.0)
    ((job, why),) = outcome.failed
    assert job.cells[0].architecture.pool == "sweep.poolings:Hangs"
    assert "--epoch-timeout" in why
    assert len(failures(path)) == 1
    assert engine.workers == []


class Interrupts(Silent):
    """Presses Ctrl-C once a worker has begun."""

    def show(self, sweep):
        if not sweep.stopping and any(work.silent >= 0 for work in sweep.at_work.values()):
            signal.raise_signal(signal.SIGINT)


@pytest.fixture
def interrupts():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield Interrupts()
    signal.signal(signal.SIGINT, before)


def test_one_ctrl_c_ends_a_pooling_that_hangs(tmp_path, monkeypatch, engine, interrupts):
    monkeypatch.setattr(run, "GRACE", 0.5)
    path = tmp_path / "a.sqlite"
    outcome = sweep(path, small_jobs(["sweep.poolings:Hangs"]), engine, interrupts)
    assert (outcome.stopped, len(outcome.left), outcome.failed) == ("interrupted", 1, [])
    assert engine.workers == []
    assert failures(path) == []


def test_while_all_are_being_stopped_a_death_is_no_failure(tmp_path, engine, interrupts):
    class Kills(Interrupts):
        def show(self, sweep):
            super().show(sweep)
            if sweep.stopping:
                for worker in engine.workers:
                    worker.process.kill()

    path, view = tmp_path / "a.sqlite", Kills()
    outcome = sweep(path, small_jobs(["sweep.poolings:Hangs"]), engine, view)
    assert (outcome.stopped, len(outcome.left)) == ("interrupted", 1)
    assert failures(path) == []
    assert outcome.failed == []
    assert sum("Hangs" in line for line in view.said) <= 1  # that it is trained alone


def test_signals_to_all_processes_are_left_to_the_parent(tmp_path, engine):
    """As a terminal's Ctrl-C, or the SIGTERM of ``timeout``."""
    sent = []

    class Sends(Silent):
        def show(self, sweep):
            if not sent and all(worker.ready for worker in engine.workers):
                for worker in engine.workers:
                    os.kill(worker.process.pid, signal.SIGTERM)
                    os.kill(worker.process.pid, signal.SIGINT)
                    sent.append(worker)

    path = tmp_path / "a.sqlite"
    assert sweep(path, small_jobs(), engine, Sends()).complete == 3
    assert sent
    assert failures(path) == []


def test_what_a_pooling_prints_stays_in_the_worker(tmp_path, engine, capfd):
    sweep(tmp_path / "a.sqlite", small_jobs(["sweep.poolings:Talks"]), engine)
    assert "talks" not in "".join(capfd.readouterr())


def test_threads_and_workers_by_omp_num_threads(tmp_path, monkeypatch):
    monkeypatch.setattr(local, "available_cores", lambda: 8)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    found = LocalEngine([CPU], None, tmp_path, jobs=10)
    assert (found.slots, found.threads) == (2, 3)
    assert LocalEngine([CPU], 1, tmp_path, jobs=1).threads == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "0")
    found = LocalEngine([CPU], None, tmp_path, jobs=4)
    assert (found.slots, found.threads) == (4, 2)


def test_as_many_workers_as_pay():
    import torch

    gpu = [torch.device("cuda:0")]
    assert default_workers([CPU], 16, mps=False) == 16
    assert default_workers(gpu, 16, mps=True) == 14
    assert default_workers(gpu, 4, mps=True) == 2
    assert default_workers(gpu, 16, mps=False) == 1
