"""Every setting of an experiment, declared once: name, type, default, help, scope.

Options of the command line, arguments of :func:`lcpool.train.train` and :func:`lcpool.compare`,
grids, JSON and the table in ``docs/experiments.md`` follow from these declarations. To add a
setting, add a field here and read it where it matters.

This module does not import torch, so that ``lcpool --help`` is fast.
"""

from __future__ import annotations

import difflib
import inspect
import json
import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

SCOPES = NETWORK, POOLING, PROTOCOL = "The network", "The pooling", "The protocol"

BackboneName = Literal["hierarchical", "plain"]
ConvName = Literal["gcn", "graphconv"]
NormName = Literal["batch", "layer", "none"]
SplitName = Literal["shared", "fresh"]

BACKBONES: tuple[str, ...] = get_args(BackboneName)
# The paper's poolings, by its names: what is compared by default.
POOLS = (
    "nopool", "topkpool", "sagpool", "asapool", "diffpool", "mincutpool", "lcpool", "lcpool*",
)  # fmt: skip
# Those that they are often compared with, and two that choose by chance.
RIVALS = ("kmis", "edgepool", "graclus", "dmon", "random", "randomassign")
ALL_POOLS = (*POOLS, *RIVALS)
LCPOOLS = ("lcpool", "lcpool*")
# How many nodes they leave follows from the graph alone.
WITHOUT_RATIO = ("nopool", "kmis", "edgepool", "graclus")

F = TypeVar("F", bound=Callable[..., Any])

# float before int: where any number is allowed, whole numbers are too.
TYPE_WORDS = {
    bool: "true or false",
    float: "a number",
    int: "a whole number",
    str: "a text in quotes",
}


@dataclass(frozen=True)
class Setting:
    """One setting.

    Attributes:
        name: its name in Python and in files; with dashes, on the command line.
        kinds: the allowed types; with ``NoneType`` it may be left open.
        default: its default value.
        help: what it does, in one sentence.
        scope: the group it is shown in.
        choices: all allowed values, if they are few.
        least: the smallest allowed number.
        most: the largest allowed number.
        above: a number must be finite and larger than this.
        plural: a second name, for grids.
        example: a value for error messages, where the default is None.
        unset: what None stands for.
        read_by: whether a network with the given pooling uses this setting.
    """

    name: str
    kinds: tuple[type, ...]
    default: Any
    help: str
    scope: str
    choices: tuple[Any, ...] = ()
    least: float | None = None
    most: float = math.inf
    above: float | None = None
    plural: str = ""
    example: Any = None
    unset: str = ""
    read_by: Callable[[str], bool] = lambda pool: True

    def checked(self, value: Any, name: str = "") -> Any:
        """The value, with numpy's numbers as Python's; an error if this setting cannot have it.

        ``name`` is the name that the user wrote, for messages.
        """
        name = name or self.name
        if value is None and type(None) in self.kinds:
            return None
        commas = isinstance(value, str) and "," in value and self.scope in SCOPES  # no path
        if commas or not self._fits(value):
            raise ValueError(self._wrong_type(value, name))
        if isinstance(value, Integral) and int in self.kinds:
            value = int(value)
        elif isinstance(value, Real) and not isinstance(value, bool):
            value = float(value)
        if self.choices and value not in self.choices:
            raise ValueError(self._no_choice(value))
        if self.least is not None and value < self.least:
            raise ValueError(f"'{name}' must be at least {self.least}, not {value}.")
        if self.least is not None and value > self.most:
            raise ValueError(f"'{name}' must be at most {self.most}, not {value}.")
        if self.above is not None and not self.above < value < math.inf:
            least = "positive" if self.above == 0 else f"more than {self.above}"
            raise ValueError(f"'{name}' must be {least}, not {value}.")
        return value

    def several(self, values: Any, name: str = "") -> tuple[Any, ...]:
        """The values of a grid, each checked; a single value is a list of one."""
        many = isinstance(values, Sequence) and not isinstance(values, str)
        found = tuple(values) if many else (values,)
        if not found:
            raise ValueError(f"'{name or self.name}' is an empty list.")
        return tuple(self.checked(value, name) for value in found)

    def parse(self, text: str) -> Any:
        """Read a value from the command line: 1 is a whole number, 1.0 is not.

        >>> SETTINGS["ratio"].parse("10"), SETTINGS["ratio"].parse("0.5")
        (10, 0.5)
        """
        if type(None) in self.kinds and text.lower() == "none":
            return None
        for kind in (int, float):
            if kind in self.kinds:
                try:
                    return kind(text)
                except ValueError:
                    continue
        return text

    def _fits(self, value: Any) -> bool:
        if isinstance(value, bool):  # In Python, True is a number.
            return bool in self.kinds
        wide: dict[type, type] = {int: Integral, float: Real}
        return isinstance(value, tuple(wide.get(kind, kind) for kind in self.kinds))

    def _wrong_type(self, value: Any, name: str) -> str:
        right = next(words for kind, words in TYPE_WORDS.items() if kind in self.kinds)
        example = json.dumps(self.default if self.example is None else self.example)
        hint = ""
        if isinstance(value, type):
            hint = " Pass a class as 'module:Class'."
        elif isinstance(value, list | tuple) or "," in str(value):
            hint = " Several values go with lcpool bench and lcpool.compare."
        return (
            f"'{name}' must be {right}, not {value!r}: write {name} = {example}, for example.{hint}"
        )

    def _no_choice(self, value: Any) -> str:
        if str in self.kinds:
            return f"unknown {self.name} '{value}': choose one of {', '.join(self.choices)}."
        *others, last = map(str, self.choices)
        return f"'{self.name}' must be {', '.join(others)} or {last}, not {value}."


