"""Which values the arguments of layers may have."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, NamedTuple

from torch import nn


class Rule(NamedTuple):
    """What an argument must be, in words, and how to see it: first its type, then its value."""

    words: str
    fits: Callable[[Any], bool]
    allows: Callable[[Any], bool] = lambda value: True


def check_arguments(**given: Any) -> None:
    """Raise a ``TypeError`` or ``ValueError`` that names an argument a layer cannot use.

    >>> check_arguments(in_channels=8, dropout=2)
    Traceback (most recent call last):
    ValueError: 'dropout' must be a number from 0 to 1, not 2.
    """
    for name, value in given.items():
        rule = RULES[name]
        if value is None and name in OPTIONAL:
            continue
        if not rule.fits(value):
            raise TypeError(f"'{name}' must be {rule.words}, not {value!r}.")
        if not rule.allows(value):
            raise ValueError(f"'{name}' must be {rule.words}, not {value!r}.")


def arguments_repr(layer: nn.Module) -> str:
    """The repr of a layer: arguments without a default, the ratio, and what is not the default."""
    known, shown = {**vars(layer), **layer._modules}, []
    for name, argument in inspect.signature(type(layer)).parameters.items():
        value = known.get(name)
        if argument.default is argument.empty and name in known:
            shown.append(str(value))
        elif value is not None and (name == "ratio" or str(value) != str(argument.default)):
            shown.append(f"{name}={value}")
    return f"{type(layer).__name__}({', '.join(shown)})"


def _real(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


COUNT = Rule(
    "an int of at least 1", lambda v: isinstance(v, Integral) and _real(v), lambda v: v >= 1
)
NUMBER = Rule("a finite number", _real, math.isfinite)
FLAG = Rule("True or False", lambda v: isinstance(v, bool))
LAYER = Rule(
    "a layer such as GCNConv(8, 8), not its class, or a function",
    lambda v: callable(v) and not isinstance(v, type),
)
CLASS = Rule(
    "a class such as GCNConv, not a layer made from it",
    lambda v: callable(v) and not isinstance(v, nn.Module),
)
OPTIONAL = ("hidden_channels", "min_score", "edge_fill", "cluster", "conv", "nonlinearity")
RULES = {
    **dict.fromkeys(("in_channels", "hidden_channels", "num_clusters", "max_edges", "k"), COUNT),
    **dict.fromkeys(("multiplier", "min_score", "negative_slope"), NUMBER),
    **dict.fromkeys(("rescale", "self_loops", "add_self_loops", "normalize", "verify"), FLAG),
    **dict.fromkeys(("score", "assign", "cluster", "conv"), LAYER),
    "GNN": CLASS,
    "temp": Rule("a number above 0", _real, lambda v: 0 < v < math.inf),
    "dropout": Rule("a number from 0 to 1", _real, lambda v: 0 <= v <= 1),
    "edge_fill": Rule("a number", _real),
    "edge_reduce": Rule(
        "'sum', 'mean' or 'max'", lambda v: isinstance(v, str), ("sum", "mean", "max").__contains__
    ),
    "nonlinearity": Rule(
        "a name such as 'tanh', or a function", lambda v: isinstance(v, str) or callable(v)
    ),
}
