import pytest
from said import naming, numbers
from typer.testing import CliRunner

import lcpool
from lcpool import demo
from lcpool.cli.app import app
from lcpool.demo import num_components, ring_of_cliques


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer graphs, poolings, runs and epochs."""
    monkeypatch.setattr(demo, "GRAPHS", 40)
    monkeypatch.setattr(demo, "COMPARED", ("nopool", "lcpool"))
    monkeypatch.setattr(demo, "RUNS", 2)
    monkeypatch.setattr(demo, "EPOCHS", 1)


@pytest.mark.usefixtures("short")
def test_ranks_poolings_and_says_what_that_is_worth():
    done = CliRunner().invoke(app, ["demo"])
    assert done.exit_code == 0, done.output
    rows = [line.split() for line in done.stdout.splitlines() if "±" in line]
    assert [row[0] for row in rows] == ["1", "2"]
    assert {row[1] for row in rows} == {"nopool", "lcpool"}
    assert float(rows[0][2]) >= float(rows[1][2])
    assert [numbers(line) for line in naming(done.stderr, "pool")] == [[1, 2], [2, 2]]


def test_ctrl_c(monkeypatch: pytest.MonkeyPatch):
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "train", interrupted)
    done = CliRunner().invoke(app, ["demo"])
    assert done.exit_code == 130
    assert len(naming(done.stderr, "lcpool: ")) == 1
    assert "Traceback" not in done.stderr


def test_the_version():
    done = CliRunner().invoke(app, ["--version"])
    assert (done.exit_code, done.stdout.split()) == (0, ["lcpool", lcpool.__version__])


def test_what_each_operator_does_to_a_graph(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "120")
    done = CliRunner().invoke(app, ["demo", "--graph"])
    assert done.exit_code == 0, done.output
    assert all(name in done.stdout for name in demo.OPERATORS)


def test_the_ring_is_whole_and_falls_apart_without_its_bridges():
    x, edge_index = ring_of_cliques(5, 3)
    assert num_components(edge_index, x.size(0)) == 1
    within = edge_index[0] // 3 == edge_index[1] // 3
    assert num_components(edge_index[:, within], x.size(0)) == 5
