"""Links inside the site lead somewhere: one that does not is an error of the build."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError


class Anchors(HTMLParser):
    """What a page links to, and the names of its places."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name in ("href", "src"):
                self.links.add(value)
            if value and name == "id":
                self.places.add(value)


def broken(root: Path) -> list[str]:
    """The links of all pages in a folder to files or places that are not there."""
    files = sorted(root.resolve().rglob("*.html"))
    pages = {file: Anchors(file.read_text("utf-8")) for file in files}
    wrong = []
    for file, page in pages.items():
        for link in sorted(page.links):
            to = urlsplit(link)
            if to.scheme or to.netloc:
                continue
            target = (file.parent / unquote(to.path)).resolve() if to.path else file
            place = unquote(to.fragment)
            if not target.is_file() or (
                place and target in pages and place not in pages[target].places
            ):
                wrong.append(f"{file.relative_to(root.resolve())}: {link}")
    return wrong


def check(app: Sphinx, exception: Exception | None) -> None:
    """Raise an error that names the pages, and the links."""
    if exception is None and app.builder.format == "html" and (wrong := broken(Path(app.outdir))):
        raise ExtensionError("These links lead nowhere:\n" + "\n".join(wrong))


def setup(app: Sphinx) -> dict[str, Any]:
    """Check every build when it is finished."""
    app.connect("build-finished", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
