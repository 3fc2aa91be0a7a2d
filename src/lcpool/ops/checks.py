"""What may enter an operator, and how a GPU reports what may not.

Shapes, types and devices are known on the host and raise at once. Whether an index is in range is
known only on the device: asking a GPU would make the host wait for it. So on a GPU the verdict is
kept as a flag and read together with the next output size, which the host must wait for anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

INDEX_TYPES = (torch.int64, torch.int32)


class Checks:
    """Verdicts that are pending on the device, each with the sentence to raise it with."""

    def __init__(self) -> None:
        self._pending: list[tuple[Tensor, Callable[[], str]]] = []

    def require(self, ok: Tensor, message: Callable[[], str]) -> None:
        """Raise ``ValueError(message())`` unless ``ok``: at once on a CPU, else with :meth:`read`.

        Args:
            ok: a boolean tensor without dimensions.
            message: called only when the check has failed, since it may ask the device for details.
        """
        if ok.device.type != "cpu":
            self._pending.append((ok, message))
        elif not bool(ok):
            raise ValueError(message())

    def read(self, *sizes: Tensor) -> list[int]:
        """Bring ``sizes`` to the host in one transfer, and every pending verdict with them."""
        pending, self._pending = self._pending, []
        parts = [*(size.reshape(-1) for size in sizes), *(ok.long().view(1) for ok, _ in pending)]
        numbers: list[int] = torch.cat(parts).tolist()
        verdicts = numbers[len(numbers) - len(pending) :]
        for good, (_, message) in zip(verdicts, pending, strict=True):
            if not good:
                raise ValueError(message())
        return numbers[: len(numbers) - len(pending)]


class Trust(Checks):
    """No checks, where the caller vouches for its input.

    Of several runs trained as one, a diverged one, whose scores are NaN, must not stop the others.
    """

    def require(self, ok: Tensor, message: Callable[[], str]) -> None:
        """Nothing is required."""


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
    # A PyG EdgeIndex is a tensor with a cache; the plain tensor inside is all we need.
    plain: Tensor = index.as_subclass(Tensor)
    return plain.long() if widen else plain


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


def check_range(name: str, index: Tensor, size: int, unit: str, checks: Checks | None) -> Tensor:
    """``index`` with the promise that it is safe to gather with: every value in ``[0, size)``.

    On a GPU, where the verdict is still pending, stray values are clamped into the range for now.
    Without ``checks``, because no size will be read that a verdict could travel with, a GPU asserts
    it by itself.
    """
    if index.numel() == 0:
        return index
    if size == 0:
        raise ValueError(f"'{name}' refers to {unit}s, but there are none.")
    low, high = index.aminmax()
    ok = (low >= 0) & (high < size)
    if checks is None and index.device.type != "cpu":
        torch._assert_async(ok)
        return index

    def message() -> str:
        return f"'{name}' spans [{low}, {high}], but {size} {unit}s have indices 0 to {size - 1}."

    (checks or Checks()).require(ok, message)
    return index if index.device.type == "cpu" else index.clamp(0, size - 1)


def check_edge_index(
    edge_index: Any,
    num_nodes: int,
    checks: Checks | None,
    like: Tensor | None,
    widen: bool = True,
) -> Tensor:
    """``edge_index`` as a tensor ``[2, num_edges]`` with node indices in range."""
    edges = check_index("edge_index", edge_index, like, widen)
    if edges.dim() != 2 or edges.size(0) != 2:
        raise ValueError(f"'edge_index' must have shape [2, num_edges], not {list(edges.shape)}.")
    return check_range("edge_index", edges, num_nodes, "node", checks)
