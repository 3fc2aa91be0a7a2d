"""The facts in a message: its numbers, and its lines by the names in them. Its words may change."""

import re


def numbers(text: str) -> list[float]:
    """The numbers in a text, without those that are part of a name."""
    found = re.findall(r"(?<![\w.-])\d+(?:[.,]\d+)*(?!\w)", text)
    return [float(number.replace(",", "")) for number in found]


def naming(text: str, *names: str) -> list[str]:
    """The lines of a text that contain all of these names."""
    return [line for line in text.splitlines() if all(name in line for name in names)]
