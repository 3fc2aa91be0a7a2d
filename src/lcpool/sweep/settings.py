"""Settings of a grid: whether they are of the right type, and what tells cells apart by them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from numbers import Integral, Real
from typing import Any, get_args, get_origin

from lcpool.models import Architecture
from lcpool.train import Protocol

KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text in quotes"}
# These have columns of their own wherever settings are shown.
NAMED = ("backbone", "conv", "pool", "options", "split")


def checked(name: str, value: Any, kind: Any, example: Any) -> Any:
    """What a user wrote for a setting; one value stands for a list of one.

    Args:
        name: of the setting.
        value: what was written.
        kind: the type it must have; a tuple's for a list.
        example: something to write.
    """
    several = get_origin(kind) is tuple
    one = get_args(kind)[0] if several else kind
    kinds = get_args(one) or (one,)
    values = _as_tuple(value) if several else (value,)
    if not values:
        raise ValueError(f"'{name}' of a grid is empty.")
    for item in values:
        if not _fits(item, kinds):
            right = next(words for known, words in KINDS.items() if known in kinds)
            shown = json.dumps(example[:2] if several else example)
            named = " A class is named by where it is, 'module:Class'."
            raise ValueError(
                f"'{name}' must be {right}{' or a list of such' if several else ''}, "
                f"not {item!r}: write {name} = {shown}, for example."
                f"{named if isinstance(item, type) else ''}"
            )
    return values if several else value


def _fits(value: Any, kinds: tuple[Any, ...]) -> bool:
    if isinstance(value, bool):  # Python takes it for a number.
        return bool in kinds
    wide = {int: Integral, float: Real}
    return isinstance(value, tuple(wide.get(kind, kind) for kind in kinds))


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else (value,)


def settings_of(architecture: Architecture, protocol: Protocol) -> dict[str, Any]:
    """Network and protocol side by side, by the names they have in a grid; names and split apart.

    >>> settings_of(Architecture(), Protocol())["epochs"]
    500
    """
    values = {**asdict(architecture), **asdict(architecture.options), **asdict(protocol)}
    return {name.removeprefix("max_"): value for name, value in values.items() if name not in NAMED}


@cache
def _usual() -> dict[str, Any]:
    return settings_of(Architecture(), Protocol())


def unusual(settings: Mapping[str, Any]) -> dict[str, str]:
    """Of some settings those that have not their default, each in words."""
    usual = _usual()
    return {name: f"{name}={value}" for name, value in settings.items() if value != usual.get(name)}


def telling(several: Sequence[Mapping[str, Any]]) -> list[str]:
    """In words, the settings of each in which they differ among each other and from the default.

    >>> telling([{"ratio": 0.25, "hidden": 8}, {"ratio": 0.5, "hidden": 8}])
    ['ratio=0.25', '']
    """
    names = dict.fromkeys(name for settings in several for name in settings)
    differ = {name for name in names if len({repr(s.get(name)) for s in several}) > 1}
    return [
        ", ".join(words for name, words in unusual(settings).items() if name in differ)
        for settings in several
    ]
