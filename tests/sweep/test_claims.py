import signal

import pytest
from sweep.sweeping import LONG, small_jobs

from lcpool.sweep.claims import Owner
from lcpool.sweep.engines.worker import process_context
from lcpool.sweep.store import Store


@pytest.fixture
def jobs():
    return small_jobs()


@pytest.fixture
def stores(tmp_path, jobs):
    two = [Store(tmp_path / "bench.sqlite") for _ in range(2)]
    two[0].add(jobs)
    yield two
    for store in two:
        store.close()


def test_a_claim_is_exclusive_until_it_ends(stores, jobs):
    with Owner(stores[0]) as one, Owner(stores[1]) as two:
        assert one.claim(jobs[0]) == jobs[0].wanted
        assert two.claim(jobs[0]) is None
        assert two.claim(jobs[1]) == jobs[1].wanted
        assert len(one.others(jobs)) == 1
        one.release(jobs[0])
        assert two.claim(jobs[0]) == jobs[0].wanted
    with Owner(stores[0]) as three:
        assert three.claim(jobs[0]) == jobs[0].wanted
        assert three.others(jobs) == []


def claim_and_stay(path, pipe):
    jobs = small_jobs()
    with Store(path) as store, Owner(store) as owner:
        pipe.send(owner.claim(jobs[0]) is not None)
        signal.pause()


def test_the_claims_of_a_process_last_as_long_as_it_lives(stores, jobs):
    """Also while it is stopped, and whatever the clock says; and end when it is killed."""
    ours, theirs = process_context().Pipe()
    process = process_context().Process(target=claim_and_stay, args=(stores[0].path, theirs))
    process.start()
    assert ours.poll(LONG)
    assert ours.recv()
    with Owner(stores[0]) as here:
        assert here.claim(jobs[0]) is None
        assert here.others(jobs) == [f"process {process.pid}"]
        process.kill()
        process.join(LONG)
        assert here.claim(jobs[0]) == jobs[0].wanted
    assert not list(stores[0].work.path.glob("*.lock"))
