import time

import pytest
from sweep.sweeping import small_jobs

from lcpool.sweep import claims
from lcpool.sweep.claims import Owner, others
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
        (other,) = others(stores[0], one, jobs)
        assert "process" in other
        one.release(jobs[0])
        assert two.claim(jobs[0]) == jobs[0].wanted
    with Owner(stores[0]) as three:
        assert three.claim(jobs[0]) == jobs[0].wanted
        assert others(stores[0], three, jobs) == []


@pytest.mark.parametrize(("silence", "taken"), [(5.0, False), (claims.LEASE + 5, True)])
def test_an_owner_elsewhere_is_dead_when_its_signs_of_life_cease(stores, jobs, silence, taken):
    with Owner(stores[0]) as here, stores[1].transaction() as connection:
        values = ("there", "another machine", 1, 0.0, time.time() - silence)
        connection.execute("INSERT INTO owners VALUES (?, ?, ?, ?, ?)", values)
        connection.execute("INSERT INTO claims VALUES (?, 'there')", (jobs[0].cells[0].id,))
        connection.execute("COMMIT")
        assert (here.claim(jobs[0]) is not None) == taken
        connection.execute("BEGIN")


def test_a_process_here_with_the_number_of_a_dead_one(stores, jobs, monkeypatch):
    with Owner(stores[0]) as one:
        one.claim(jobs[0])
        monkeypatch.setattr(claims, "_born", lambda pid: 1.0)  # started at another time
        with Owner(stores[1]) as two:
            assert two.claim(jobs[0]) == jobs[0].wanted


def test_signs_of_life(stores, monkeypatch):
    monkeypatch.setattr(claims, "BEAT", 0.01)

    def last():
        return stores[0].rows("SELECT beat FROM owners")[0]["beat"]

    with Owner(stores[0]):
        first = last()
        while last() == first:
            time.sleep(0.01)
