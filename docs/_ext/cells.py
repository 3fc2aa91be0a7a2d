"""Tables that can be read: figures stay on one line, sentences get room."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

SHORT, LONG = 20, 40  # letters


def mark(app: Sphinx, doctree: nodes.document) -> None:
    """Give cells the classes by which the style sheet sets their width."""
    for body in doctree.findall(nodes.tbody):
        for cell in body.findall(nodes.entry):
            lines = re.sub(r"</?sub>", "", cell.astext()).split("<br>")
            letters = max(map(len, lines))
            if letters <= SHORT:
                cell["classes"].append("short")
            elif letters > LONG:
                cell["classes"].append("long")


def setup(app: Sphinx) -> dict[str, Any]:
    """Mark the cells of every page when it has been read."""
    app.connect("doctree-read", mark)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
