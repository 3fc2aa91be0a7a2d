import json
import math

import pytest
from sweep.sweeping import small_jobs

from lcpool.sweep.blame import TRIES, Blame
from lcpool.sweep.estimate import Estimate, _fit, time_left
from lcpool.sweep.store import RUN, Store


def jobs_and_estimate(**settings):
    jobs = small_jobs(["nopool", "topkpool", "asapool", "lcpool"], **settings)
    return jobs, Estimate(store=None, cuda=False)


def test_the_first_guess_knows_what_is_long():
    jobs, estimate = jobs_and_estimate()
    times = [estimate.seconds(job.wanted) for job in jobs]
    assert max(times) == times[2]
    assert min(times) == times[0]
    (longer, *_), _ = jobs_and_estimate(runs=20)
    assert estimate.seconds(longer.wanted) > times[0]


class Rows:
    """A store in which stacks, each by the cell of its first run, took this many seconds."""

    def __init__(self, seconds):
        self.seconds = seconds

    def rows(self, query, *values):
        return [
            {"mates": json.dumps([[cell, 0], [cell, 1]]), "seconds": seconds, "runs": 2}
            for cell, seconds in self.seconds.items()
        ]


def test_it_learns_from_what_has_finished():
    """Time is a product of effects; a few cells tell those of all others."""
    convs = ["gcn", "graphconv"]
    jobs, estimate = jobs_and_estimate(backbones="hierarchical", convs=convs)
    jobs += jobs_and_estimate(backbones="plain", convs=convs)[0]
    effect = {
        "nopool": 3.0,
        "topkpool": 1.0,
        "asapool": 8.0,
        "lcpool": 0.5,
        "plain": 0.7,
        "gcn": 2.0,
    }

    def truth(cell):
        return estimate.guess(cell, 2) * math.prod(effect.get(name, 1.0) for name in cell.names)

    cells = [job.cells[0] for job in jobs]
    seen = [c for c in cells if c.architecture.backbone == "plain" or c.architecture.conv == "gcn"]
    before = [abs(math.log(estimate.seconds(job.wanted) / truth(job.cells[0]))) for job in jobs]
    estimate.store = Rows({cell.id: truth(cell) for cell in seen})
    estimate.learn(cells)
    errors = [abs(math.log(estimate.seconds(job.wanted) / truth(job.cells[0]))) for job in jobs]
    unseen = [e for e, cell in zip(errors, cells, strict=True) if cell not in seen]
    assert len(unseen) == 4
    assert max(unseen) < 0.5 < max(before)


@pytest.mark.parametrize("cuda", [True, False])
def test_runs_of_both_splits_share_the_cost_of_their_steps(tmp_path, cuda):
    """On a GPU a step costs the same whoever is in it: nothing is counted twice, or halved."""
    jobs = small_jobs(["nopool", "topkpool"], splits=["shared", "fresh"], runs=10)
    device = "some GPU" if cuda else "CPU"
    with Store(tmp_path / "a.sqlite") as store:
        store.add(jobs)
        estimate = Estimate(store, cuda)
        took = 3 * estimate.seconds(jobs[0].wanted)
        mates = json.dumps([[cell.id, number] for cell, number in jobs[0].wanted])
        blank = dict.fromkeys(RUN, 0)
        blank |= {"mates": mates, "device": device, "seconds": took / 20, "curves": b""}
        blank |= dict.fromkeys(("lcpool", "torch", "pyg", "python", "commit"), "")
        store.save([{**blank, "cell": cell.id, "run": n} for cell, n in jobs[0].wanted])
        estimate.learn(cell for job in jobs for cell in job.cells)
    assert estimate.seconds(jobs[0].wanted) == pytest.approx(took)


def test_stacks_one_after_the_other_each_cost_their_steps():
    (job,), estimate = small_jobs(["nopool"], runs=10), Estimate(store=None, cuda=True)
    two = estimate.seconds(job.wanted[:5]) + estimate.seconds(job.wanted[5:])
    assert estimate.seconds(job.wanted, 5) == pytest.approx(two)
    assert estimate.seconds(job.wanted) < 0.6 * two


def test_one_observation_moves_everything():
    effects = _fit([["all", ("pool", "lcpool")]], [math.log(10)])
    assert effects["all"] == pytest.approx(math.log(10))


def test_time_left_is_that_of_the_slot_that_ends_last():
    assert time_left([], [], 3) == 0
    assert time_left([10], [1, 1, 1], 2) == 10
    assert time_left([], [4, 3, 3], 2) == 6
    assert time_left([5, 5], [5], 2) == 10


def test_after_a_fault_suspects_are_halved_until_the_culprit_is_alone():
    jobs = small_jobs([f"sweep.poolings:P{i}" for i in range(40)])
    culprit, blame, waiting, rounds = jobs[9], Blame(), list(jobs), 0
    while not blame.set_aside(culprit):
        at_work = []
        for job in waiting:
            if len(at_work) < 14 and blame.may_start(job, at_work):
                at_work.append(job)
        if culprit in at_work:
            blame.faulted(at_work)
            rounds += 1
        else:
            for job in at_work:
                blame.finished(job)
                waiting.remove(job)
        waiting.sort(key=lambda job: blame.failures[job])
        assert at_work
    assert rounds <= 4 + TRIES  # 14, 7, 3, 1
    assert {job for job in jobs if blame.failures[job]} == {culprit}
    assert not blame.may_start(culprit, [])


def test_a_single_fault_costs_nobody_a_try():
    jobs = small_jobs([f"sweep.poolings:P{i}" for i in range(4)])
    blame = Blame()
    blame.faulted(jobs)
    assert not any(blame.failures[job] for job in jobs)
    started = []
    for job in jobs:
        if blame.may_start(job, started):
            started.append(job)
    assert len(started) == 2
    blame.finished(started[0])
    assert blame.may_start(started[0], started[1:])
