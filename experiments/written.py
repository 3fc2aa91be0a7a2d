"""Results that a command writes into a page, between two marks."""

from __future__ import annotations

from pathlib import Path


def write_block(page: Path, command: str, text: str) -> None:
    """Print the result of a command, and put it into the block of that command in a page."""
    begin, end = f"<!-- begin: {command} -->", f"<!-- end: {command} -->"
    before, rest = page.read_text("utf-8").split(begin)
    page.write_text(f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}", "utf-8")
    print(text)
