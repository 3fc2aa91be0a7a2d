"""What a release must withstand: kills, signals, damaged stores, full disks, hostile input.

    python benchmarks/faults.py                                   # everything, about five minutes
    python benchmarks/faults.py --trials kills fuzzed --minutes 20 --seed 3

Each trial causes faults at random, of several kinds in turn, until its share of the time is used.
After every fault the promise is checked that docs/sweep.md or the function's docstring makes: a
sweep that goes on ends with the rows of one that was never disturbed, to the bit; an error is one
line; a file is whole or not there; nothing crashes, hangs, or is wrong without a word. The table at
the end has a row for each kind of fault. Exit status 1 if anything did not hold.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import itertools
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import fuzz
import psutil

from lcpool.sweep import Results
from lcpool.train import Model

# Small, but long enough to be hit: four poolings, two stacks of two runs each. The one of our own
# lets its workers write a checkpoint after each epoch, so that kills find some.
SWEEP = [
    "bench", "--pools", "hurried:Hurried,nopool,topkpool,lcpool", "--runs", "4", "--stack", "2",
    "--hidden", "8", "--batch-size", "128", "--epochs", "8", "--device", "cpu", "--workers", "2",
    "--store", "out/bench.sqlite",
]  # fmt: skip
HURRIED = """from lcpool import SAGPooling as Hurried
from lcpool.train import checkpoint
checkpoint.INTERVAL = 0.0
"""
TRAIN = [
    "train", "builtin", "--pool", "topkpool", "--runs", "1", "--hidden", "32", "--epochs", "5",
    "--device", "cpu", "--checkpoints", "checkpoints", "--save", "model.pt",
]  # fmt: skip
# Columns that say how a run came about, which differ from one training to the next.
CIRCUMSTANCES = ["seconds", "peak_memory", "commit"]
PATIENCE = 300.0  # seconds after which a command hangs
HOME = tempfile.TemporaryDirectory(prefix="faults-")


class BrokenError(Exception):
    """A promise that was not kept."""


def require(held: Any, promise: str) -> None:
    if not held:
        raise BrokenError(promise)


# Commands


def start(
    folder: Path, arguments: list[str], limit: int = resource.RLIM_INFINITY
) -> subprocess.Popen[str]:
    """Start ``lcpool`` in a folder; files may have ``limit`` bytes, as on a full disk."""
    (folder / "hurried.py").write_text(HURRIED)

    def restrict() -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # nohup and & ignore some
            signal.signal(number, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.Popen(
        [sys.executable, "-m", "lcpool", *arguments], cwd=folder, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=restrict,
    )  # fmt: skip


def finish(
    process: subprocess.Popen[str], workers: list[psutil.Process] | None = None
) -> tuple[int, str]:
    """The exit status of a command and what it said, once it and its ``workers`` have ended."""
    try:
        _, said = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise BrokenError("the command hangs") from None
    errors = [line.strip() for line in said.splitlines() if "Error" in line]
    killed = process.returncode == -signal.SIGKILL  # A worker may then say that nobody listens.
    require(killed or "Traceback" not in said, f"a traceback: {errors[-1:]}")
    _, alive = psutil.wait_procs(workers or [], timeout=30)
    require(not alive, f"{len(alive)} processes outlive their command")
    return process.returncode, said


def workers_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The processes that train: those of the server that forks them."""
    with contextlib.suppress(psutil.NoSuchProcess):
        family = psutil.Process(process.pid).children(recursive=True)
        return [child for child in family if child.ppid() != process.pid]
    return []


def rows(store: Path) -> dict[tuple[Any, ...], dict[str, str]]:
    """Every run in a store: all its figures, to the bit, and a digest of its curves."""
    results = Results.read(store)
    table = results.runs.drop(columns=CIRCUMSTANCES).to_dict("records")
    require(len(results.curves) == len(table), "a run is there twice, or has lost its curves")
    found = {}
    for row, curves in zip(table, results.curves.values(), strict=True):
        digest = hashlib.sha256(curves.tobytes()).hexdigest()
        figures = {name: repr(value) for name, value in row.items()}
        found[row["dataset"], row["config"], row["run"]] = {**figures, "curves": digest}
    return found


