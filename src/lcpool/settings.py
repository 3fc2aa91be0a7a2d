"""Every setting of an experiment, declared once: name, type, default, help, scope.

The command line of ``train`` and ``bench``, the arguments of :func:`lcpool.train.train` and
:func:`lcpool.compare`, grids, JSON, "what differs from the default" and the table in
``docs/experiments.md`` follow from the declarations. A new setting is one line here, and the place
that makes use of it.

Torch is not imported: the command line shows its help at once.
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

NETWORK, POOLING, PROTOCOL = "The network", "The pooling", "The protocol"

BackboneName = Literal["hierarchical", "plain"]
ConvName = Literal["gcn", "graphconv"]
NormName = Literal["batch", "layer", "none"]
SplitName = Literal["shared", "fresh"]

BACKBONES: tuple[str, ...] = get_args(BackboneName)
# The paper's names of the poolings.
POOLS = (
    "nopool", "topkpool", "sagpool", "asapool", "diffpool", "mincutpool", "lcpool", "lcpool*",
)  # fmt: skip
LCPOOLS = ("lcpool", "lcpool*")

F = TypeVar("F", bound=Callable[..., Any])

# Where any number fits, whole numbers do too: float comes first.
WORDS = {bool: "true or false", float: "a number", int: "a whole number", str: "a text in quotes"}


@dataclass(frozen=True)
class Setting:
    """One setting.

    Attributes:
        name: what it is called in Python, in files, and with dashes on the command line.
        kinds: the types that a value may have; ``NoneType`` if it may be left open.
        default: its value where nothing is said.
        help: what it does, a sentence.
        scope: the group that it is shown in.
        choices: the values there are, if they are few.
        least: the smallest number allowed.
        above: a number must be finite and larger than this.
        plural: another name, for where several values can be given.
        example: a value to show where the default says nothing.
        unset: what None stands for, in words.
        read_by: whether a network with this pooling depends on it.
    """

    name: str
    kinds: tuple[type, ...]
    default: Any
    help: str
    scope: str
    choices: tuple[Any, ...] = ()
    least: float | None = None
    above: float | None = None
    plural: str = ""
    example: Any = None
    unset: str = ""
    read_by: Callable[[str], bool] = lambda pool: True

    def checked(self, value: Any, name: str = "") -> Any:
        """The value as plain Python, if it is one that this setting can have.

        Args:
            value: what was passed; numbers of numpy are numbers too.
            name: what the user called the setting, if not by its name.

        Raises:
            ValueError: if it is of another type, out of range, or not among the choices.
        """
        name = name or self.name
        if value is None and type(None) in self.kinds:
            return None
        if not self._fits(value):
            raise ValueError(self._wrong_type(value, name))
        if isinstance(value, Integral) and not isinstance(value, bool):
            value = int(value) if int in self.kinds else float(value)
        elif isinstance(value, Real) and not isinstance(value, bool):
            value = float(value)
        if self.choices and value not in self.choices:
            raise ValueError(self._no_choice(value))
        if self.least is not None and value < self.least:
            raise ValueError(f"'{name}' must be at least {self.least}, not {value}.")
        if self.above is not None and not self.above < value < math.inf:
            least = "positive" if self.above == 0 else f"more than {self.above}"
            raise ValueError(f"'{name}' must be {least}, not {value}.")
        return value

    def several(self, values: Any, name: str = "") -> tuple[Any, ...]:
        """The values of a grid, each checked; one value stands for a list of one."""
        name = name or self.name
        many = isinstance(values, Sequence) and not isinstance(values, str)
        found = tuple(values) if many else (values,)
        if not found:
            raise ValueError(f"'{name}' is an empty list.")
        return tuple(self.checked(value, name) for value in found)

    def parse(self, text: str) -> Any:
        """What was written on the command line: 1 is a whole number, 1.0 is not.

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
        if isinstance(value, bool):  # Python takes it for a number.
            return bool in self.kinds
        wide: dict[type, type] = {int: Integral, float: Real}
        return isinstance(value, tuple(wide.get(kind, kind) for kind in self.kinds))

    def _wrong_type(self, value: Any, name: str) -> str:
        right = next(words for kind, words in WORDS.items() if kind in self.kinds)
        example = json.dumps(self.default if self.example is None else self.example)
        named = " A class is named by where it is, 'module:Class'."
        return (
            f"'{name}' must be {right}, not {value!r}: write {name} = {example}, for example."
            f"{named if isinstance(value, type) else ''}"
        )

    def _no_choice(self, value: Any) -> str:
        if str in self.kinds:
            return f"unknown {self.name} '{value}': choose one of {', '.join(self.choices)}."
        *others, last = map(str, self.choices)
        return f"'{self.name}' must be {', '.join(others)} or {last}, not {value}."


