"""What may enter an operator, and how a GPU reports what may not.

Shapes, types and devices are known on the host and raise at once. Whether an index is in range is
known only on the device: asking a GPU would make the host wait for it. So on a GPU the verdict is
kept as a flag and read together with the next output size, which the host must wait for anyway.

Where a call is traced to be run again, there is nothing to ask yet: an operator asks, each time,
and gives what was checked, so that whatever is computed from it comes after the check.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from lcpool.ops.operator import is_traced, operator

INDEX_TYPES = (torch.int64, torch.int32)
# Kernels number nodes, and the edges of a node, in 32 bits.
MAX_COUNT = 2**31 - 1


class Checks:
    """Verdicts that are pending on the device, each with the sentence to raise it with."""

    def __init__(self) -> None:
        self._pending: list[tuple[Tensor, Callable[[], str]]] = []

    def require(self, value: Tensor, ok: Tensor, message: Callable[[], str]) -> Tensor:
        """``value``, or ``ValueError(message())`` unless ``ok``: at once on a CPU, else on reading.

        Args:
            value: what is not to be used unless ``ok``.
            ok: a boolean tensor without dimensions.
            message: called only when the check has failed, since it may ask the device for details.
        """
        if is_traced():
            required: Tensor = require(value, ok, message())
            return required
        if ok.device.type != "cpu":
            self._pending.append((ok, message))
        elif not bool(ok):
            raise ValueError(message())
        return value

    def fetch(self, *sizes: Tensor) -> Tensor:
        """Bring ``sizes`` to the host in one transfer, and every pending verdict with them."""
        pending, self._pending = self._pending, []
        parts = [*(size.reshape(-1) for size in sizes), *(ok.view(1) for ok, _ in pending)]
        numbers = torch.cat(parts).cpu()
        if not pending:
            return numbers
        verdicts = numbers[-len(pending) :].tolist()
        for good, (_, message) in zip(verdicts, pending, strict=True):
            if not good:
                raise ValueError(message())
        return numbers[: -len(pending)]

    def settle(self) -> None:
        """Wait for what is pending, where no size will be read that it could travel with."""
        if self._pending:
            self.fetch()

    def read(self, *sizes: Tensor) -> list[int]:
        """:meth:`fetch` as numbers."""
        numbers: list[int] = self.fetch(*sizes).tolist()
        return numbers


class Trust(Checks):
    """No checks, where the caller vouches for its input.

    Of several runs trained as one, a diverged one, whose scores are NaN, must not stop the others.
    """

    def require(self, value: Tensor, ok: Tensor, message: Callable[[], str]) -> Tensor:
        """Nothing is required."""
        return value


def check_index(name: str, index: Any, like: Tensor | None = None, widen: bool = True) -> Tensor:
    """``index`` as an int64 tensor, or a ``TypeError`` that says what to pass instead.

    Without ``widen``, indices of 32 bits stay so.
    """
    if not isinstance(index, Tensor) or index.layout != torch.strided:
        kind = index.layout if isinstance(index, Tensor) else type(index).__name__
        raise TypeError(
            f"'{name}' must be a dense tensor of indices, not {kind}. For a sparse adjacency pass "
            f"its edges as a [2, num_edges] tensor (torch_geometric.utils.to_edge_index)."
        )
    if index.dtype not in INDEX_TYPES:
        raise TypeError(f"'{name}' must hold int64 indices, not {index.dtype}.")
    if like is not None:
        check_device(name, index, like)
    if not is_traced():  # else InRange does
        check_count(name, index.size(-1) if index.dim() else 1)
    # A PyG EdgeIndex is a tensor with a cache; the plain tensor inside is all we need.
    plain = index if type(index) is Tensor or is_traced() else index.as_subclass(Tensor)
    return plain.long() if widen else plain


def check_count(name: str, count: int) -> None:
    """Raise where there is more of something than kernels can number, or no number of it."""
    check_number(name, count)
    if not 0 <= count <= MAX_COUNT:
        raise ValueError(
            f"'{name}' counts {count:,}, but kernels count from 0 to 2³¹ − 1: cut the graph into "
            f"parts that are connected one by one."
        )


def check_number(name: str, count: Any) -> None:
    """Raise a ``TypeError`` unless ``count`` is an integer."""
    if not isinstance(count, (Integral, torch.SymInt)):
        raise TypeError(f"'{name}' must be an int, not {type(count).__name__}.")


def check_lengths(**given: tuple[Tensor, int]) -> None:
    """Raise unless each tensor has as many rows as it is read for: kernels look no further."""
    for name, (values, rows) in given.items():
        if not is_traced() and values.size(0) != rows:
            raise ValueError(f"'{name}' must have {rows} rows, not shape {list(values.shape)}.")


def check_max_edges(max_edges: int, count: int) -> None:
    """Raise if a pooled graph of ``count`` edges is larger than its caller allows."""
    if count > max_edges:
        raise ValueError(
            f"the pooled graph would have {count:,} edges, more than max_edges={max_edges:,}. "
            f"Keep fewer nodes (a smaller 'ratio'), or raise 'max_edges' if {16 * count:,} bytes "
            f"of indices fit."
        )


def check_device(name: str, tensor: Tensor, like: Tensor) -> None:
    """Raise unless ``tensor`` lies where ``like`` lies."""
    if tensor.device != like.device:
        raise ValueError(
            f"'{name}' is on {tensor.device} but the other tensors are on {like.device}; "
            f"move them to one device."
        )


def check_range(name: str, index: Tensor, size: int, unit: str, checks: Checks) -> Tensor:
    """``index`` with the promise that it is safe to gather with: every value in ``[0, size)``.

    On a GPU, where the verdict is still pending, stray values are clamped into the range for now.
    """
    if is_traced():
        checked: Tensor = in_range(index, size, name, unit)
        return checked
    if index.numel() == 0:
        return index
    if size == 0:
        raise ValueError(out_of_range(name, index, size, unit))
    low, high = index.aminmax()
    ok = (low >= 0) & (high < size)
    checks.require(index, ok, lambda: out_of_range(name, index, size, unit))
    return index if index.device.type == "cpu" else index.clamp(0, size - 1)


def out_of_range(name: str, index: Tensor, size: int | None, unit: str) -> str:
    """What to say of an index beyond ``size`` of something, or below 0 where no size is known."""
    if size == 0:
        return f"'{name}' refers to {unit}s, but there are none."
    low, high = (int(value) for value in index.aminmax())
    known = "" if size is None else f"{size} "
    end = "on" if size is None else f"to {size - 1}"
    return f"'{name}' spans [{low}, {high}], but {known}{unit}s have indices 0 {end}."


def check_edge_index(
    edge_index: Any,
    num_nodes: int,
    checks: Checks,
    like: Tensor | None,
    widen: bool = True,
) -> Tensor:
    """``edge_index`` as a tensor ``[2, num_edges]`` with node indices in range."""
    edges = check_edges(edge_index, like, widen)
    return check_range("edge_index", edges, num_nodes, "node", checks)


def check_edges(edge_index: Any, like: Tensor | None, widen: bool = True) -> Tensor:
    """``edge_index`` as a tensor ``[2, num_edges]``, whatever the indices."""
    edges = check_index("edge_index", edge_index, like, widen)
    if edges.dim() != 2 or edges.size(0) != 2:
        raise ValueError(f"'edge_index' must have shape [2, num_edges], not {list(edges.shape)}.")
    return edges


def count_graphs(batch: Tensor, checks: Checks) -> int:
    """The number of graphs: 1 + the largest that a node belongs to."""
    if is_traced():
        count: int = graph_count(batch)
        return count
    low, high = checks.read(*batch.aminmax()) if batch.numel() else (0, 0)
    if low < 0:
        raise ValueError(f"'batch' spans [{low}, {high}], but graphs count from 0.")
    return high + 1


class Require:
    """:meth:`Checks.require` of a traced call."""

    @staticmethod
    def forward(value: Tensor, ok: Tensor, message: str) -> Tensor:
        """A copy of the value."""
        if not bool(ok):
            raise ValueError(message)
        return value.clone()

    @staticmethod
    def fake(value: Tensor, ok: Tensor, message: str) -> Tensor:
        return torch.empty_like(value)


class InRange:
    """:func:`check_range` of a traced call."""

    @staticmethod
    def forward(index: Tensor, size: int, name: str, unit: str) -> Tensor:
        """A copy of the index."""
        check_count(name, index.size(-1))
        checks = Checks()
        checked = check_range(name, index, size, unit, checks)
        checks.settle()
        return checked.clone()

    @staticmethod
    def fake(index: Tensor, size: int, name: str, unit: str) -> Tensor:
        return torch.empty_like(index)


class GraphCount:
    """:func:`count_graphs` of a traced call."""

    @staticmethod
    def forward(batch: Tensor) -> int:
        """Read the largest."""
        return count_graphs(batch, Checks())

    @staticmethod
    def fake(batch: Tensor) -> Any:
        return torch.library.get_ctx().new_dynamic_size(min=1)


require = operator("require(Tensor value, Tensor ok, str message) -> Tensor", Require)
in_range = operator("in_range(Tensor index, SymInt size, str name, str unit) -> Tensor", InRange)
graph_count = operator("graph_count(Tensor batch) -> SymInt", GraphCount)