class Undisturbed(NamedTuple):
    """A sweep without faults: its store, and how many seconds it took to begin and to train."""

    store: Path
    begins: float
    trains: float


@functools.cache
def undisturbed() -> Undisturbed:
    folder, began = Path(tempfile.mkdtemp(dir=HOME.name)), time.monotonic()
    process = start(folder, SWEEP)
    wait_for_training(process, folder)
    trains = time.monotonic()
    status, said = finish(process)
    require(status == 0, f"a sweep without faults ends with status {status}: {said}")
    return Undisturbed(folder / "out" / "bench.sqlite", trains - began, time.monotonic() - trains)


def goes_on(folder: Path) -> None:
    """The same command ends with the rows of an undisturbed sweep and leaves nothing but these."""
    store = folder / "out" / "bench.sqlite"
    before = rows(store) if store.exists() else {}
    status, said = finish(start(folder, SWEEP))
    require(status == 0, f"going on ends with status {status}: {said.splitlines()[-1:]}")
    after, expected = rows(store), rows(undisturbed().store)
    require(before.items() <= after.items(), "a stored row has changed")
    require(after.keys() == expected.keys(), f"{len(after)} rows in place of {len(expected)}")
    pairs = (
        (after[run][name], value, name) for run in expected for name, value in expected[run].items()
    )
    differ = {name for ours, theirs, name in pairs if ours != theirs}
    require(not differ, f"rows differ from the undisturbed ones: {', '.join(sorted(differ))}")
    left = sorted(path.name for path in store.parent.iterdir())
    require(left == [store.name], f"left behind: {left}")


def wait_for_training(process: subprocess.Popen[str], folder: Path) -> None:
    while process.poll() is None and not list(folder.glob("out/*.work/checkpoints/*/*.ckpt")):
        time.sleep(0.02)


def wait_at_random(chance: random.Random, process: subprocess.Popen[str], folder: Path) -> None:
    """Until some time before a sweep trains or, more often than not, while it does."""
    usual = undisturbed()
    if chance.random() < 0.3:
        time.sleep(chance.uniform(0.0, usual.begins))
    else:
        wait_for_training(process, folder)
        time.sleep(chance.uniform(0.0, 0.5 * usual.trains))


# Trials: each causes some faults of a kind in a new folder and returns how many; or the complaints.


def kills(kind: str, chance: random.Random, folder: Path) -> int:
    """``kill -9``, up to three times one after the other, at times with damaged checkpoints."""
    faults = 0
    for _ in range(3):
        process = start(folder, SWEEP)
        if kind == "a worker":  # Before it trains, a process that tries a pooling could be hit.
            wait_for_training(process, folder)
        wait_at_random(chance, process, folder)
        workers = workers_of(process)
        if process.poll() is not None or (kind == "a worker" and not workers):
            finish(process)
            break
        if kind == "a worker":
            with contextlib.suppress(psutil.NoSuchProcess):
                chance.choice(workers).kill()
        elif kind == "the command":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
        faults += 1
        status, said = finish(process, workers)
        require(kind != "a worker" or status == 0, f"status {status}: {said.splitlines()[-1:]}")
        for checkpoint in folder.glob("out/*.work/checkpoints/*/*.ckpt"):
            if chance.random() < 0.2:
                fuzz.harm(checkpoint, chance, "bytes flipped")
    goes_on(folder)
    return faults


def signals(kind: str, chance: random.Random, folder: Path) -> int:
    """A signal, to the command or to all its processes, as a terminal or ``timeout`` sends it."""
    process = start(folder, SWEEP)
    if kind == "SIGHUP":
        wait_at_random(chance, process, folder)
    else:  # Before it trains, only Python itself answers.
        wait_for_training(process, folder)
        time.sleep(chance.uniform(0.0, 0.5 * undisturbed().trains))
    if process.poll() is not None:
        return 0
    workers = workers_of(process)
    (os.killpg if chance.random() < 0.5 else os.kill)(process.pid, getattr(signal, kind))
    status, _ = finish(process, workers)
    store = folder / "out" / "bench.sqlite"
    if not (store.exists() and rows(store) == rows(undisturbed().store)):  # else it came too late
        require(status != 0, "an interrupted sweep ends with status 0")
        require(kind == "SIGHUP" or status == 130, f"status {status} in place of 130")
    goes_on(folder)
    return 1


