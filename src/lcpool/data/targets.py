"""What is known of each graph, as a column: classes, labels or values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import torch
from torch import Tensor

from lcpool.data.checks import DatasetError
from lcpool.settings import TaskName

if TYPE_CHECKING:
    from lcpool.data.graphset import GraphSet

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
TASKS: tuple[str, ...] = get_args(TaskName)
# What to do with targets that are no classes, for messages.
OTHERS = "task='values' (--task values, GraphRegressor), several labels with 'labels'"
NO_CLASS = "is missing; every graph needs its class. Leave the graph out."

Place = Callable[[int], str]


def targets(
    where: str,
    y: Any,
    count: int,
    task: TaskName | None,
    place: Place | None = None,
    others: str = OTHERS,
) -> dict[str, Any]:
    """The fields ``y``, ``classes``, ``task`` and ``target_names`` of a graph set.

    Args:
        where: how an error calls the targets.
        y: one per graph: a list, an array, a tensor, a pandas series or frame, or None.
        count: how many graphs there are.
        task: what they are, if it is not to be told from them.
        place: how an error calls the target of a graph; by default as ``y``, with its number.
        others: with what numbers to predict go, for errors.

    Example:
        >>> targets("", ["no", "yes", "no"], 3, None)["classes"]
        ('no', 'yes')
        >>> targets("", [[0, 1], [1, None]], 2, None)["y"]
        tensor([[0., 1.],
                [1., nan]])
    """
    if task not in (None, *TASKS):
        raise ValueError(f"'task' must be one of {', '.join(TASKS)}, not {task!r}.")
    names = tuple(map(str, y.columns)) if hasattr(y, "columns") else ()
    rows = [None] * count if y is None else _listed(where, y)
    if len(rows) != count:
        raise DatasetError(f"{where}: {len(rows)} targets for {count} graphs.")
    place = place or (lambda g: f"{where}: 'y' of graph {g}")
    column, classes, found = _column(rows, task, place, others)
    return {
        "y": column,
        "classes": classes,
        "task": found,
        "target_names": names if found != "classes" else (),
    }


def with_task(graphs: GraphSet, task: TaskName | None) -> GraphSet:
    """The graphs with their targets as another kind: whole numbers can be classes or values."""
    if task in (None, graphs.task) or not graphs.num_outputs:
        return graphs
    if graphs.classes_are_words:
        raise DatasetError(f"{graphs.name}: the targets are words, which are classes, not {task}.")
    known = targets(graphs.name, graphs.y, len(graphs), task)
    return replace(graphs, **known | {"target_names": graphs.target_names})


def _listed(where: str, y: Any) -> list[Any]:
    """The targets one by one."""
    y = y.to_numpy() if hasattr(y, "to_numpy") else y
    listed = hasattr(y, "__len__") and hasattr(y, "__iter__")
    # The keys of a dictionary, and a set in any order, are no targets.
    if not listed or isinstance(y, str | Mapping | Set):
        problem = "'y' must be a list, an array, a tensor or a pandas object"
        raise DatasetError(f"{where}: {problem} with a target per graph, not {type(y).__name__}.")
    rows = y.tolist() if hasattr(y, "tolist") else list(y)
    rows = rows if isinstance(rows, list) else [rows]
    if all(isinstance(row, list) and len(row) == 1 and isinstance(row[0], str) for row in rows):
        rows = [word for (word,) in rows]  # a frame with one column of words
    return rows


def _column(
    found: Sequence[Any], task: TaskName | None, place: Place, others: str
) -> tuple[Tensor, tuple[int, ...] | tuple[str, ...], TaskName]:
    """``y``, ``classes`` and ``task``, of a number, word, row of numbers or None per graph."""
    if all(value is None for value in found):
        return torch.full((len(found),), -1), (), "classes"
    if task in (None, "classes") and any(isinstance(value, str) for value in found):
        return _classes_by_word(found, place)
    rows = _target_rows(found, place, "" if task in ("labels", "values") else " or a word")
    task = _likely_task(rows, found) if task is None else task
    if task == "classes":
        numbers = [_class_number(place(g), value, others) for g, value in enumerate(found)]
        return torch.tensor(numbers), tuple(sorted(set(numbers))), task
    odd = ((rows != 0) & (rows != 1) & ~rows.isnan()).any(dim=1)
    if task == "labels" and odd.any():
        g = int(odd.nonzero()[0])
        problem = f"must be 0, 1 or NaN (missing), not {_shown(found[g])}"
        raise DatasetError(f"{place(g)} {problem}; numbers to predict go with {others}.")
    return rows.float() if task == "labels" else rows, (), task


def _classes_by_word(
    found: Sequence[Any], place: Place
) -> tuple[Tensor, tuple[str, ...], TaskName]:
    """Classes that are called by words, in alphabetical order."""
    for g, value in enumerate(found):
        if _is_missing(value):
            raise DatasetError(f"{place(g)} {NO_CLASS}")
    words = [isinstance(value, str) for value in found]
    if not all(words):
        word, other = words.index(True), words.index(False)
        raise DatasetError(
            f"{place(word)} is {_shown(found[word])}, but that of graph {other} is "
            f"{_shown(found[other])}: pass words for all, or for none."
        )
    names = tuple(sorted(set(found)))
    number = {word: n for n, word in enumerate(names)}
    return torch.tensor([number[word] for word in found]), names, "classes"


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _shown(value: Any) -> str:
    """A target in a message; of a row of one, that one."""
    return repr(value[0] if isinstance(value, tuple) and len(value) == 1 else value)[:60]


def _likely_task(rows: Tensor, found: Sequence[Any]) -> TaskName:
    """What the numbers of each graph probably are."""
    known = rows[~rows.isnan()]
    if rows.size(1) > 1:
        return "labels" if bool(((known == 0) | (known == 1)).all()) else "values"
    # Whole floats are taken for classes, as many datasets have them. A fraction among integers, or
    # a missing class, is rather a slip: as a class it is an error.
    fractions = bool((known != known.trunc()).any())
    whole = any(isinstance(value, Integral) or getattr(value, "dtype", None) in INTEGERS
                for value in found)  # fmt: skip
    return "values" if fractions and not whole else "classes"


def _target_rows(found: Sequence[Any], place: Place, word: str) -> Tensor:
    """The numbers of each graph as a row of float64; NaN where there is none.

    ``word`` is what they can be otherwise, for messages.
    """
    rows: list[Tensor] = []
    for g, value in enumerate(found):
        where, shown = f"{place(g)} must be", _shown(value)
        listed = value if isinstance(value, Tensor | np.ndarray | list | tuple) else [value]
        if isinstance(listed, list | tuple):
            listed = [math.nan if one is None else one for one in listed]
        try:
            row = _exact(listed)
        except (RuntimeError, TypeError, ValueError):
            raise DatasetError(f"{where} a number, a row of numbers{word}, not {shown}, and of one "
                               f"kind for all graphs.") from None  # fmt: skip
        if row.is_complex() or row.float().isinf().any():
            raise DatasetError(f"{where} finite real numbers within float32, not {shown}.")
        if row.squeeze().dim() > 1:
            raise DatasetError(f"{where} a row of numbers, not of shape {list(row.shape)}.")
        rows.append(row.double().flatten())
        if len(rows[-1]) != len(rows[0]):
            raise DatasetError(f"{where} {len(rows[0])} number(s), as of graph 0, not {shown}.")
    return torch.stack(rows)


def _exact(numbers: Any) -> Tensor:
    """Numbers as a tensor on the host; of Python's floats torch alone would make float32."""
    found = torch.as_tensor(numbers).detach().cpu()
    if found.dtype == torch.float32 and not isinstance(numbers, Tensor):
        return torch.as_tensor(numbers, dtype=torch.float64)
    return found


def _class_number(where: str, label: Any, others: str) -> int:
    """The label of a graph as a whole number."""
    if _is_missing(label):
        raise DatasetError(f"{where} {NO_CLASS}")
    try:
        number = _exact(label).item()
        exact = -(2**63) <= number < 2**63 and int(number) == number
    except (RuntimeError, TypeError, ValueError):
        exact = False
    if not exact:
        raise DatasetError(
            f"{where} must be one class, a whole number or a word, not {_shown(label)}; numbers to "
            f"predict go with {others}."
        )
    return int(number)