def setting(default: Any, help: str, scope: str, **more: Any) -> Any:
    """A field of a group of settings; ``more`` is what else a :class:`Setting` has."""
    return field(default=default, metadata={"help": help, "scope": scope, **more})


@cache
def declared(group: type) -> Mapping[str, Setting]:
    """The settings of a group by their names; type and choices are those of the annotation."""
    hints = get_type_hints(group)
    found = {f.name: _declared(f.name, hints[f.name], f.default, f.metadata) for f in fields(group)}
    return MappingProxyType(found)


def _declared(name: str, hint: Any, default: Any, more: Mapping[str, Any]) -> Setting:
    choices = get_args(hint) if get_origin(hint) is Literal else ()
    kinds = (type(choices[0]),) if choices else get_args(hint) or (hint,)
    return Setting(name, kinds, default, choices=choices, **more)


class Group:
    """A frozen dataclass of settings; whatever makes one, its values are checked."""

    def __post_init__(self) -> None:
        group: Any = type(self)
        for name, known in declared(group).items():
            object.__setattr__(self, name, known.checked(getattr(self, name)))


@dataclass(frozen=True)
class NetworkSettings(Group):
    """What shapes a network, apart from the data; the defaults are the paper's reading."""

    backbone: BackboneName = setting(
        "hierarchical",
        "hierarchical adds the readouts of all convolutions, plain takes the last.",
        NETWORK,
        plural="backbones",
    )
    conv: ConvName = setting("gcn", "The convolution.", NETWORK, plural="convs")
    pool: str = setting(
        "lcpool",
        f"{', '.join(POOLS)} (or lcpool-star), or a class of your own as module:Class.",
        NETWORK,
        plural="pools",
    )
    hidden: int = setting(128, "Width of all hidden features.", NETWORK, least=1)
    norm: NormName = setting(
        "batch", "Norm after every hidden linear layer and every convolution.", NETWORK
    )
    poolings: int = setting(
        1, "How many times to pool, each followed by a convolution.", NETWORK, least=1
    )
    ratio: int | float = setting(
        0.5,
        "Share of the nodes that is kept, as 0.5, or their number, as 10; of dense poolings, the "
        "clusters as a share of the mean number of nodes.",
        POOLING,
        read_by=lambda pool: pool != "nopool",
    )
    score_channels: int | None = setting(
        None, "Width inside LCPool's score.", POOLING,
        least=1, example=64, unset="hidden", read_by=LCPOOLS.__contains__,
    )  # fmt: skip
    self_loops: bool = setting(
        True, "Keep the diagonal of LCPool's A'.", POOLING, read_by=LCPOOLS.__contains__
    )
    rescale: bool = setting(
        False, "Multiply LCPool's features by n·h in place of h, n the number of nodes.", POOLING,
        read_by=LCPOOLS.__contains__,
    )  # fmt: skip
    hops: Literal[1, 2, 3] = setting(
        3, "How far apart LCPool connects kept nodes.", POOLING, read_by=LCPOOLS.__contains__
    )


@dataclass(frozen=True)
class ProtocolSettings(Group):
    """How a network is trained."""

    lr: float = setting(5e-4, "Adam's learning rate.", PROTOCOL, above=0)
    batch_size: int = setting(32, "Graphs of a batch.", PROTOCOL, least=2)
    epochs: int = setting(500, "The most epochs.", PROTOCOL, least=1)
    patience: int = setting(
        50, "Epochs without a better one after which a rule has chosen.", PROTOCOL, least=1
    )
    split: SplitName = setting(
        "fresh",
        "fresh: a new split for each run, which tests of a difference need; shared: one for all "
        "runs, as the paper's.",
        PROTOCOL,
        plural="splits",
    )
    seed: int = setting(
        0, "The number that all random choices derive from.", PROTOCOL, least=0, plural="seeds"
    )


GROUPS = (NetworkSettings, ProtocolSettings)
SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {name: known for group in GROUPS for name, known in declared(group).items()}
)
# Not part of what is repeated, but declared like the rest.
RUNS = Setting(
    "runs", (int,), 10, "Runs, each with its own first parameters and order.", PROTOCOL, least=1
)
# These have columns of their own wherever settings are shown.
NAMED = ("backbone", "conv", "pool", "split")


