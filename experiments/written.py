"""Results that a command writes into a page, between two marks."""

from __future__ import annotations

from pathlib import Path


def write_block(page: Path, command: str, text: str) -> None:
    """Print the result of a command, and put it into the block of that command in a page."""
    before, _, after = _parts(page, command)
    page.write_text(f"{before}\n{text}\n{after}", "utf-8")
    print(text)


def block(page: Path, command: str) -> str:
    """What the block of a command has now."""
    return _parts(page, command)[1].removeprefix("\n").removesuffix("\n")


def _parts(page: Path, command: str) -> tuple[str, str, str]:
    """A page until the first mark of a command, from there to the second, and the rest."""
    begin, end = f"<!-- begin: {command} -->", f"<!-- end: {command} -->"
    before, rest = page.read_text("utf-8").split(begin)
    within, after = rest.split(end)
    return before + begin, within, end + after
