"""Small sweeps for tests; importable from other processes."""

import itertools
import os
import signal
import time
from pathlib import Path

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from lcpool.data import builtin
from lcpool.sweep.columns import FIGURES
from lcpool.sweep.engines.execute import InlineEngine
from lcpool.sweep.engines.worker import process_context
from lcpool.sweep.grid import Dataset, Grid, make_jobs
from lcpool.sweep.run import Sweep
from lcpool.sweep.store import Store, StoreError
from lcpool.train import checkpoint

LONG = 120.0  # seconds that no test should ever wait
CPU = torch.device("cpu")
GRAPHS = builtin(num_graphs=60)


class Silent:
    def __init__(self):
        self.said = []

    def say(self, message):
        self.said.append(message)

    def show(self, sweep):
        pass


class Passes:
    """A display that passes the sweep itself to a view, not what is shown of it."""

    def __init__(self, view):
        self.view, self.say = view, view.say

    def show(self, board):
        self.view.show(board.__self__)


def small_jobs(pools=("nopool", "topkpool", "sagpool"), **settings):
    usual = {"runs": 2, "splits": "shared", "hidden": 8, "epochs": 4, "batch_size": 16, "lr": 0.01}
    dataset = Dataset.of(GRAPHS)
    return make_jobs([Grid.of(datasets=[dataset], pools=list(pools), **usual | settings)])


def write_tu(folder, name="RINGS", graphs=GRAPHS):
    """The graphs as a TU dataset, their colours as node labels."""
    folder = Path(folder) / name
    folder.mkdir()
    owner = torch.arange(len(graphs)).repeat_interleave(graphs.node_counts) + 1
    columns = {
        "A": [f"{a}, {b}" for a, b in (graphs.edge_index.T + 1).tolist()],
        "graph_indicator": owner.tolist(),
        "graph_labels": graphs.y.tolist(),
        "node_labels": graphs.x[:, -3:].argmax(1).tolist(),
    }
    for kind, lines in columns.items():
        (folder / f"{name}_{kind}.txt").write_text("".join(f"{line}\n" for line in lines))
    return folder


def sweep(path, jobs, engine=None, view=None, **options):
    with Store(path) as store:
        store.add(jobs)
        display = Passes(view or Silent())
        return Sweep(jobs, store, engine or InlineEngine(CPU), display, **options).run()


def change(path, run=None, **values):
    """Give all runs, or those of one number, other values, as if they had been trained so."""
    with Store(path) as store:
        rows = [row for row in store.runs() if run in (None, row["run"])]
        with store.transaction() as connection:
            for row in rows:
                key = (row["cell"], row["run"])
                connection.execute("DELETE FROM runs WHERE cell = ? AND run = ?", key)
                store.add_run({**row, **values})


def figures(path):
    """Every figure of every run, to the bit."""
    names = ", ".join(FIGURES)
    with Store(path, readonly=True) as store:
        rows = store.rows(f"SELECT cell, run, {names} FROM runs ORDER BY cell, run")
    return [tuple(row) for row in rows]


def command(path: Path, settings: dict, outcome=None, fatal_step=None) -> None:
    """A whole sweep with a checkpoint after each epoch, for its own process.

    After its optimizer's step number ``fatal_step`` the process kills itself.
    """
    torch.set_num_threads(1)
    checkpoint.INTERVAL = 0.0
    steps = itertools.count(1)

    def count(*_):
        if next(steps) == fatal_step:
            os.kill(os.getpid(), signal.SIGKILL)

    register_optimizer_step_post_hook(count)
    found = sweep(path, small_jobs(**settings))
    if outcome is not None:
        outcome.send((found.runs, found.complete))


def elsewhere(function, *arguments):
    """What a function returns in its own process."""
    ours, theirs = process_context().Pipe()
    process = process_context().Process(target=_answer, args=(theirs, function, *arguments))
    process.start()
    theirs.close()
    assert ours.poll(LONG)
    answer = ours.recv()
    process.join(LONG)
    return answer


def wait_until(condition, process, seconds=60.0):
    """Wait for something that a living process does."""
    until = time.monotonic() + seconds
    while not condition():
        assert process.is_alive(), "the process has ended"
        assert time.monotonic() < until, "nothing has happened"
        time.sleep(0.005)


def _answer(pipe, function, *arguments):
    pipe.send(function(*arguments))


def open_in_a_closed_folder(folder):
    os.chdir(folder)
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    with Store("bench.sqlite", readonly=True) as store:
        found = [len(store.rows("SELECT * FROM runs"))]
    for name in ("bench.sqlite", "new.sqlite"):
        try:
            with Store(name) as store:
                store.save([])
        except StoreError as error:
            found.append(str(error))
    return found


def write_to_a_file_that_cannot_grow(path):
    import resource

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    (job,) = small_jobs(["nopool"])
    with Store(path) as store:
        store.add([job])
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        try:
            store.fail(job.cells, "x" * 100_000, 0.0)
        except StoreError as error:
            return [str(error)]
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)


def fill_the_disk(folder):
    """Sweep, fill the disk, sweep more, make room, sweep again."""
    path, ballast = Path(folder) / "bench.sqlite", Path(folder) / "ballast"
    print(sweep(path, small_jobs(["nopool"], epochs=2)).complete)
    before = figures(path)
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
    more = small_jobs(["nopool", "topkpool"], epochs=2)
    try:
        sweep(path, more)
    except StoreError as error:
        print(error)
        print(error.__cause__.sqlite_errorname, str(error.__cause__) in str(error))
    ballast.unlink()
    print(figures(path) == before, sweep(path, more).complete, len(figures(path)))
