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
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from numbers import Integral, Real
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

SCOPES = NETWORK, POOLING, PROTOCOL = "The network", "The pooling", "The protocol"

# What selects the epoch, and is reported; lcpool.train.metrics computes them.
MetricName = Literal[
    "auto", "accuracy", "balanced_accuracy", "macro_f1", "roc_auc", "average_precision", "brier",
    "mae", "rmse", "r2",
]  # fmt: skip
# What is predicted of a graph: one of several classes, several labels of 0 or 1, or numbers.
TaskName = Literal["classes", "labels", "values"]
BACKBONES = ("hierarchical", "plain")
PAPER_CONVS = ("gcn", "graphconv")
# The paper's poolings, by its names: what is compared by default.
POOLS = (
    "nopool", "topkpool", "sagpool", "asapool", "diffpool", "mincutpool", "lcpool", "lcpool*",
)  # fmt: skip
# Ours, those that they are often compared with, and two that choose by chance.
FURTHER_POOLS = ("cellpool", "kmis", "edgepool", "graclus", "dmon", "random", "randomassign")
ALL_POOLS = (*POOLS, *FURTHER_POOLS)
LCPOOLS = ("lcpool", "lcpool*")
# These take any score.
SCORED = (*LCPOOLS, "cellpool")
# How many nodes they leave follows from the graph alone.
WITHOUT_RATIO = ("nopool", "kmis", "edgepool", "graclus")
# All values of `split`. Predefined splits have their number and a digest once the data is known.
SPLIT_NAMES = (
    r"(?P<kind>shared|fresh|stratified|predefined)"
    r"((?<=predefined)-(?P<given>[1-9]\d*)-[0-9a-f]{8})?"
    r"|(?P<repeated>repeated-)?(?P<folds>[2-9]|[1-9]\d{1,3})-fold"
)

F = TypeVar("F", bound=Callable[..., Any])

# float before int: where any number is allowed, whole numbers are too.
WORDS = {bool: "true or false", float: "a number", int: "a whole number", str: "a text in quotes"}


@dataclass(frozen=True)
class Setting:
    """One setting."""

    name: str  # in Python and in files; with dashes, on the command line
    kinds: tuple[type, ...]  # the allowed types; with ``NoneType`` it may be left open
    default: Any
    help: str  # what it does, in one sentence
    scope: str  # the group it is shown in
    choices: tuple[Any, ...] = ()  # all allowed values, if they are few
    pattern: str = ""  # a regular expression of further values
    own: bool = False  # beside the choices, a class of the user's own as module:Class
    least: float | None = None
    most: float = math.inf
    above: float | None = None  # a number must be finite and larger than this
    plural: str = ""  # a second name, for grids
    example: Any = None  # for error messages, where the default is None
    unset: str = ""  # what None stands for
    read_by: Callable[[str], bool] = lambda pool: True  # whether this pooling makes use of it
    # Declared after stores of runs were first written, whose texts do not have it.
    later: bool = False

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
        own = self.own and ":" in value
        further = own or bool(self.pattern and re.fullmatch(self.pattern, value))
        if self.choices and value not in self.choices and not further:
            listed = ", ".join(map(str, self.choices))
            more = ", or pass a class of your own as 'module:Class'" if self.own else ""
            raise ValueError(f"'{name}' cannot be {value!r}: choose one of {listed}{more}.")
        if self.least is not None and not value >= self.least:  # nor NaN
            raise ValueError(f"'{name}' must be at least {self.least}, not {value}.")
        if self.least is not None and value > self.most:
            raise ValueError(f"'{name}' must be at most {self.most}, not {value}.")
        if self.above is not None and not self.above < value < math.inf:
            raise ValueError(f"'{name}' must be more than {self.above}, and finite; not {value}.")
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
                with suppress(ValueError):
                    return kind(text)
        return text

    def _fits(self, value: Any) -> bool:
        if isinstance(value, bool):  # In Python, True is a number.
            return bool in self.kinds
        wide: dict[type, type] = {int: Integral, float: Real}
        return isinstance(value, tuple(wide.get(kind, kind) for kind in self.kinds))

    def _wrong_type(self, value: Any, name: str) -> str:
        right = next(words for kind, words in WORDS.items() if kind in self.kinds)
        example = json.dumps(self.default if self.example is None else self.example)
        problem = f"'{name}' must be {right}, not {value!r}: write {name} = {example}, for example."
        if isinstance(value, type):
            problem += " Pass a class as 'module:Class'."
        elif isinstance(value, list | tuple) or "," in str(value):
            problem += " Several values go with lcpool bench and lcpool.compare."
        return problem


