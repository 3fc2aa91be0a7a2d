"""The site loads nothing from elsewhere: a page that does is an error of the build."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

# Where a browser fetches something by itself. ``<a href>`` is followed by the reader alone.
LOADS = {"src", "srcset", "poster", "data"}
URL = re.compile(r"(?:url\(\s*|@import\s+)[\"']?(?:https?:)?//[^\"')\s]+")


class Loaded(HTMLParser):
    """What a page loads from other hosts."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = LOADS | {"href"} if tag in ("link", "image", "use") else LOADS
        self.found += [
            f"<{tag} {name}={value}>"
            for name, value in attrs
            if name in names and value and value.startswith(("http:", "https:", "//"))
        ]


def loaded(text: str) -> list[str]:
    """The tags of a page that load something from another host."""
    page = Loaded()
    page.feed(text)
    return page.found


def check(app: Sphinx, exception: Exception | None) -> None:
    """Raise an error that names the pages, and what they load."""
    if exception is not None or app.builder.format != "html":
        return
    root = Path(app.outdir)
    wrong = []
    for file in sorted(root.rglob("*.html")):
        wrong += [f"{file.relative_to(root)}: {tag}" for tag in loaded(file.read_text("utf-8"))]
    for file in sorted(root.rglob("*.css")):
        urls = URL.findall(file.read_text("utf-8"))
        wrong += [f"{file.relative_to(root)}: {url}" for url in urls]
    if wrong:
        raise ExtensionError("The site must load nothing from elsewhere:\n" + "\n".join(wrong))


def setup(app: Sphinx) -> dict[str, Any]:
    """Check every build when it is finished."""
    app.connect("build-finished", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