def setting(default: Any, help: str, scope: str, **more: Any) -> Any:
    """A field of a :class:`SettingsGroup`; ``more`` are other attributes of :class:`Setting`."""
    return field(default=default, metadata={"help": help, "scope": scope, **more})


@cache
def declared(group: type) -> Mapping[str, Setting]:
    """The settings of a group by name; types and choices are those of the annotations."""
    found, hints = {}, get_type_hints(group)
    for one in fields(group):
        hint = hints[one.name]
        choices = get_args(hint) if get_origin(hint) is Literal else ()
        kinds = (type(choices[0]),) if choices else get_args(hint) or (hint,)
        found[one.name] = Setting(one.name, kinds, one.default, choices=choices, **one.metadata)
    return MappingProxyType(found)


class SettingsGroup:
    """A frozen dataclass of settings that checks its values."""

    def __post_init__(self) -> None:
        group: Any = type(self)
        for name, known in declared(group).items():
            object.__setattr__(self, name, known.checked(getattr(self, name)))


@dataclass(frozen=True)
class NetworkSettings(SettingsGroup):
    """What determines a network, apart from the data; the defaults follow the paper."""

    backbone: BackboneName = setting(
        "hierarchical",
        "hierarchical: classify by the sum of all convolutions' readouts; plain: by the last one.",
        NETWORK,
        plural="backbones",
    )
    conv: ConvName = setting("gcn", "The graph convolution.", NETWORK, plural="convs")
    pool: str = setting(
        "lcpool",
        f"{', '.join(ALL_POOLS)} (or lcpool-star), tgp:NAME, or your own class as module:Class.",
        NETWORK,
        plural="pools",
    )
    hidden: int = setting(128, "Width of all hidden features.", NETWORK, least=1)
    norm: NormName = setting(
        "batch", "Normalisation after every hidden linear layer and every convolution.", NETWORK
    )
    poolings: int = setting(
        1, "Number of pooling layers, each followed by a convolution.", NETWORK, least=1
    )
    ratio: int | float = setting(
        0.5,
        "Nodes to keep: a share, as 0.5, or a number, as 10. Dense poolings: the number of "
        "clusters, as a share of the mean number of nodes.",
        POOLING,
        read_by=lambda pool: pool not in WITHOUT_RATIO,
    )
    score_channels: int | None = setting(
        None, "Hidden width of LCPool's score.", POOLING,
        least=1, example=64, unset="hidden", read_by=LCPOOLS.__contains__,
    )  # fmt: skip
    self_loops: bool = setting(
        True, "Keep the diagonal of LCPool's A'.", POOLING, read_by=LCPOOLS.__contains__
    )
    rescale: bool = setting(
        False, "Multiply LCPool's features by n·h instead of h; n is the number of nodes.",
        POOLING, read_by=LCPOOLS.__contains__,
    )  # fmt: skip
    hops: Literal[1, 2, 3] = setting(
        3, "LCPool connects kept nodes at most this many hops apart.", POOLING,
        read_by=LCPOOLS.__contains__,
    )  # fmt: skip


@dataclass(frozen=True)
class ProtocolSettings(SettingsGroup):
    """How a network is trained."""

    lr: float = setting(5e-4, "Learning rate of Adam.", PROTOCOL, above=0)
    batch_size: int = setting(32, "Graphs per batch.", PROTOCOL, least=2)
    epochs: int = setting(500, "Maximum number of epochs.", PROTOCOL, least=1)
    patience: int = setting(
        50, "Stop after this many epochs without improvement.", PROTOCOL, least=1
    )
    split: SplitName = setting(
        "fresh",
        "fresh: a new split for each run, as significance tests need; shared: one split for all "
        "runs, as in the paper.",
        PROTOCOL,
        plural="splits",
    )
    seed: int = setting(
        0, "Seed of all random choices.", PROTOCOL, least=0, most=2**32 - 1, plural="seeds"
    )


