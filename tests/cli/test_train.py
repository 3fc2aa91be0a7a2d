import errno
import io
import itertools
import json
import math
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from rich.console import Console
from said import naming, numbers
from typer.main import get_command
from typer.testing import CliRunner

import lcpool.train
from lcpool.cli.app import app
from lcpool.cli.train import _print_result, _without_nan
from lcpool.data import builtin, load_dataset
from lcpool.progress import Display, LiveDisplay
from lcpool.settings import RUNS, SETTINGS
from lcpool.train import Model, Result, train
from lcpool.train.progress import TrainingProgress, epochs_left

SMALL = ("builtin", "--pool", "topkpool", "--hidden", "8", "--runs", "2", "--device", "cpu")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LCPOOL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def lcpool_train() -> Callable:
    return lambda *arguments: CliRunner().invoke(app, ["train", *map(str, arguments)])


@pytest.fixture
def result() -> Result:
    return train(builtin(num_graphs=40), "nopool", runs=2, epochs=1, hidden=4, device="cpu")


def ended(stderr: str) -> list[list[float]]:
    """Number and epochs of the runs that ended, in the lines after those of progress."""
    return [numbers(line)[:2] for line in naming(stderr, "accuracy") if "/" not in line]


def test_ends_with_mean_and_std_under_both_rules(lcpool_train: Callable, tmp_path: Path):
    done = lcpool_train(*SMALL, "--epochs", 3, "--save", tmp_path / "new" / "model.pt")
    assert done.exit_code == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if "±" in line]
    assert [row.split()[1] for row in rows] == ["accuracy", "loss"]
    (made,) = naming(done.stdout, "CPU", "fresh")
    runs, epochs, _, together, seed = numbers(made)
    assert (runs, epochs, together, seed) == (2, 3, 2, 0)
    assert "paper" not in done.stdout
    assert numbers(naming(done.stderr, "1/3")[0])[:4] == [1, 3, 2, 2]
    assert ended(done.stderr) == [[0, 3], [1, 3]]
    assert not list((tmp_path / "cache" / "checkpoints").iterdir())
    model = Model.load(tmp_path / "new" / "model.pt")
    assert len(model.predict(load_dataset("builtin"))) == 600


def test_runs_in_several_stacks(lcpool_train: Callable):
    done = lcpool_train(*SMALL, "--epochs", 1, "--stack", 1, "--json")
    # None of 2 is trained any more, and 1 waits.
    assert numbers(naming(done.stderr, "1/1")[0])[:5] == [1, 1, 0, 2, 1]
    assert ended(done.stderr) == [[0, 1], [1, 1]]
    assert json.loads(done.stdout)["stack"] == 1


def test_a_ratio_is_what_was_written(lcpool_train: Callable):
    done = lcpool_train(*SMALL, "--epochs", 1, "--ratio", "2", "--json")
    assert json.loads(done.stdout)["settings"]["ratio"] == 2
    assert "'half'" in lcpool_train(*SMALL, "--ratio", "half").stderr


def test_a_pooling_that_is_called_otherwise_is_refused_in_one_line(lcpool_train: Callable):
    done = lcpool_train(*SMALL, "--pool", "torch_geometric.nn:EdgePooling")
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert all(name in line for name in ("EdgePooling", "edge_index", "edge_attr", "batch"))


