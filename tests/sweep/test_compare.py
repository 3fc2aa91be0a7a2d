import signal

import pytest
from sweep.sweeping import GRAPHS

import lcpool
from lcpool.sweep.columns import NAMES
from lcpool.sweep.engine import EngineError
from lcpool.sweep.run import Sweep
from lcpool.sweep.store import StoreError
from lcpool.train import Trainer

SMALL = {"runs": 2, "epochs": 2, "hidden": 8, "device": "cpu"}


def test_a_table_of_runs():
    table = lcpool.compare(GRAPHS, ["nopool", "topkpool"], splits=["shared", "fresh"], **SMALL)
    assert tuple(table.columns) == NAMES
    assert table.groupby(["pool", "split"]).size().to_dict() == {
        ("nopool", "fresh"): 2, ("nopool", "shared"): 2,
        ("topkpool", "fresh"): 2, ("topkpool", "shared"): 2,
    }  # fmt: skip


def test_datasets_by_name_and_a_store_that_keeps_them(tmp_path):
    two = {"mine": GRAPHS, "yours": GRAPHS.to_graphs()}
    store = tmp_path / "runs.sqlite"
    table = lcpool.compare(two, "nopool", store=store, **SMALL)
    assert table.dataset.tolist() == ["mine", "mine", "yours", "yours"]
    again = lcpool.compare({"mine": GRAPHS}, "nopool", store=store, **SMALL)
    assert again.seconds.tolist() == table.seconds[:2].tolist()  # not trained again


def test_what_fails_is_missing_with_a_warning():
    with pytest.warns(UserWarning, match=r"Raises.*ZeroDivisionError"):
        table = lcpool.compare(GRAPHS, ["nopool", "sweep.poolings:Raises"], **SMALL)
    assert set(table.pool) == {"nopool"}
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        lcpool.compare(GRAPHS, "sweep.poolings:Raises", **SMALL)


@pytest.mark.parametrize("store", ["runs.sqlite", None])
def test_ctrl_c_says_what_is_kept(tmp_path, monkeypatch, store):
    epoch = Trainer.train_epoch

    def pressed(self):
        epoch(self)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Trainer, "train_epoch", pressed)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(KeyboardInterrupt, match=r"runs\.sqlite") as caught:
        lcpool.compare(GRAPHS, "nopool", store=store, **SMALL)
    assert ("store=" in str(caught.value)) == (store is None)  # what to pass the next time


def test_a_store_that_is_deleted_meanwhile(tmp_path, monkeypatch):
    epoch, path = Trainer.train_epoch, tmp_path / "runs.sqlite"

    def deleted(self):
        epoch(self)
        path.unlink(missing_ok=True)

    monkeypatch.setattr(Trainer, "train_epoch", deleted)
    with pytest.raises(StoreError, match=r"runs\.rescued\.sqlite"):
        lcpool.compare(GRAPHS, "nopool", store=path, **SMALL)


def test_an_unknown_setting():
    with pytest.raises(ValueError, match="epochs"):
        lcpool.compare(GRAPHS, "nopool", epoch=3)


def test_too_few_graphs_are_refused_before_anything_is_trained():
    with pytest.raises(ValueError, match=r"mine.* 5 .* 6"):
        lcpool.compare({"mine": GRAPHS.to_graphs()[:5]}, "nopool", **SMALL)


def test_a_class_in_place_of_its_name():
    with pytest.raises(ValueError, match="module:Class"):
        lcpool.compare(GRAPHS, [lcpool.LCPooling], **SMALL)


def test_a_script_that_is_not_safe_to_import_is_told_so(monkeypatch):
    def fall(sweep: Sweep) -> None:
        raise EngineError("worker-1")

    monkeypatch.setattr(Sweep, "run", fall)
    with pytest.raises(EngineError, match=r"worker-1.*__main__"):
        lcpool.compare(GRAPHS, "nopool", workers=2, **SMALL)


def test_a_setting_with_several_values_has_a_column():
    options = {"runs": 1, "epochs": 1, "hidden": 8, "device": "cpu"}
    table = lcpool.compare(pools=["nopool", "topkpool"], ratio=[0.25, 0.5], **options)
    found = table.groupby("pool").ratio.apply(sorted).to_dict()
    assert found == {"nopool": [0.5], "topkpool": [0.25, 0.5]}
    assert "hidden" not in table
