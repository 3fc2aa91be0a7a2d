"""What the HTML pages share: style, tooltips, and a policy that lets no other script run."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup


def text(room: str, *names: str) -> str:
    """The files of a room's ``template`` folder, or those of this package, one after the other.

    ``"+base.css"`` is the one of this package.
    """
    own = resources.files(room).joinpath("template")
    shared = resources.files("lcpool.pages")
    parts = (
        shared.joinpath(name[1:]) if name.startswith("+") else own.joinpath(name) for name in names
    )
    return "".join(part.read_text("utf-8") for part in parts)


def environment(templates: dict[str, str]) -> Environment:
    """Templates that escape all text, in which an unknown name is an error."""
    return Environment(
        loader=DictLoader(templates), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip


def inline(style: str, script: str) -> dict[str, Any]:
    """``style`` and ``script`` for a template, and the ``policy`` that allows these alone."""
    return {
        "style": Markup(style),
        "script": Markup(script),
        "policy": f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}",
    }


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