def lost_stores(kind: str, chance: random.Random, folder: Path) -> int:
    """The store goes while a sweep runs: said, status not 0, and the rows are where it says."""
    process, store = start(folder, SWEEP), folder / "out" / "bench.sqlite"
    wait_for_training(process, folder)
    time.sleep(chance.uniform(0.0, 0.5 * undisturbed().trains))
    if rows(store) == rows(undisturbed().store):  # It has ended, or is about to.
        finish(process)
        return 0
    if kind == "deleted":
        store.unlink()
    elif kind == "moved":
        store.rename(folder / "moved.sqlite")
    else:
        shutil.rmtree(store.parent)
    status, said = finish(process)
    if status == 0:
        require(store.exists(), "status 0, and there is no store")
        require(rows(store) == rows(undisturbed().store), "status 0, and rows are missing")
    else:
        named = [folder / word.rstrip(".,;:") for word in re.findall(r"\S+\.sqlite\S*", said)]
        there = [path for path in named if path.suffix == ".sqlite" and path.is_file()]
        require(there, f"it does not say where the rows are: {said.splitlines()[-1:]}")
        expected = rows(undisturbed().store)
        require(rows(there[0]).items() <= expected.items(), "rescued rows differ")
        there[0].rename(store)
        goes_on(folder)
    return 1


def damaged_stores(kind: str, chance: random.Random, folder: Path) -> int:
    """A damaged store is refused, or it has all its rows; ``bench check`` says which."""
    from typer.testing import CliRunner

    from lcpool.cli.app import app

    def checked(path: Path) -> int:
        return CliRunner().invoke(app, ["bench", "check", str(path)]).exit_code

    original = undisturbed().store
    require(checked(original) == 0, "'lcpool bench check' fails on a store that is whole")
    expected, store, tries = rows(original), folder / "bench.sqlite", 20
    for _ in range(tries):
        shutil.copy(original, store)
        fuzz.harm(store, chance, kind)
        before = store.read_bytes()
        try:
            whole = rows(store) == expected
        except ValueError:
            whole = None  # refused
        require(whole is not False, "rows changed or went without a word")
        require(whole or checked(store) != 0, "'lcpool bench check' passes a store that is refused")
        require(store.read_bytes() == before, "reading has changed a damaged store")
    return tries


def full_disks(kind: str, chance: random.Random, folder: Path) -> int:
    """No file may grow beyond a limit: what was there stays, what is new is whole or not there."""
    if kind == "bench":
        status, said = finish(start(folder, SWEEP, chance.randrange(2**15, 2**17)))
        goes_on(folder)
        return int(status != 0 or "no checkpoint" in said)  # else nothing has met the limit
    if kind == "train":
        status, _ = finish(start(folder, TRAIN, chance.randrange(2**10, 2**13)))
        require(status != 0 and not (folder / "model.pt").exists(), "half a model, or status 0")
        status, _ = finish(start(folder, TRAIN))
        require(status == 0, f"training again ends with status {status}")
        Model.load(folder / "model.pt")
    else:
        write = export if kind == "export" else report
        require(write(folder, resource.RLIM_INFINITY) == 0, "it fails with room")
        whole = contents(folder / "out")
        limit = chance.randrange(2**9, max(map(len, whole.values())))
        old = dict.fromkeys(whole, b"old") if chance.random() < 0.5 else {}
        shutil.rmtree(folder / "out")
        (folder / "out").mkdir()
        for name, content in old.items():
            (folder / "out" / name).parent.mkdir(exist_ok=True)
            (folder / "out" / name).write_bytes(content)
        require(write(folder, limit) != 0, "status 0 on a full disk")
        require(contents(folder / "out") == old, "some files are new, or cut off")
    return 1


