"""Progress: a table redrawn in place in a terminal, one line in a notebook, plain lines elsewhere.

"Elsewhere" is a file, a log, or a terminal with ``TERM=dumb``. All but the notebook's line are on
stderr. What the table contains is up to the caller, who passes a :class:`Board`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from lcpool.extras import needs

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

# Seconds between two drawings of the table, of the line in a notebook (each goes to the browser),
# and between two lines where nothing is redrawn.
REDRAW, REWRITE, PAUSE = 0.25, 1.0, 10.0


class Board(NamedTuple):
    """What to show at one moment."""

    columns: tuple[str, ...]  # titles of the table; the first is of text, the others of numbers
    rows: list[tuple[str, ...]]
    summary: str  # one line, below the table
    details: str = ""  # what the table shows, in short, for displays without a table

    @property
    def line(self) -> str:
        """Everything in one line."""
        return " · ".join(filter(None, (self.summary, self.details)))


class Display:
    """Shows progress to a user; this one shows nothing."""

    def say(self, message: str) -> None:
        """Print a line that stays."""

    def mention(self, message: str) -> None:
        """Print a line, unless there is a table, which shows the same."""

    def show(self, board: Callable[[], Board]) -> None:
        """Show the current state; may be called often, and calls ``board`` only now and then."""

    def close(self) -> None:
        """Show the last state and release the terminal."""


class LineDisplay(Display):
    """A line per message, and one with the current state every ``PAUSE`` seconds."""

    def __init__(self, console: Console) -> None:
        self.console, self.shown = console, -PAUSE

    def say(self, message: str) -> None:
        self.console.print(message, soft_wrap=True, highlight=False, markup=False)

    mention = say

    def show(self, board: Callable[[], Board]) -> None:
        if time.monotonic() - self.shown >= PAUSE:
            self.say(board().line)
            self.shown = time.monotonic()


class LiveDisplay(Display):
    """A table that is redrawn in place, below all messages; ``keep`` leaves the last one."""

    def __init__(self, console: Console, keep: bool = False) -> None:
        from rich.live import Live

        self.live = Live(console=console, auto_refresh=False, transient=not keep)
        self.drawn = -REDRAW

    def say(self, message: str) -> None:
        self.live.console.print(message, highlight=False, markup=False)

    def show(self, board: Callable[[], Board]) -> None:
        self.board = board
        if not self.live.is_started:  # Not before: a download has its own display.
            self.live.start()
        if time.monotonic() - self.drawn >= REDRAW:
            self._draw()

    def _draw(self) -> None:
        self.live.update(drawing(self.board()), refresh=True)
        self.drawn = time.monotonic()

    def close(self) -> None:
        if self.live.is_started:
            self._draw()
            self.live.stop()


class NotebookDisplay(Display):
    """One line of a notebook's output, which changes in place and stays as it was at the end."""

    def __init__(self) -> None:
        self.handle: Any = None
        self.drawn = -REWRITE

    def say(self, message: str) -> None:
        print(message)

    def show(self, board: Callable[[], Board]) -> None:
        self.board = board
        if time.monotonic() - self.drawn >= REWRITE:
            self._draw()

    def _draw(self) -> None:
        from IPython.display import display as output

        text = {"text/plain": self.board().line}
        if self.handle is None:
            self.handle = output(text, raw=True, display_id=True)
        else:
            self.handle.update(text, raw=True)
        self.drawn = time.monotonic()

    def close(self) -> None:
        if self.handle is not None:
            self._draw()


def drawing(board: Board) -> RenderableType:
    """The table of a board with its summary."""
    from rich.console import Group
    from rich.text import Text

    return Group(table(board.columns, board.rows), Text(board.summary))


def table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> Table:
    """A table to print; all but the first column are numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Column, Table
    from rich.text import Text

    made = Table(*(Column(Text(title), justify="right") for title in titles), box=SIMPLE_HEAD)
    made.columns[0].justify = "left"
    for row in rows:
        made.add_row(*map(Text, row))  # Text: a name is not markup.
    return made


@contextmanager
def display(shown: bool = True, keep: bool = False) -> Iterator[Display]:
    """A display while inside: none unless ``shown``; ``keep`` leaves the last table."""
    if not shown:
        yield Display()
        return
    with needs("lab"):
        from rich.console import Console
    console = Console(stderr=True)
    # Colours may be forced where nothing can be redrawn, as in the log of a build.
    redraws = console.is_interactive and console.file.isatty()
    on: Display = LiveDisplay(console, keep) if redraws else LineDisplay(console)
    if console.is_jupyter:
        on = NotebookDisplay()
    with closing(on):
        yield on


def clock(seconds: float) -> str:
    """Seconds as h:mm:ss.

    >>> clock(3725.4)
    '1:02:05'
    """
    return str(timedelta(seconds=round(seconds)))
