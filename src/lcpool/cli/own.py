"""A user's own classes: imported from the current folder, and tried once before data is read."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from lcpool.models import Architecture

TRY_SECONDS = 300.0  # for the call of a user's pooling on a tiny graph


def import_from_here() -> None:
    """Let modules of the current folder be imported, as ``python`` does and a script does not."""
    if os.getcwd() not in sys.path:  # In full: "" means another folder in worker processes.
        sys.path.append(os.getcwd())


def check_own_class(name: str, a: Architecture) -> None:
    """Import, make and call a user's class once, before any data is read."""
    import torch

    from lcpool.models import make_conv, make_pooling, network_class
    from lcpool.models.conv import CALLED as CONV_CALLED
    from lcpool.models.conv import takes_edge_attr
    from lcpool.nn.norm import BatchNorm
    from lcpool.pool.foreign import CALLED

    x, edges = torch.randn(4, a.hidden), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    if name == a.conv:
        needed = _made(name, a.hidden, lambda: takes_edge_attr(name)) == "needed"
        more, edge_dim = ({"edge_attr": torch.ones(4, 1)}, 1) if needed else ({}, None)
        conv = _made(name, a.hidden, lambda: make_conv(name, a.hidden, BatchNorm, edge_dim))
        _called(name, lambda: conv(x, edges, **more), CONV_CALLED)
        return
    if name == a.backbone:
        network = _made(name, a.hidden, lambda: network_class(name))
        made_of = replace(a, conv="gcn")  # another may need edge attributes
        _made(name, a.hidden, lambda: network(1, 2, 4.0, made_of))
        return
    pool = _made(name, a.hidden, lambda: make_pooling(name, a.hidden, 1, a))
    out = _called(name, lambda: pool(x, edges, None, torch.tensor([0, 0, 1, 1])), CALLED)
    if out.x.size(1) != a.hidden:
        raise ValueError(f"'{name}' gave features of width {out.x.size(1)}, not {a.hidden}.")


def _made(name: str, hidden: int, make: Callable[[], Any]) -> Any:
    """What ``make`` makes of a user's class."""
    from lcpool.models.own import own_errors

    try:
        with own_errors(name):
            return make()
    except TypeError as error:
        raise ValueError(f"cannot make '{name}' for {hidden} channels: {error}") from error


def _called(name: str, call: Callable[[], Any], how: str) -> Any:
    """The output of a user's layer for two small graphs; ``how`` says what it must be."""
    from lcpool.models.conv import ConvolutionError
    from lcpool.models.own import OwnCodeError, own_errors
    from lcpool.pool import PoolingError

    try:
        with own_errors(name):
            return call()
    except (OwnCodeError, PoolingError, ConvolutionError):  # These say where, or what to return.
        raise
    except Exception as error:
        raise ValueError(
            f"a call of '{name}' on two small graphs failed: {type(error).__name__}: {error}; "
            f"{how}."
        ) from error


def try_out(check: Callable[..., None], name: str, *arguments: Any) -> None:
    """Call ``check(name, *arguments)`` in its own process, as a user's class may do anything.

    Raises:
        ValueError: with the message of what the check raised, or if it did not return.
    """
    from lcpool.sweep.engines.worker import manner, start_process

    pipe, process = start_process(_answer, check, name, *arguments)
    try:
        silent = f"a call of '{name}' on a tiny graph has not ended after {TRY_SECONDS:.0f} s."
        wrong = pipe.recv() if pipe.poll(TRY_SECONDS) else silent
    except EOFError:
        process.join()
        how = manner(process.exitcode)
        wrong = f"a call of '{name}' on a tiny graph did not return: {how}."
    finally:
        process.kill()
        process.join()
    if wrong is not None:
        raise ValueError(wrong)


def _answer(pipe: Connection, check: Callable[..., None], *arguments: Any) -> None:
    os.dup2(2, 1)  # What it prints must not get into the results on stdout.
    try:
        check(*arguments)
    except Exception as error:
        pipe.send(str(error))
    else:
        pipe.send(None)