def export(folder: Path, limit: int) -> int:
    """Write a store's rows as CSV, here: no store can be opened where files may not grow."""
    results = Results.read(undisturbed().store)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        results.write(folder / "out")
    except OSError:
        return 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    return 0


def report(folder: Path, limit: int) -> int:
    Results.read(undisturbed().store).write(folder / "runs.csv")
    return finish(start(folder, ["report", "runs.csv", "--out", "out"], limit))[0]


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def fuzzed(kind: str, chance: random.Random, folder: Path) -> list[str]:
    """Many cases in a process of their own, whose death is a complaint as any other."""
    seed, first, complaints = str(chance.randrange(2**32)), 0, []
    while first < fuzz.CASES:
        command = [sys.executable, fuzz.__file__, kind, seed, str(first)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        said = done.stdout.splitlines()
        complaints += [line for line in said if not line.isdigit()]
        last = max((int(line) for line in said if line.isdigit()), default=fuzz.CASES)
        if done.returncode == -signal.SIGALRM:
            complaints.append(f"hangs (seed {seed}, case {last})")
        elif done.returncode:
            died = signal.Signals(-done.returncode).name if done.returncode < 0 else done.stderr
            complaints.append(f"{died[-300:]} (seed {seed}, case {last})")
        first = last + 1
    return complaints


TRIALS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "kills": (kills, ("the command", "a worker", "the process group")),
    "signals": (signals, ("SIGINT", "SIGTERM", "SIGHUP")),
    "lost": (lost_stores, ("deleted", "moved", "its folder deleted")),
    "damaged": (damaged_stores, ("bytes flipped", "cut off", "a page zeroed", "noise")),
    "full": (full_disks, ("bench", "train", "export", "report")),
    "fuzzed": (fuzzed, tuple(fuzz.KINDS)),
}


def outcomes(trial: Callable[..., Any], kind: str, chance: random.Random) -> Iterator[str | None]:
    """A complaint, or None, for each fault of one try."""
    with tempfile.TemporaryDirectory(dir=HOME.name) as folder:
        try:
            if trial is not fuzzed:
                undisturbed()  # before there is a command that would go on meanwhile
            found = trial(kind, chance, Path(folder))
        except BrokenError as broken:
            found = [str(broken)]
        except Exception as error:
            found = [f"{type(error).__name__}: {error}"]
    held = found if isinstance(found, int) else fuzz.CASES - len(found) if trial is fuzzed else 0
    yield from [None] * held
    yield from [] if isinstance(found, int) else found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--trials", nargs="+", choices=TRIALS, default=list(TRIALS))
    parser.add_argument("--minutes", type=float, default=5.0, help="for all trials together")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    chosen = [(name, kind) for name in args.trials for kind in TRIALS[name][1]]
    end, table = time.monotonic() + 60 * args.minutes, []
    for number, (name, kind) in enumerate(chosen):
        share = (end - time.monotonic()) / (len(chosen) - number)
        until, found = time.monotonic() + share, []
        chance = random.Random(f"{args.seed}/{name}/{kind}")
        for attempt in itertools.count(1):
            found += outcomes(TRIALS[name][0], kind, chance)
            if time.monotonic() > until and (found or attempt == 5):
                break
        table.append((f"{name}: {kind}", found or ["no command was at work long enough to be hit"]))
        print(f"{name}: {kind}: {found.count(None)} of {len(found)} held", file=sys.stderr)
    print(f"\n{'trial':30} {'tries':>6} {'held':>6}  what broke (seed {args.seed})")
    for name, found in table:
        broke = {complaint.split(" (seed")[0]: complaint for complaint in found if complaint}
        first, *more = broke.values() or [""]
        print(f"{name:30} {len(found):6} {found.count(None):6}  {first}")
        print("".join(f"{'':44}  {complaint}\n" for complaint in more), end="")
    return int(any(complaint for _, found in table for complaint in found))


if __name__ == "__main__":
    sys.exit(main())