def setting(default: Any, help: str, scope: str, **more: Any) -> Any:
    """A field of a :class:`SettingsGroup`; ``more`` are other attributes of :class:`Setting`."""
    return field(default=default, metadata={"help": help, "scope": scope, **more})


@cache
def declared(group: type) -> dict[str, Setting]:
    """The settings of a group by name; types and choices are those of the annotations."""
    found, hints = {}, get_type_hints(group)
    for one in fields(group):
        hint = hints[one.name]
        literal = get_args(hint) if get_origin(hint) is Literal else ()
        kinds = (type(literal[0]),) if literal else get_args(hint) or (hint,)
        more = {"choices": literal, **one.metadata}
        found[one.name] = Setting(one.name, kinds, one.default, **more)
    return found


class SettingsGroup:
    """A frozen dataclass of settings that checks its values."""

    def __post_init__(self) -> None:
        group: Any = type(self)
        for name, known in declared(group).items():
            object.__setattr__(self, name, known.checked(getattr(self, name)))


@dataclass(frozen=True)
class NetworkSettings(SettingsGroup):
    """What determines a network, apart from the data; the defaults follow the paper."""

    backbone: str = setting(
        "hierarchical",
        "hierarchical: classify by the sum of all convolutions' readouts; plain: by the last one; "
        "or your own subclass of lcpool.models.Backbone as module:Class.",
        NETWORK,
        plural="backbones",
        choices=BACKBONES,
        own=True,
    )
    conv: str = setting(
        "gcn",
        "The graph convolution (gine reads edge attributes), or your own class as module:Class.",
        NETWORK,
        plural="convs",
        choices=(*PAPER_CONVS, "gin", "gine"),
        own=True,
    )
    pool: str = setting(
        "lcpool",
        f"{', '.join(ALL_POOLS)}, tgp:NAME, or your own class as module:Class. lcpool-star is "
        f"lcpool*.",
        NETWORK,
        plural="pools",
    )
    hidden: int = setting(128, "Width of all hidden features.", NETWORK, least=1)
    norm: Literal["batch", "layer", "none"] = setting(
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
    node_score: Literal["lcsmp", "topk", "sag", "asap", "random"] = setting(
        "lcsmp", "The score of LCPool and CellPool: LCPool's own, another pooling's, or chance.",
        POOLING, read_by=SCORED.__contains__, later=True,
    )  # fmt: skip
    score_channels: int | None = setting(
        None, "Hidden width of LCPool's score.", POOLING,
        least=1, example=64, unset="hidden", read_by=SCORED.__contains__,
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
    depth: int = setting(
        1, "Number of convolutions before each pooling, and after the last one.", NETWORK,
        least=1, later=True,
    )  # fmt: skip
    readout: str = setting(
        "mean+max",
        "One row per graph from its nodes: mean, max, sum, or an aggregation of PyG such as std, "
        "median, softmax or set2set; several are joined by +.",
        NETWORK,
        later=True,
    )
    dropout: float = setting(
        0.0,
        "Share of features that training sets to zero, after every hidden linear layer and every "
        "convolution.",
        NETWORK,
        least=0,
        most=0.99,
        later=True,
    )


@dataclass(frozen=True)
class ProtocolSettings(SettingsGroup):
    """How a network is trained."""

    lr: float = setting(5e-4, "Learning rate of Adam.", PROTOCOL, above=0)
    batch_size: int = setting(32, "Graphs per batch.", PROTOCOL, least=2)
    epochs: int = setting(500, "Maximum number of epochs.", PROTOCOL, least=1)
    patience: int = setting(
        50, "Stop after this many epochs without improvement.", PROTOCOL, least=1
    )
    metric: MetricName = setting(
        "auto",
        "What selects the epoch on the validation graphs, and is reported; auto: accuracy for "
        "classes, roc_auc for labels, rmse for values.",
        PROTOCOL,
        later=True,
    )
    split: str = setting(
        "fresh",
        "fresh: a new random split for each run; shared: one for all runs, as in the paper; "
        "stratified: as fresh, with the proportions of the classes; K-fold: run r tests on fold r, "
        "repeated: dealt anew every K runs; predefined: the splits that came with the data.",
        PROTOCOL,
        plural="splits",
        choices=("shared", "fresh", "stratified", "10-fold", "repeated-10-fold", "predefined"),
        pattern=SPLIT_NAMES,
    )
    seed: int = setting(
        0, "Seed of all random choices.", PROTOCOL, least=0, most=2**32 - 1, plural="seeds"
    )
    weight_decay: float = setting(
        0.0,
        "Adam adds this multiple of each parameter to its gradient.",
        PROTOCOL,
        least=0,
        most=1,
        later=True,
    )
    selection_loss: Literal["task", "total"] = setting(
        "task",
        "The validation loss that selects an epoch: of the task alone, mean over graphs; total: as "
        "in training, with the auxiliary losses of the pooling, mean over batches.",
        PROTOCOL,
        later=True,
    )


GROUPS = (NetworkSettings, ProtocolSettings)
SETTINGS = {name: known for group in GROUPS for name, known in declared(group).items()}
# Not part of a run's settings, but declared in the same way.
RUNS = Setting(
    "runs", (int,), 10, "Number of runs, each with its own initial parameters and batch order.",
    PROTOCOL, least=1,
)  # fmt: skip
VALIDATION_FRACTION = Setting(
    "validation_fraction", (float,), 0.1,
    "Share of the graphs that choose the epoch and do not train; of classes, in proportion.",
    PROTOCOL, least=0.01, most=0.5,
)  # fmt: skip
# Wherever settings are shown, these have their own columns.
NAMED = ("backbone", "conv", "pool", "split")


def by_name(
    values: Mapping[str, Any],
    known: Mapping[str, Setting] = SETTINGS,
    plurals: bool = True,
    others: Sequence[str] = (RUNS.name,),
) -> dict[str, tuple[str, Any]]:
    """Settings by their declared names, each with the name that the user wrote.

    An unknown name, and a setting by two names, is an error. ``others`` are further names that may
    have been meant.

    >>> by_name({"pools": ["lcpool"], "hidden": 8})
    {'pool': ('pools', ['lcpool']), 'hidden': ('hidden', 8)}
    """
    names = {one.name: one.name for one in known.values()}
    if plurals:
        names |= {one.plural: one.name for one in known.values() if one.plural}
    found: dict[str, tuple[str, Any]] = {}
    for written, value in values.items():
        if written not in names:
            near = difflib.get_close_matches(written, [*names, *others], 1)
            hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(known)}."
            raise ValueError(f"unknown setting '{written}': {hint}")
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
    """All settings as canonical JSON with sorted keys: equal settings have equal text.

    A setting that was declared later is left out where it has its default, so that runs of earlier
    versions have the same text.
    """
    values = flat(network, protocol)
    unsaid = [name for name, one in SETTINGS.items() if one.later and values[name] == one.default]
    return json.dumps({n: v for n, v in values.items() if n not in unsaid}, sort_keys=True)


def read_config_text(text: str) -> dict[str, Any]:
    """The inverse of :func:`config_text`, in the order of declaration."""
    try:
        values = json.loads(text)
        default = {name: one.default for name, one in SETTINGS.items() if one.later}
        return {name: {**default, **values}[name] for name in SETTINGS}
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


def scopes(known: Sequence[Setting]) -> dict[str, list[Setting]]:
    """Settings by scope, in the order of the help."""
    return {scope: [one for one in known if one.scope == scope] for scope in SCOPES}


def takes_settings(function: F, known: Mapping[str, Setting] = SETTINGS) -> F:
    """Show every setting in the signature and the docstring of a function with ``**settings``.

    In the signature, a parameter with the name of a setting and the default None gets the default
    of the setting. In the docstring, the line of ``settings`` is replaced by one line per setting.
    ``known`` are the settings that it takes.
    """
    signature, keyword = inspect.signature(function), inspect.Parameter.KEYWORD_ONLY
    own = [
        p.replace(default=SETTINGS[name].default) if name in SETTINGS and p.default is None else p
        for name, p in signature.parameters.items()
        if name != "settings"
    ]
    others = [one for name, one in known.items() if name not in signature.parameters]
    added = [inspect.Parameter(one.name, keyword, default=one.default) for one in others]
    function.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=sorted([*added, *own], key=lambda p: p.kind)
    )
    function.__doc__ = with_settings(function.__doc__, others)
    return function


def with_settings(docstring: str | None, known: Iterable[Setting]) -> str:
    """A docstring with one line per setting in place of the line ``settings: …``."""
    described = "\n".join(map(_described, known))
    text = docstring or ""  # None with python -OO
    return re.sub(r"^ +settings: .*$", lambda _: described, text, flags=re.MULTILINE)


def _described(one: Setting) -> str:
    choices = f" One of {', '.join(map(str, one.choices))}." if one.choices else ""
    text = f"{one.name}: {one.help}{choices} Default: {one.unset or repr(one.default)}."
    return textwrap.fill(text, 100, initial_indent=" " * 8, subsequent_indent=" " * 12)
