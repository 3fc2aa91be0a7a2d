"""Command line options, made from the declarations of settings."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from lcpool.settings import ALL_POOLS, POOLS, RUNS, SETTINGS, Setting, scopes

# In the order of the help panels.
OPTIONS = [one for scope in scopes([RUNS, *SETTINGS.values()]).values() for one in scope]
# Stand for all choices, and for the first two, which are the paper's, where several can be given.
ALL, BOTH = "all", "both"

Command = Callable[..., Any]
# Of an option that is not a setting of a run: it says what the data are.
TASK = {
    "help": "What the targets are; whole numbers are classes, unless they are called values.",
    "show_default": "told from them",
}
# Of the commands that read a saved model.
Device = Annotated[
    str | None, typer.Option(help="cpu, cuda or cuda:N.", show_default="a GPU if there is one")
]
Root = Annotated[Path | None, typer.Option(help="Folder of datasets.")]
Trust = Annotated[
    bool, typer.Option("--trust", help="Import the modules of its own pooling and convolution.")
]


def setting_options(several: bool = False) -> Callable[[Command], Command]:
    """Give a command with ``**settings`` an option per setting, before its other options.

    With ``several`` an option takes several values, and has its plural as a second name.
    """

    def add(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        own = [p for name, p in signature.parameters.items() if name != "settings"]
        first = [p for p in own if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
        last = [p for p in own if p.kind is inspect.Parameter.KEYWORD_ONLY]
        parameters = [*first, *(_parameter(one, several) for one in OPTIONS), *last]
        command.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
        )
        command.__annotations__ = {p.name: p.annotation for p in parameters}
        return command

    return add


def _parameter(one: Setting, several: bool) -> inspect.Parameter:
    many, flag, name = several and one is not RUNS, bool in one.kinds, one.name.replace("_", "-")
    names = [f"--{name}/--no-{name}" if flag else f"--{name}"]
    if many and one.plural:
        names.append(f"--{one.plural}")
    default: Any = one.default if flag or one.default is None else str(one.default)
    shown: bool | str = one.unset or True
    if many and flag:
        shown = name if default else f"no-{name}"
    if one.name == "pool":
        names.append("-p")
        if many:
            default, shown = ",".join(POOLS), "all of the paper's"
    kind: Any = bool if flag else str
    option = typer.Option(
        *names, help=one.help, metavar="" if flag else _metavar(one), show_default=shown,
        rich_help_panel=one.scope,
    )  # fmt: skip
    if many:
        kind, default = list[kind], [] if default is None else [default]
    elif default is None:
        kind |= None
    keyword, annotation = inspect.Parameter.KEYWORD_ONLY, Annotated[kind, option]
    return inspect.Parameter(one.name, keyword, default=default, annotation=annotation)


def _metavar(one: Setting) -> str:
    if one.choices:
        return "|".join(map(str, one.choices))
    words = {int: "INTEGER", float: "NUMBER", str: "NAME"}
    return next(word for kind, word in reversed(words.items()) if kind in one.kinds)


def given(context: typer.Context, values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings given on the command line; a list, where the option takes several.

    Their types are right, their ranges not checked yet.
    """
    return {
        one.name: _read(one, values[one.name])
        for one in OPTIONS
        if (source := context.get_parameter_source(one.name)) and source.name == "COMMANDLINE"
    }


def _read(one: Setting, value: Any) -> Any:
    if not isinstance(value, list):
        return one.parse(value) if isinstance(value, str) else value
    found: list[Any] = []
    for part in value:
        if not isinstance(part, str):
            found.append(part)
        elif part in (ALL, BOTH) and (choices := ALL_POOLS if one.name == "pool" else one.choices):
            found += choices if part == ALL or one.name == "pool" else choices[:2]
        else:
            found += [one.parse(item) for item in part.split(",") if item]
    return found


def check_file(option: str, path: Path) -> None:
    """Refuse a file that cannot be written before the work, not after."""
    if path.is_dir():
        raise ValueError(f"{option} {path} is a folder; name a file.")
    path.absolute().parent.mkdir(parents=True, exist_ok=True)
    if not os.access(path.absolute().parent, os.W_OK):
        raise ValueError(f"{option} {path}: its folder cannot be written to.")
