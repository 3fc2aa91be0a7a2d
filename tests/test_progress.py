"""One display for trainings and sweeps: a table where it can be redrawn, plain lines elsewhere."""

import builtins
import io
import os
import pty
import subprocess
import sys
import types

import pytest
from rich.console import Console
from said import naming, numbers
from sweep.sweeping import GRAPHS

import lcpool
from lcpool import progress
from lcpool.progress import Board, Display, LineDisplay, LiveDisplay, display
from lcpool.train import train

BOARD = Board(("name", "epoch"), [("[red]x[/]", "3")], "summary", "details")
QUICK = {"runs": 2, "epochs": 2, "hidden": 4, "device": "cpu"}


def test_lines(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    console = Console(file=io.StringIO(), width=20)
    lines = LineDisplay(console)
    for second in (0, 1, 9, 11, 20, 22):
        now[0] = float(second)
        lines.show(lambda: BOARD)
    lines.mention("[b]mentioned[/] " * 3)
    assert console.file.getvalue().splitlines() == [
        *["summary · details"] * 3,
        "[b]mentioned[/] " * 3,
    ]


def test_a_table_shows_the_last_state_and_is_kept_if_it_is_asked_to():
    shown = {}
    for keep in (True, False):
        console = Console(file=io.StringIO(), force_terminal=True, width=80)
        live = LiveDisplay(console, keep)
        live.show(lambda: Board(("a",), [("first",)], "1"))
        live.show(lambda: BOARD)
        live.mention("unseen")
        live.say("[i]said[/]")
        live.close()
        shown[keep] = console.file.getvalue()
        assert "[red]x[/]" in shown[keep]
        assert "[i]said[/]" in shown[keep]
        assert "unseen" not in shown[keep]
        assert "details" not in shown[keep]
    assert shown[False].count("\x1b[2K") > shown[True].count("\x1b[2K")  # erased in the end


def test_a_notebook_has_one_line_that_changes(monkeypatch, capsys):
    """IPython's display is a stand-in: the first call makes the line, the others change it."""
    now, said = [0.0], []

    class Line:
        def update(self, data, raw):
            said.append(("update", data["text/plain"]))

    def output(data, raw, display_id):
        said.append(("display", data["text/plain"]))
        return Line()

    stand_in = types.ModuleType("IPython.display")
    stand_in.display = output
    monkeypatch.setitem(sys.modules, "IPython.display", stand_in)
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    shell = type("ZMQInteractiveShell", (), {})
    monkeypatch.setattr(builtins, "get_ipython", shell, raising=False)
    with display() as notebook:
        for n in range(1000):  # a hundred epochs per second
            now[0] = n / 100
            notebook.show(lambda n=n: BOARD._replace(summary=str(n)))
        notebook.mention("unseen")
        notebook.say("said")
    assert [kind for kind, _ in said] == ["display", *["update"] * 10]
    assert said[-1] == ("update", "999 · details")
    assert capsys.readouterr() == ("said\n", "")
    with display():  # nothing to show
        pass
    assert len(said) == 11


def kind_of_display(**environment):
    """What is chosen in a process with a terminal for stderr."""
    code = "from lcpool.progress import display\nwith display() as d: print(type(d).__name__)"
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=theirs, text=True,
        env={**os.environ, "TERM": "xterm", **environment}, check=True, timeout=120,
    )  # fmt: skip
    os.close(ours), os.close(theirs)
    return done.stdout.strip()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="terminals are not POSIX's")
def test_lines_where_a_terminal_cannot_redraw(monkeypatch):
    assert kind_of_display() == "LiveDisplay"
    assert kind_of_display(TERM="dumb") == "LineDisplay"
    monkeypatch.setenv("FORCE_COLOR", "1")  # as in a build's log
    with display() as lines, display(shown=False) as nothing:
        assert isinstance(lines, LineDisplay)
        assert type(nothing) is Display


@pytest.mark.parametrize("shown", [True, False])
def test_python_shows_progress_where_it_is_asked_to(shown, capsys):
    seen = []
    train(GRAPHS, "nopool", **QUICK, progress=shown, on_epoch=lambda t: seen.append(t.epoch))
    said = capsys.readouterr()
    assert said.out == ""
    assert ("1/2" in said.err) == shown
    lines = [numbers(line) for line in said.err.splitlines() if "/" not in line]
    assert [len(GRAPHS), 2] in [line[:2] for line in lines[:1]] or not shown  # at once
    assert [line[:2] for line in lines[1:]] == [[0, 2], [1, 2]] * shown  # runs, and their epochs
    assert seen == [1, 2]
    lcpool.compare(GRAPHS, "nopool", **QUICK, progress=shown)
    said = capsys.readouterr()
    assert said.out == ""
    assert bool(naming(said.err, "nopool", "fresh")) == shown