def test_a_pooling_that_changes_the_width_is_refused_in_one_line(
    lcpool_train: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "pool_that_narrows.py").write_text(
        "import torch\nclass Narrow(torch.nn.Module):\n"
        "    def __init__(self, channels):\n        super().__init__()\n"
        "    def forward(self, x, *more):\n        return x[:, :3], *more\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    done = lcpool_train(*SMALL, "--pool", "pool_that_narrows:Narrow")
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert "pool_that_narrows:Narrow" in line
    assert numbers(line) == [3, 8]


FAULTY = """\
import torch
from lcpool import LCPooling
class Plain(torch.nn.Module):
    def __init__(self, channels):
        super().__init__()
    def forward(self, x, edge_index, edge_attr, batch):
        self.look(x)
        return x, edge_index, edge_attr, batch
class Raises(Plain):
    def look(self, x):
        raise RuntimeError("mine")
class CallsTorch(Plain):
    def look(self, x):
        torch.nn.functional.linear(x, torch.ones(3, 3))
class RaisesLater(Plain):
    def look(self, x):
        if len(x) > 4:
            raise ValueError("nodes")
class CannotBeMade(Plain):
    def __init__(self, channels):
        super().__init__(channels, 1)
class Returns(Plain):
    def forward(self, x, *more):
        return x
"""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Raises", ["faulty_pools.py:11:", "RuntimeError", "mine"]),
        ("CallsTorch", ["faulty_pools.py:14:", "RuntimeError", "mat1"]),
        ("RaisesLater", ["faulty_pools.py:18:", "ValueError", "nodes"]),
        ("CannotBeMade", ["faulty_pools.py:21:", "TypeError", "__init__"]),
        ("Returns", ["Returns:", "edge_attr"]),
        ("NotThere", ["faulty_pools:NotThere"]),
    ],
)
def test_an_error_inside_ones_own_pooling_names_its_line(
    lcpool_train: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: list
):
    (tmp_path / "faulty_pools.py").write_text(FAULTY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "faulty_pools", raising=False)
    done = lcpool_train(*SMALL, "--runs", 1, "--pool", f"faulty_pools:{name}")
    assert done.exit_code == 2
    last = done.stderr.splitlines()[-1]
    assert all(word in last for word in said)
    # How a layer is called is no news to one that was called.
    assert ("edge_attr" in done.stderr) == (name == "Returns")


FAULTY_CONVS = """\
import torch
class Fine(torch.nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.lin = torch.nn.Linear(a, b)
    def forward(self, x, edge_index):
        self.look(x)
        return self.lin(x)
    def look(self, x):
        pass
class Raises(Fine):
    def look(self, x):
        raise RuntimeError("my own bug")
class RaisesLater(Fine):
    def look(self, x):
        if len(x) > 4:
            raise ValueError("too many nodes")
class Narrow(Fine):
    def forward(self, x, edge_index):
        return x[:, :3]
class Single(torch.nn.Linear):
    def __init__(self, a):
        super().__init__(a, a)
class NeedsMore(Fine):
    def forward(self, x, edge_index, edge_attr):
        return x
def function(a, b):
    return Fine(a, b)
"""


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Fine", ""),
        ("Raises", "lcpool: faulty_convs.py:13: RuntimeError: my own bug"),
        ("RaisesLater", "lcpool: faulty_convs.py:17: ValueError: too many nodes"),
        ("Narrow", "lcpool: Narrow: a convolution is made as"),
        ("Single", "lcpool: cannot make 'faulty_convs:Single' for 8 channels: "),
        ("NeedsMore", "lcpool: 'faulty_convs:NeedsMore' reads edge attributes, and "),
        ("NotThere", "lcpool: cannot import 'faulty_convs:NotThere'"),
        ("function", "lcpool: cannot make 'faulty_convs:function' for 8 channels: "),
    ],
)
def test_a_convolution_of_ones_own_from_the_current_folder(
    lcpool_train: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str
):
    (tmp_path / "faulty_convs.py").write_text(FAULTY_CONVS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "faulty_convs", raising=False)
    done = lcpool_train(*SMALL, "--epochs", 1, "--conv", f"faulty_convs:{name}", "--json")
    assert done.exit_code == (2 if message else 0), done.stderr
    if message:
        assert done.stderr.splitlines()[-1].startswith(message)
    else:
        assert json.loads(done.stdout)["stack"] > 1


def test_a_network_that_is_no_backbone_is_refused(lcpool_train: Callable):
    done = lcpool_train(*SMALL, "--backbone", "torch_geometric.nn:GCNConv")
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert "torch_geometric.nn:GCNConv" in line
    assert "lcpool.models.Backbone" in line


def test_a_metric_that_validation_graphs_do_not_have_is_named(
    lcpool_train: Callable, tmp_path: Path
):
    same = [g for g, y in enumerate(builtin().y.tolist()) if y == 0][:5]
    rest = [g for g in range(600) if g not in same]
    splits = tmp_path / "splits.json"
    splits.write_text(json.dumps({"train": rest[:500], "val": same, "test": rest[500:]}))
    done = lcpool_train(*SMALL, "--epochs", 1, "--metric", "roc_auc", "--splits-file", splits)
    assert done.exit_code == 0, done.stderr
    (line,) = naming(done.stdout, "ROC-AUC", "validation graphs", "runs 0, 1")
    assert "loss" in line


