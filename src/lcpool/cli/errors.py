"""Errors in one line: no traceback for what a user can fix."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import typer

FAILED, BAD_INPUT, UNFINISHED = 1, 2, 3
INTERRUPTED = 130  # What shells report after Ctrl-C.
OUT_OF_MEMORY = "the GPU's memory is too small for this: try a smaller --stack or --batch-size."


@contextmanager
def one_line_errors(when_interrupted: str) -> Iterator[None]:
    """Print errors and warnings as one line each; errors and Ctrl-C end with an exit status."""
    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = lambda message, *_, **__: say(str(message))
        try:
            yield
        except ValueError as error:
            raise _exit(str(error), BAD_INPUT) from error
        except OSError as error:
            # The file and what is wrong with it, without the number of the error.
            where = f"{os.fsdecode(error.filename)}: " if error.filename else ""
            words = f"{where}{error.strerror}." if error.strerror else str(error)
            missing = isinstance(error, FileNotFoundError)
            raise _exit(words, BAD_INPUT if missing else FAILED) from error
        except RuntimeError as error:
            # By their names: torch may not have been imported yet.
            if type(error).__name__ == "EngineError":
                raise _exit(f"{error} What has finished is in the store.", FAILED) from error
            if type(error).__name__ != "OutOfMemoryError":
                raise
            raise _exit(OUT_OF_MEMORY, BAD_INPUT) from error
        except KeyboardInterrupt as error:
            raise _exit(when_interrupted, INTERRUPTED) from error


def say(message: str) -> None:
    """Print a message on stderr, on one line."""
    typer.echo(f"lcpool: {' '.join(message.split())}", err=True)


def _exit(message: str, code: int) -> typer.Exit:
    say(message)
    return typer.Exit(code)