def by_name(
    values: Mapping[str, Any], known: Mapping[str, Setting] = SETTINGS, plurals: bool = True
) -> dict[str, tuple[str, Any]]:
    """What was passed by declared names: a plural names the same setting.

    Args:
        values: what was passed.
        known: the settings that there are.
        plurals: whether plurals are names here.

    Returns:
        Of each setting the name that the user wrote, and the value.

    Raises:
        ValueError: for a name that is not known, or a setting that is there by two names.

    Example:
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
    """Settings of both groups, apart: those of the network, those of the protocol."""
    network, protocol = (
        {name: value for name, value in values.items() if name in declared(group)}
        for group in GROUPS
    )
    return network, protocol


def flat(network: NetworkSettings, protocol: ProtocolSettings) -> dict[str, Any]:
    """All settings of both, by their names, in the order of their declaration."""
    return {**asdict(network), **asdict(protocol)}


def config_text(network: NetworkSettings, protocol: ProtocolSettings) -> str:
    """All settings as canonical JSON: one object, sorted keys; equal settings, equal text."""
    return json.dumps(flat(network, protocol), sort_keys=True)


def read_config_text(text: str) -> dict[str, Any]:
    """The inverse of :func:`config_text`, in the order of declaration.

    Raises:
        ValueError: if it is not one object with all settings.
    """
    try:
        values = json.loads(text)
        return {name: values[name] for name in SETTINGS}
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not the settings of a run as JSON: {text}") from error


def unnamed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings but for those that have columns of their own."""
    return {name: value for name, value in settings.items() if name not in NAMED}


def changed(settings: Mapping[str, Any]) -> dict[str, str]:
    """Of some settings those that do not have their default, each in words.

    >>> changed({"hidden": 8, "ratio": 0.5})
    {'hidden': 'hidden=8'}
    """
    return {
        name: f"{name}={settings[name]}"
        for name, known in SETTINGS.items()
        if name in settings and settings[name] != known.default
    }


def labels(several: Sequence[Mapping[str, Any]]) -> list[str]:
    """In words, the settings of each in which they differ among each other and from the default.

    >>> labels([{"ratio": 0.25, "hidden": 8}, {"ratio": 0.5, "hidden": 8}])
    ['ratio=0.25', '']
    """
    differ = {name for name in SETTINGS if len({repr(s.get(name)) for s in several}) > 1}
    return [
        ", ".join(words for name, words in changed(settings).items() if name in differ)
        for settings in several
    ]


def scopes(known: Iterable[Setting]) -> dict[str, list[Setting]]:
    """Settings by scope, scopes in the order of the help."""
    found: dict[str, list[Setting]] = {scope: [] for scope in (NETWORK, POOLING, PROTOCOL)}
    for one in known:
        found[one.scope].append(one)
    return found


def takes_settings(function: F) -> F:
    """Show every setting in the signature and the docstring of a function with ``**settings``.

    A parameter named like a setting whose default is None shows that of the setting. In the
    docstring the line of ``settings`` becomes one for each setting that is no parameter by itself.
    """
    signature = inspect.signature(function)
    own = [p for name, p in signature.parameters.items() if name != "settings"]
    shown = [
        p.replace(default=SETTINGS[p.name].default)
        if p.name in SETTINGS and p.default is None
        else p
        for p in own
    ]
    others = [one for name, one in SETTINGS.items() if name not in signature.parameters]
    by_keyword = inspect.Parameter.KEYWORD_ONLY
    added = [inspect.Parameter(one.name, by_keyword, default=one.default) for one in others]
    first = [p for p in shown if p.kind is not by_keyword]
    last = [p for p in shown if p.kind is by_keyword]
    function.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*first, *added, *last]
    )
    if function.__doc__:  # python -OO has none
        function.__doc__ = _with_settings(function.__doc__, others)
    return function


def _with_settings(text: str, others: Iterable[Setting]) -> str:
    lines = []
    for line in text.splitlines():
        name, colon, _ = line.strip().partition(":")
        if name != "settings" or not colon:
            lines.append(line)
            continue
        indent = line[: len(line) - len(line.lstrip())]
        for one in others:
            choices = f" One of {', '.join(map(str, one.choices))}." if one.choices else ""
            lines += textwrap.wrap(
                f"{one.name}: {one.help}{choices} Default: {one.unset or repr(one.default)}.",
                width=100, initial_indent=indent, subsequent_indent=f"{indent}    ",
            )  # fmt: skip
    return "\n".join(lines)