def test_without_a_dataset_the_usage_is_shown(lcpool_train: Callable):
    done = lcpool_train()
    assert done.exit_code == 2
    assert all(f"--{name.replace('_', '-')}" in done.output for name in SETTINGS)


def test_every_setting_arrives(lcpool_train: Callable, monkeypatch: pytest.MonkeyPatch):
    """By its option, as the type it is declared with; what was not said is left to its default."""
    seen = {}

    def note(dataset: str, **arguments: object) -> None:
        seen.update(arguments, dataset=dataset)
        raise ValueError("enough")

    monkeypatch.setattr(lcpool.train, "train", note)
    lcpool_train("builtin", *itertools.chain(*OTHER.values()))
    assert {name: seen[name] for name in OTHER} == OTHER_VALUES
    assert OTHER.keys() == {*SETTINGS, "runs"}
    seen.clear()
    lcpool_train("builtin")
    assert not seen.keys() & SETTINGS.keys()


OTHER_VALUES = {
    "backbone": "plain", "conv": "graphconv", "pool": "sagpool", "hidden": 8, "norm": "layer",
    "poolings": 2, "ratio": 3, "node_score": "topk", "score_channels": 5, "self_loops": False,
    "rescale": True,
    "hops": 2, "runs": 4, "lr": 0.1, "batch_size": 9, "epochs": 7, "patience": 6,
    "metric": "roc_auc",
    "split": "shared", "seed": 11, "depth": 2, "readout": "sum", "dropout": 0.5,
    "weight_decay": 0.01, "selection_loss": "total",
}  # fmt: skip
OTHER = {
    name: (f"--{'no-' if value is False else ''}{name.replace('_', '-')}",)
    + (() if isinstance(value, bool) else (str(value),))
    for name, value in OTHER_VALUES.items()
}


