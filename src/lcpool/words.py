"""Numbers and names in sentences, the same everywhere."""

from __future__ import annotations

import math
from collections.abc import Sequence


def count(n: int, noun: str) -> str:
    """A number of things.

    >>> count(1, "run"), count(3, "dataset")
    ('1 run', '3 datasets')
    """
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def signed(points: float, digits: int = 2) -> str:
    """A difference with its sign; what rounds to nothing has none.

    >>> signed(1.234), signed(-0.5), signed(-0.001)
    ('+1.23', '−0.50', '0.00')
    """
    text = f"{abs(points):.{digits}f}"
    if float(text) == 0:
        return text
    return ("+" if points > 0 else "−") + text


def listed(names: Sequence[str], joined: str = "and") -> str:
    """Names in a sentence.

    >>> listed(["a"]), listed(["a", "b", "c"]), listed(["a", "b"], "or"), listed([])
    ('a', 'a, b and c', 'a or b', '')
    """
    return f" {joined} ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def between(values: Sequence[float], digits: int) -> str:
    """From the lowest to the highest; one number if they are the same when rounded.

    >>> between([1.26, 0.5, 2.0], 1), between([0.001, 0.002], 2)
    ('0.5 to 2.0', '0.00')
    """
    low, high = (f"{end:.{digits}f}" for end in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def p_value(p: float, equals: str = "") -> str:
    """A p to the digits that mean something; ``equals`` stands before one that is given.

    >>> p_value(0.03125), p_value(0.000012), p_value(1.0), p_value(0.5, "=")
    ('0.031', '< 0.001', '1', '= 0.500')
    """
    if p < 0.001:
        return "< 0.001"
    return f"{equals} {p:.3f}".strip() if p < 0.9995 else f"{equals} 1".strip()


def figure(mean: float, std: float, digits: int = 2) -> str:
    """Mean ± std, the mean alone if there was one run, a dash if there was none.

    >>> figure(75.0, 2.0), figure(75.0, math.nan), figure(math.nan, math.nan)
    ('75.00 ± 2.00', '75.00', '–')
    """
    if not math.isfinite(mean):
        return "–"
    spread = f" ± {std:.{digits}f}" if math.isfinite(std) else ""
    return f"{mean:.{digits}f}{spread}"


def duration(seconds: float) -> str:
    """Seconds, minutes or hours.

    >>> duration(0.25), duration(75), duration(7300)
    ('0.25 s', '1.2 min', '2.0 h')
    """
    if seconds < 60:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


def memory(size: float) -> str:
    """Bytes as MiB or GiB.

    >>> memory(5 * 2**20), memory(3 * 2**30)
    ('5 MiB', '3.0 GiB')
    """
    return f"{size / 2**20:.0f} MiB" if size < 2**30 else f"{size / 2**30:.1f} GiB"
