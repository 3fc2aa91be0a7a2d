import multiprocessing
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

threads = pytest.importorskip("lcpool.ops.threads", reason="needs numba")


@pytest.fixture(autouse=True, params=["torch's threads", "own threads"])
def four_threads(request, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    if request.param == "own threads":
        monkeypatch.setattr(threads, "torch_threads", lambda: None)
    elif threads.torch_threads() is None:
        pytest.skip("torch's threads cannot be had here")


@pytest.mark.parametrize("share", [1, 3])
@pytest.mark.parametrize("size", [0, 3, 100])
def test_parts_come_in_order_and_leave_nothing_out(size, share):
    parts = threads.in_parts(lambda start, stop: range(start, stop), size, 8, 2, share=share)
    assert len(parts) == 4 * share
    assert [i for part in parts for i in part] == list(range(size))


def test_little_work_is_not_shared():
    assert threads.in_parts(lambda start, stop: (start, stop), 100, 7, 4) == [(0, 100)]


def test_an_error_in_a_thread_is_raised():
    def part(start, stop):
        if start:
            raise ValueError(start)

    with pytest.raises(ValueError, match="25"):
        threads.in_parts(part, 100, 100, 1)


def test_threads_work_at_once(monkeypatch):
    """They meet: neither could go on alone."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    barrier = threading.Barrier(2)
    assert threads.in_parts(lambda *_: barrier.wait(60) >= 0, 2, 2, 1) == [True] * 2


def test_from_several_threads_at_once():
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(lambda _: total(), range(50))) == [100] * 50


def test_a_part_may_use_torch():
    x = torch.randn(400, 200)
    parts = threads.in_parts(lambda start, stop: x[start:stop] @ x.t(), 400, 400, 1)
    torch.testing.assert_close(torch.cat(parts), x @ x.t())


def test_nothing_is_left_undone(monkeypatch):
    """Where no thread comes, or all are interrupted before they begin."""
    monkeypatch.setattr(threads, "run_together", lambda take: None)
    assert total() == 100


FORKED = """
import os, signal, torch
import lcpool
x = torch.randn(500, 500)
x @ x
pid = os.fork()
if pid == 0:
    signal.alarm(60)
    torch.set_num_threads(2)
    from lcpool.ops.threads import in_parts
    os._exit(sum(in_parts(lambda start, stop: stop - start, 50, 50, 1)))
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("four_threads", ["own threads"], indirect=True)  # it has its own
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
def test_a_process_that_was_forked_before_it_had_kernels():
    env = os.environ | {"OMP_NUM_THREADS": "2"}
    command = [sys.executable, "-W", "ignore", "-c", FORKED]
    run = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=250)
    assert run.stdout.strip() == "50"


def total() -> int:
    return sum(threads.in_parts(lambda start, stop: stop - start, 100, 100, 1))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="the system does not fork"
)
def test_a_forked_process_has_threads_of_its_own():
    """A data loader's worker: the threads that the pool had started did not come along."""
    assert total() == 100
    context = multiprocessing.get_context("fork")
    with context.Pool(1) as pool:
        assert pool.apply_async(total).get(timeout=60) == 100
