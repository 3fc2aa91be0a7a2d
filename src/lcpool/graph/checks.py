"""Checks of the input of operators, on a GPU without synchronising.

Shapes, types and devices are known on the host: wrong ones raise at once. Whether an index is in
range is known only on the device, and asking a GPU would synchronise. So there the result of the
check stays on the GPU, and is read together with the next output size, which synchronises anyway.

In a traced call there are no values yet: an operator checks them in each run and returns them, so
that what is computed from them comes after the check.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from lcpool.graph.capture import NotCapturableError
from lcpool.ops.operator import as_operator, is_traced, new_size

# Kernels number nodes, and the edges of a node, in 32 bits.
MAX_COUNT = 2**31 - 1
# More empty graphs than this in a batch are taken for a mistake in its numbers.
MAX_EMPTY_GRAPHS = 2**20


class Checks:
    """Results of checks that are pending on the device, each with its error message."""

    def __init__(self) -> None:
        self._pending: list[tuple[Tensor, Callable[[], str]]] = []

    def require(self, value: Tensor, ok: Tensor, message: Callable[[], str]) -> Tensor:
        """``value``, if ``ok``; else a ``ValueError``, on a GPU when the next size is read.

        ``message`` is called only if the check failed, since it may synchronise.
        """
        if is_traced():
            return require(value, ok, message())
        if ok.device.type != "cpu":
            self._pending.append((ok, message))
        elif not bool(ok):
            raise ValueError(message())
        return value

    def adopt(self, other: Checks) -> None:
        """Read the pending results of ``other`` with those of this one."""
        if other is not self:
            self._pending += other._pending
            other._pending = []

    def fetch(self, *sizes: Tensor) -> Tensor:
        """Copy ``sizes`` and all pending results to the host at once; raise if a check failed."""
        pending, self._pending = self._pending, []
        parts = [*(size.reshape(-1) for size in sizes), *(ok.view(1) for ok, _ in pending)]
        numbers = torch.cat(parts).cpu()
        if not pending:
            return numbers
        results = numbers[-len(pending) :].tolist()
        for passed, (_, message) in zip(results, pending, strict=True):
            if not passed:
                raise ValueError(message())
        return numbers[: -len(pending)]

    def settle(self) -> None:
        """Read the pending results now, where no size will be read later."""
        if self._pending:
            self.fetch()

    def read(self, *sizes: Tensor) -> list[int]:
        """:meth:`fetch` as a list of numbers."""
        numbers: list[int] = self.fetch(*sizes).tolist()
        return numbers


class Trust(Checks):
    """No checks, for data that was checked before.

    When several runs are trained as one, a diverged run, whose scores are NaN, must not stop the
    others.
    """

    def require(self, value: Tensor, ok: Tensor, message: Callable[[], str]) -> Tensor:
        return value


class Unread(Trust):
    """No checks, and nothing is read from the device: for a step that is captured."""

    def fetch(self, *sizes: Tensor) -> Tensor:
        raise NotCapturableError("the host reads how many pooled nodes or edges there are")


def check_index(name: str, index: Any, like: Tensor | None = None, widen: bool = True) -> Tensor:
    """``index`` as an int64 tensor; without ``widen``, int32 stays int32."""
    if not isinstance(index, Tensor) or index.layout != torch.strided:
        kind = index.layout if isinstance(index, Tensor) else type(index).__name__
        raise TypeError(
            f"'{name}' must be a dense tensor of indices, not {kind}: pass "
            f"torch.as_tensor({name}), or for a sparse adjacency its edges as a [2, num_edges] "
            f"tensor (torch_geometric.utils.to_edge_index)."
        )
    if index.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"'{name}' must hold int64 indices, not {index.dtype}: {name}.long().")
    if like is not None:
        check_device(name, index, like)
    if not is_traced():  # InRange checks a traced call
        check_count(name, index.size(-1) if index.dim() else 1)
    # A PyG EdgeIndex is a tensor with a cache; only the plain tensor inside is needed.
    plain = index if type(index) is Tensor or is_traced() else index.as_subclass(Tensor)
    return plain.long() if widen else plain


def check_count(name: str, count: int) -> None:
    """Raise unless ``count`` is an int in the range that kernels can number."""
    check_number(name, count)
    if not 0 <= count <= MAX_COUNT:
        raise ValueError(
            f"'{name}' is {count:,}, but must be between 0 and 2³¹ − 1: divide a larger graph into "
            f"parts."
        )


def check_number(name: str, count: Any) -> None:
    """Raise a ``TypeError`` unless ``count`` is an integer."""
    if not isinstance(count, (Integral, torch.SymInt)):
        raise TypeError(f"'{name}' must be an int, not {type(count).__name__}.")


def check_weights(name: str, weight: Any) -> None:
    """Raise unless ``weight`` is a tensor of real numbers: complex gradients are not computed."""
    kind = weight.dtype if isinstance(weight, Tensor) else type(weight).__name__
    if not isinstance(weight, Tensor) or weight.is_complex() or weight.dtype == torch.bool:
        raise TypeError(f"'{name}' must be a tensor of real numbers, not {kind}.")


def check_lengths(**given: tuple[Tensor, int]) -> None:
    """Raise unless each tensor has its number of rows, which kernels trust."""
    for name, (values, rows) in given.items():
        if not is_traced() and values.size(0) != rows:
            raise ValueError(f"'{name}' must have {rows} rows, not shape {list(values.shape)}.")


def check_max_edges(max_edges: int, count: int) -> None:
    """Raise if a pooled graph has more than ``max_edges`` edges."""
    if count > max_edges:
        raise ValueError(
            f"the pooled graph would have {count:,} edges, more than max_edges={max_edges:,}. "
            f"Keep fewer nodes (a smaller 'ratio'), or raise 'max_edges' if {16 * count:,} bytes "
            f"of indices fit."
        )


def check_device(name: str, tensor: Tensor, like: Tensor) -> None:
    """Raise unless ``tensor`` is on the device of ``like``."""
    if tensor.device != like.device:
        raise ValueError(
            f"'{name}' is on {tensor.device} but the other tensors are on {like.device}; "
            f"move them to one device."
        )


def check_range(name: str, index: Tensor, size: int, unit: str, checks: Checks) -> Tensor:
    """``index``, safe to gather with: every value is in ``[0, size)``.

    On a GPU, where the result of the check is pending, other values are clamped into the range.
    """
    if is_traced():
        return in_range(index, size, name, unit)
    if index.numel() == 0:
        return index
    if size == 0:
        raise ValueError(out_of_range(name, index, size, unit))
    low, high = index.aminmax()
    ok = (low >= 0) & (high < size)
    checks.require(index, ok, lambda: out_of_range(name, index, size, unit))
    return index if index.device.type == "cpu" else index.clamp(0, size - 1)


def out_of_range(name: str, index: Tensor, size: int | None, unit: str) -> str:
    """The error message for an index below 0, or of at least ``size``, if that is known."""
    if size == 0:
        return f"'{name}' refers to {unit}s, but there are none."
    low, high = (int(value) for value in index.aminmax())
    known = "" if size is None else f"{size} "
    end = "on" if size is None else f"to {size - 1}"
    return f"'{name}' spans [{low}, {high}], but {known}{unit}s have indices 0 {end}."


def check_edge_index(
    edge_index: Any, num_nodes: int, checks: Checks, like: Tensor | None, widen: bool = True
) -> Tensor:
    """``edge_index`` as a tensor ``[2, num_edges]`` with node indices in range."""
    edges = check_edges(edge_index, like, widen)
    return check_range("edge_index", edges, num_nodes, "node", checks)


def check_edges(edge_index: Any, like: Tensor | None, widen: bool = True) -> Tensor:
    """``edge_index`` as a tensor ``[2, num_edges]``; its values are not checked."""
    edges = check_index("edge_index", edge_index, like, widen)
    if edges.dim() != 2 or edges.size(0) != 2:
        raise ValueError(f"'edge_index' must have shape [2, num_edges], not {list(edges.shape)}.")
    return edges


def count_graphs(batch: Tensor, checks: Checks) -> int:
    """The number of graphs: 1 + the largest graph of a node."""
    if is_traced():
        return graph_count(batch)
    low, high = checks.read(*batch.aminmax()) if batch.numel() else (0, 0)
    if low < 0:
        raise ValueError(f"'batch' spans [{low}, {high}], but graphs have indices 0 on.")
    check_empty_graphs(high + 1, batch.numel())
    return high + 1


def check_empty_graphs(batch_size: int, num_nodes: int) -> None:
    """Raise if most graphs must be empty: tables with a row per graph would fill the memory."""
    if batch_size - num_nodes > MAX_EMPTY_GRAPHS:
        raise ValueError(
            f"'batch' or 'batch_size' says that there are {batch_size:,} graphs, but there are "
            f"{num_nodes:,} nodes, so that more than {MAX_EMPTY_GRAPHS:,} graphs are empty. Number "
            f"graphs without such gaps: batch = torch.unique(batch, return_inverse=True)[1]."
        )


def _like_first(value: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(value)


@as_operator("require(Tensor value, Tensor ok, str message) -> Tensor", _like_first)
def require(value: Tensor, ok: Tensor, message: str) -> Tensor:
    """:meth:`Checks.require` in a traced call; returns a copy of the value."""
    if not bool(ok):
        raise ValueError(message)
    return value.clone()


@as_operator("in_range(Tensor index, SymInt size, str name, str unit) -> Tensor", _like_first)
def in_range(index: Tensor, size: int, name: str, unit: str) -> Tensor:
    """:func:`check_range` in a traced call; returns a copy of the index."""
    check_count(name, index.size(-1))
    checks = Checks()
    checked = check_range(name, index, size, unit, checks)
    checks.settle()
    return checked.clone()


@as_operator("graph_count(Tensor batch) -> SymInt", lambda batch: new_size(min=1))
def graph_count(batch: Tensor) -> int:
    """:func:`count_graphs` in a traced call."""
    return count_graphs(batch, Checks())
