"""A Ray cluster of several nodes on this machine, one of which is killed."""

import pytest
from sweep.sweeping import Silent, figures, small_jobs, sweep

from lcpool.sweep.engine import EngineError
from lcpool.sweep.engines.ray import RayEngine

pytest.importorskip("ray", reason="the engine for clusters needs Ray: pip install 'lcpool[ray]'")

NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20}


@pytest.fixture(scope="module")
def cluster():
    from ray.cluster_utils import Cluster

    # A dead node is noticed within seconds, not half a minute.
    health = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500,
              "health_check_failure_threshold": 4}  # fmt: skip
    head = {**NODE, "num_cpus": 0, "include_dashboard": False, "_system_config": health}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    yield cluster
    cluster.shutdown()


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning:ray")
@pytest.mark.filterwarnings("ignore::FutureWarning:ray")
def test_a_node_killed_in_the_middle(cluster, tmp_path):
    nodes = [cluster.add_node(**NODE) for _ in range(2)]
    engine = RayEngine(cluster.address, cpus=1, gpus=0)
    assert engine.slots == 2

    class Killer(Silent):
        def show(self, sweep):
            begun = [work for work in sweep.at_work.values() if work.epoch]
            if len(nodes) == 2 and len(begun) == 2:
                cluster.remove_node(nodes.pop(), allow_graceful=False)

    jobs, view = small_jobs(epochs=60, patience=60), Killer()
    outcome = sweep(tmp_path / "a.sqlite", jobs, engine, view)
    assert len(nodes) == 1
    assert (outcome.complete, outcome.failed, outcome.runs) == (3, [], 6)
    assert sum("node" in line for line in view.said) == 1
    sweep(tmp_path / "b.sqlite", jobs)
    assert figures(tmp_path / "a.sqlite") == figures(tmp_path / "b.sqlite")


def test_a_cluster_without_room_is_refused(cluster):
    with pytest.raises(EngineError, match=r"\b7\b"):
        RayEngine(cluster.address, cpus=1, gpus=7)
    with pytest.raises(ValueError, match="cpus"):
        RayEngine(cluster.address, cpus=0, gpus=0)