GROUPS = (NetworkSettings, ProtocolSettings)
SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {name: known for group in GROUPS for name, known in declared(group).items()}
)
# Not part of a run's settings, but declared in the same way.
RUNS = Setting(
    "runs", (int,), 10, "Number of runs, each with its own initial parameters and batch order.",
    PROTOCOL, least=1,
)  # fmt: skip
# Wherever settings are shown, these have their own columns.
NAMED = ("backbone", "conv", "pool", "split")


def by_name(
    values: Mapping[str, Any], known: Mapping[str, Setting] = SETTINGS, plurals: bool = True
) -> dict[str, tuple[str, Any]]:
    """Settings by their declared names, each with the name that the user wrote.

    An unknown name, and a setting by two names, is an error.

    >>> by_name({"pools": ["lcpool"], "hidden": 8})
    {'pool': ('pools', ['lcpool']), 'hidden': ('hidden', 8)}
    """
    names = {one.name: one.name for one in known.values()}
    if plurals:
        names |= {one.plural: one.name for one in known.values() if one.plural}
    found: dict[str, tuple[str, Any]] = {}
    for written, value in values.items():
        if written not in names:
            near = difflib.get_close_matches(written, [*names, RUNS.name], 1) or [", ".join(known)]
            raise ValueError(f"unknown setting '{written}': did you mean {near[0]}?")
        name = names[written]
        if name in found:
            raise ValueError(f"'{found[name][0]}' and '{written}' are one setting: leave one out.")
        found[name] = (written, value)
    return found


def in_groups(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split settings into those of the network and those of the protocol."""
    network, protocol = (
        {name: value for name, value in values.items() if name in declared(group)}
        for group in GROUPS
    )
    return network, protocol


def flat(network: NetworkSettings, protocol: ProtocolSettings) -> dict[str, Any]:
    """All settings by name, in the order of their declaration."""
    return {**asdict(network), **asdict(protocol)}


def config_text(network: NetworkSettings, protocol: ProtocolSettings) -> str:
    """All settings as canonical JSON with sorted keys: equal settings have equal text."""
    return json.dumps(flat(network, protocol), sort_keys=True)


def read_config_text(text: str) -> dict[str, Any]:
    """The inverse of :func:`config_text`, in the order of declaration."""
    try:
        values = json.loads(text)
        return {name: values[name] for name in SETTINGS}
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not the settings of a run as JSON: {text}") from error


def unnamed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings without those that have their own columns."""
    return {name: value for name, value in settings.items() if name not in NAMED}


def changed(settings: Mapping[str, Any]) -> dict[str, str]:
    """The settings that differ from their default, each as ``name=value``.

    >>> changed({"hidden": 8, "ratio": 0.5})
    {'hidden': 'hidden=8'}
    """
    return {
        name: f"{name}={settings[name]}"
        for name, known in SETTINGS.items()
        if name in settings and settings[name] != known.default
    }


def labels(several: Sequence[Mapping[str, Any]]) -> list[str]:
    """For each, the settings that differ from the default and are not the same in all.

    >>> labels([{"ratio": 0.25, "hidden": 8}, {"ratio": 0.5, "hidden": 8}])
    ['ratio=0.25', '']
    """
    differ = {name for name in SETTINGS if len({repr(s.get(name)) for s in several}) > 1}
    return [
        ", ".join(words for name, words in changed(settings).items() if name in differ)
        for settings in several
    ]


def scopes(known: Iterable[Setting]) -> dict[str, list[Setting]]:
    """Settings by scope, in the order of the help."""
    found: dict[str, list[Setting]] = {scope: [] for scope in SCOPES}
    for one in known:
        found[one.scope].append(one)
    return found


def takes_settings(function: F) -> F:
    """Show every setting in the signature and the docstring of a function with ``**settings``.

    In the signature, a parameter with the name of a setting and the default None gets the default
    of the setting. In the docstring, the line of ``settings`` is replaced by one line per setting.
    """
    signature, keyword = inspect.signature(function), inspect.Parameter.KEYWORD_ONLY
    own = [
        p.replace(default=SETTINGS[name].default) if name in SETTINGS and p.default is None else p
        for name, p in signature.parameters.items()
        if name != "settings"
    ]
    others = [one for name, one in SETTINGS.items() if name not in signature.parameters]
    added = [inspect.Parameter(one.name, keyword, default=one.default) for one in others]
    function.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=sorted([*added, *own], key=lambda p: p.kind)
    )
    lines: list[str] = []
    for line in (function.__doc__ or "").splitlines():  # None with python -OO
        indent, name, _ = line.partition("settings:")
        lines += _described(others, indent) if name and not indent.strip() else [line]
    function.__doc__ = "\n".join(lines)
    return function


def _described(settings: Iterable[Setting], indent: str) -> Iterable[str]:
    for one in settings:
        choices = f" One of {', '.join(map(str, one.choices))}." if one.choices else ""
        yield from textwrap.wrap(
            f"{one.name}: {one.help}{choices} Default: {one.unset or repr(one.default)}.",
            width=100, initial_indent=indent, subsequent_indent=f"{indent}    ",
        )  # fmt: skip
