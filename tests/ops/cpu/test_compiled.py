import multiprocessing

import pytest
import torch

compiled = pytest.importorskip("lcpool.ops.cpu.compiled")


@pytest.fixture(autouse=True)
def four_threads(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)


@pytest.mark.parametrize("share", [1, 3])
@pytest.mark.parametrize("size", [0, 3, 100])
def test_parts_come_in_order_and_leave_nothing_out(size, share):
    parts = compiled.in_parts(lambda start, stop: range(start, stop), size, 8, 2, share)
    assert len(parts) == 4 * share
    assert [i for part in parts for i in part] == list(range(size))


def test_little_work_is_not_shared():
    assert compiled.in_parts(lambda start, stop: (start, stop), 100, 7, 4) == [(0, 100)]


def test_an_error_in_a_thread_is_raised():
    def part(start, stop):
        if start:
            raise ValueError(start)

    with pytest.raises(ValueError, match="25"):
        compiled.in_parts(part, 100, 100, 1)


def total() -> int:
    return sum(compiled.in_parts(lambda start, stop: stop - start, 100, 100, 1))


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
