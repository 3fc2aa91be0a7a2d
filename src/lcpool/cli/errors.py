"""What goes wrong, in one line: no traceback for what a user can mend."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import typer

FAILED, BAD_INPUT, UNFINISHED = 1, 2, 3
INTERRUPTED = 130  # As shells report a program that SIGINT ended.
OUT_OF_MEMORY = "the GPU's memory is too small for this: try a smaller --stack or --batch-size."


@contextmanager
def one_line_errors(when_interrupted: str) -> Iterator[None]:
    """Turn errors and warnings into lines on stderr, and errors and Ctrl-C into exit codes.

    Args:
        when_interrupted: what to say after Ctrl-C.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = lambda message, *_, **__: say(str(message))
        try:
            yield
        except (ValueError, OSError) as error:
            raise _exit(str(error), BAD_INPUT) from error
        except RuntimeError as error:
            # By its name: torch need not have been imported when an error comes early.
            if type(error).__name__ != "OutOfMemoryError":
                raise
            raise _exit(OUT_OF_MEMORY, BAD_INPUT) from error
        except KeyboardInterrupt as error:
            raise _exit(when_interrupted, INTERRUPTED) from error


def say(message: str) -> None:
    """Print one line on stderr, whatever lines the message had."""
    typer.echo(f"lcpool: {' '.join(message.split())}", err=True)


def _exit(message: str, code: int) -> typer.Exit:
    say(message)
    return typer.Exit(code)
