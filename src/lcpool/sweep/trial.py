"""A pooling of the user's own, tried out in a process of its own: it may do anything there."""

from __future__ import annotations

import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from lcpool.sweep.worker import manner, out_of_reach, process_context

PATIENCE = 300.0  # Seconds to wait for one call on a tiny graph.


def try_out(check: Callable[..., None], pool: str, *arguments: Any) -> None:
    """Call ``check(pool, *arguments)`` elsewhere.

    Raises:
        ValueError: with the message of what the check raised, or if it came to no end.
    """
    context = process_context()
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(  # type: ignore[attr-defined] # known of each context only
        target=_answer, args=(theirs, check, pool, *arguments), daemon=True
    )
    with out_of_reach():
        process.start()
    theirs.close()
    try:
        silent = f"a call of '{pool}' on a tiny graph has not ended after {PATIENCE:.0f} s."
        wrong = ours.recv() if ours.poll(PATIENCE) else silent
    except EOFError:
        process.join()
        how = manner(process.exitcode)
        wrong = f"a call of '{pool}' on a tiny graph did not come back: {how}."
    finally:
        process.kill()
        process.join()
    if wrong is not None:
        raise ValueError(wrong)


def _answer(pipe: Connection, check: Callable[..., None], *arguments: Any) -> None:
    os.dup2(2, 1)  # What it prints is no result.
    try:
        check(*arguments)
    except Exception as error:
        pipe.send(str(error))
    else:
        pipe.send(None)