def test_train_and_bench_have_the_same_settings():
    train_options, bench_options = (
        {p.name: p for p in get_command(app).commands[name].params} for name in ("train", "bench")
    )
    for name, one in {**SETTINGS, "runs": RUNS}.items():
        mine, theirs = train_options[name], bench_options[name]
        assert set(mine.opts) <= set(theirs.opts)
        assert mine.help == theirs.help == one.help


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--pool", "nope"], "'nope'"),
        (["--pool", "nowhere_at_all:Pool"], "'nowhere_at_all:Pool'"),
        (["--pool", "./mypool.py:Keep"], "'mypool:Keep'"),
        (["--pool", "mypool.py:Keep"], "'mypool:Keep'"),
        (["--pool", "torch.nn:Bilinear", "--hidden", "8"], "'torch.nn:Bilinear'"),
        (["--conv", "gat"], "'gat'"),
        (["--ratio", "1.5"], "'ratio'"),
        (["--split", "none"], "'none'"),
        (["--runs", "0"], "'runs'"),
        (["--epochs", "0"], "'epochs'"),
        (["--device", "abacus"], "'abacus'"),
        (["--device", "meta"], "'meta'"),
        (["--device", "cuda:99"], "'cuda:99'"),
        (["--save", "."], "--save"),
        (["--checkpoints", __file__], "--checkpoints"),
        (["--hidden", "wide"], "'wide'"),
        (["--norm", "instance"], "'instance'"),
        (["--hops", "4"], "'hops'"),
        (["nowhere/at/all"], "nowhere/at/all"),
    ],
)
def test_an_error_is_one_line(lcpool_train: Callable, arguments: list[str], message: str):
    named = [] if "nowhere" in arguments[0] else ["builtin"]
    done = lcpool_train(*named, *arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


def test_a_pooling_of_ones_own_from_the_current_folder(
    lcpool_train: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "pool_of_my_own.py").write_text(
        "from torch_geometric.nn import SAGPooling\nprint('loud')\n"
        "class Mine(SAGPooling):\n    pass\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    done = lcpool_train(*SMALL, "--pool", "pool_of_my_own:Mine", "--epochs", 1, "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["stack"] == 1
    begins, why, *_ = naming(done.stderr, "Mine")
    assert numbers(begins) == [600, 2]
    assert why.startswith("lcpool: ")  # why the runs were not stacked


def test_memory_that_does_not_suffice(lcpool_train: Callable, monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.\nA page of advice.")

    monkeypatch.setattr(lcpool.train, "train", fail)
    done = lcpool_train("builtin")
    assert done.exit_code == 2
    assert "--stack" in done.stderr


def test_other_errors_are_not_hidden(lcpool_train: Callable, monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(lcpool.train, "train", fail)
    assert isinstance(lcpool_train("builtin").exception, RuntimeError)


def test_without_a_place_for_checkpoints_it_trains_and_says_so(
    lcpool_train: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "file").touch()
    monkeypatch.setenv("LCPOOL_CACHE", str(tmp_path / "file"))
    done = lcpool_train(*SMALL, "--epochs", 1)
    assert done.exit_code == 0, done.stderr
    assert str(tmp_path / "file") in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="signals and terminals are not POSIX's")
def test_ctrl_c_and_the_same_command_continues():
    """The second time with a terminal for stderr, whose live table must not get into the JSON."""
    command = [sys.executable, "-m", "lcpool", "train", *SMALL, "--epochs", "8", "--json"]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert numbers(first.stderr.readline()) == [600, 2]  # graphs and runs, at once
    assert "1/8" in first.stderr.readline()
    time.sleep(0.05)  # Into the second epoch, which is finished first.
    first.send_signal(signal.SIGINT)
    out, messages = first.communicate(timeout=60)
    assert first.returncode == 130, messages
    assert out == ""
    assert messages.splitlines()[-1].startswith("lcpool: ")
    assert "Traceback" not in messages

    ours, theirs = pty.openpty()
    second = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, text=True)
    os.close(theirs)
    drawn = _read_to_the_end(ours)
    out, _ = second.communicate(timeout=60)
    assert second.returncode == 0, drawn
    epochs = [int(epoch) for epoch in re.findall(r"(\d)/8", drawn)]
    assert epochs[0] > 1  # It did not start over.
    assert epochs[-1] == 8
    whole = train("builtin", "topkpool", runs=2, hidden=8, epochs=8, device="cpu").to_dict()
    assert {**json.loads(out), "seconds": 0} == json.loads(json.dumps({**whole, "seconds": 0}))


def _read_to_the_end(terminal: int) -> str:
    """What a process wrote to its terminal until it ended."""
    parts = []
    try:
        while part := os.read(terminal, 1 << 16):
            parts.append(part)
    except OSError:  # Linux's way to say that nobody writes any more.
        pass
    os.close(terminal)
    return b"".join(parts).decode()


def test_what_was_finished_before_is_kept_and_what_is_damaged_starts_over(
    lcpool_train: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    command = (*SMALL, "--epochs", 1, "--runs", 3, "--stack", 1, "--checkpoints", tmp_path)
    monkeypatch.setattr("lcpool.train.checkpoint.Checkpoint.remove", lambda _: None)
    assert lcpool_train(*command).exit_code == 0
    again = lcpool_train(*command).stderr
    assert ended(again) == []
    _, kept = again.splitlines()
    assert numbers(kept) == [0, 2]  # the first and the last of the runs that were kept
    monkeypatch.undo()
    _, _, last = sorted(tmp_path.glob("*.ckpt"), key=lambda path: path.stat().st_mtime_ns)
    last.write_bytes(b"half")
    done = lcpool_train(*command)
    assert done.exit_code == 0, done.stderr
    assert str(last) in done.stderr
    assert ended(done.stderr) == [[2, 1]]
    assert [0, 1] in map(numbers, done.stderr.splitlines())
    assert ended(lcpool_train(*command).stderr) == [[0, 1], [1, 1], [2, 1]]


def test_live_table_and_time_left():
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    live = LiveDisplay(console, keep=True)
    progress, left = TrainingProgress(live, 3), []

    def on_epoch(trainer: lcpool.train.Trainer) -> None:
        progress(trainer)
        left.append(epochs_left(trainer, 3))

    graphs = builtin(num_graphs=40)
    train(graphs, "nopool", runs=3, stack=2, epochs=4, patience=9, hidden=4, on_epoch=on_epoch)
    live.close()
    # Two stacks, one after another, and too little patience to end before the last epoch.
    assert [most for _, most in left] == [7, 6, 5, 4, 3, 2, 1, 0]
    assert left[3] == (4, 4)
    assert all(fewest <= most for fewest, most in left)
    text = console.file.getvalue()
    assert "training" in text
    assert text.count("ended") >= 3


def test_patience_bounds_the_time_left():
    progress, left = TrainingProgress(Display(), 1), []

    def on_epoch(trainer: lcpool.train.Trainer) -> None:
        progress(trainer)
        left.append(epochs_left(trainer, 1)[0])

    graphs = builtin(num_graphs=40)
    train(graphs, "nopool", runs=1, epochs=30, patience=2, hidden=4, lr=0.1, on_epoch=on_epoch)
    assert left[-1] == 0
    assert all(now >= before - 1 for before, now in itertools.pairwise(left))


def test_runs_that_predict_one_class_are_named(result: Result, capsys: pytest.CaptureFixture[str]):
    for run in result.runs:
        run.largest_class, run.constant = 0.75, {"accuracy": False, "loss": False}
    _print_result(result)
    shown = capsys.readouterr().out
    assert re.search(rf" {result.num_test} +75\.0 %", shown)
    for run in result.runs:
        run.largest_class, run.constant = 0.95, {"accuracy": True, "loss": run.number == 1}
    _print_result(result)
    *before, by_accuracy, by_loss = capsys.readouterr().out.splitlines()
    assert len(before) == len(shown.splitlines())
    assert (numbers(by_accuracy), numbers(by_loss)) == ([0, 1], [1])
    assert ("accuracy" in by_accuracy, "loss" in by_loss) == (True, True)
    found = result.to_dict()["runs"][1]
    assert found["largest_class"] == 95.0
    assert found["constant"] == {"by_accuracy": True, "by_loss": True}


def test_a_run_that_diverged(result: Result, capsys: pytest.CaptureFixture[str]):
    result.runs[1].diverged = 1
    _print_result(result)
    counted = capsys.readouterr().out
    for choice in result.runs[1].choices.values():
        choice.epoch = 0
    result.runs[1].curves[0] = (math.nan, math.inf, 0.5)
    _print_result(result)
    not_counted = capsys.readouterr().out
    assert [text.count("±") for text in (counted, not_counted)] == [2, 0]  # of two runs, of one
    lines = [text.splitlines()[-1] for text in (counted, not_counted)]
    assert [numbers(line) for line in lines] == [[1], [1]]
    assert lines[0] != lines[1]
    found = json.loads(json.dumps(_without_nan(result.to_dict()), allow_nan=False))
    assert found["runs"][1]["curves"] == {
        "training_loss": [None],
        "validation_loss": [None],
        "validation_accuracy": [50.0],
    }


@pytest.mark.parametrize("more", [(), ("--json",), ("--save", "model.pt")])
def test_a_training_in_which_all_runs_diverge(
    lcpool_train: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: tuple
):
    monkeypatch.chdir(tmp_path)
    done = lcpool_train(*SMALL, "--lr", "1e30", *more)
    assert done.exit_code == 2
    assert numbers(done.stderr.splitlines()[-1])[:1] == [2]
    assert "nan" not in done.stdout.lower()
    assert not Path("model.pt").exists()
    if "--json" in more:
        nothing = {"mean": None, "std": None}
        found = json.loads(done.stdout)["test_accuracy"]
        assert found == {"by_accuracy": nothing, "by_loss": nothing}
    else:
        assert done.stdout.count("–") == 4


def test_a_model_that_cannot_be_saved_is_one_line(
    lcpool_train: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def full(_: object, path: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(Model, "save", full)
    done = lcpool_train(*SMALL, "--epochs", 1, "--save", tmp_path / "model.pt")
    assert done.exit_code == 1
    last = done.stderr.splitlines()[-1]
    assert str(tmp_path / "model.pt") in last
    assert os.strerror(errno.ENOSPC) in last
    assert "±" in done.stdout  # What was trained is shown all the same.


def test_the_command_line_alone_is_light():
    """``--help`` needs neither torch nor what draws progress; the package is imported without."""
    code = (
        "import sys, types; package = types.ModuleType('lcpool')\n"
        f"package.__path__ = {lcpool.__path__!r}; sys.modules['lcpool'] = package\n"
        "import lcpool.cli.app\n"
        "print([name for name in ('torch', 'numpy', 'rich.live') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == "[]"
