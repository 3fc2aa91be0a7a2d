"""Small SVG pictures: elements, scales, a frame with axes.

Colours and type come from the page's style sheet, so that a picture follows its theme and prints.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

# Of a picture, in its own units; the page scales it.
WIDTH = 300.0
LABEL = 22  # characters of a name in a picture, at most


def tag(name: str, *children: str, **attributes: object) -> Markup:
    """An element; text and attributes are escaped, ``data_pool`` is written ``data-pool``.

    >>> tag("text", "a < b", x=1.50, class_="tick")
    Markup('<text x="1.5" class="tick">a &lt; b</text>')
    """
    written = Markup("").join(
        Markup(' {}="{}"').format(key.strip("_").replace("_", "-"), _value(value))
        for key, value in attributes.items()
        if value is not None
    )
    return Markup("<{0}{1}>{2}</{0}>").format(
        Markup(name), written, Markup("").join(escape(child) for child in children)
    )


def _value(value: object) -> object:
    return f"{round(value, 1):g}" if isinstance(value, float) else value


@dataclass(frozen=True)
class Scale:
    """From values to places along an axis.

    Attributes:
        low: the value at ``start``.
        high: the value at ``end``.
        start: where the axis begins.
        end: where it ends.
        log: whether equal ratios have equal lengths.
        whole: whether there is nothing between whole numbers.
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False
    whole: bool = False

    @classmethod
    def over(cls, values: Sequence[float], start: float, end: float, log: bool = False) -> Scale:
        """A scale that shows all values, with a little room around them."""
        low, high = min(values), max(values)
        if log:
            return cls(low / 1.3, high * 1.3, start, end, log)
        room = 0.06 * (high - low) or 1.0
        return cls(low - room, high + room, start, end)

    def __call__(self, value: float) -> float:
        """The place of a value."""
        if self.log:
            part = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            part = (value - self.low) / (self.high - self.low)
        return self.start + part * (self.end - self.start)

    def ticks(self, most: int = 5) -> list[float]:
        """Round values within, at most about so many.

        >>> Scale(0, 100, 0, 1).ticks()
        [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]
        >>> Scale(0.5, 20, 0, 1, log=True).ticks()
        [0.5, 1.0, 2.0, 5.0, 10.0, 20.0]
        >>> Scale(0, 2, 0, 1, whole=True).ticks()
        [0.0, 1.0, 2.0]
        """
        if self.log:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            for rounds in ((1, 2, 5), (1,)):
                ticks = [m * 10.0**p for p in powers for m in rounds]
                inside = [tick for tick in ticks if self.low <= tick <= self.high]
                if 1 < len(inside) <= most + 1:
                    return inside
            if len(inside) > 1:
                return inside[:: math.ceil(len(inside) / most)]
        step = 10.0 ** math.floor(math.log10((self.high - self.low) / most))
        step *= next(m for m in (1, 2, 5, 10) if (self.high - self.low) / (step * m) <= most)
        step = max(step, 1.0) if self.whole else step
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [step * i for i in range(first, last + 1)]


def picture(
    width: float, height: float, label: str, *children: str, **attributes: object
) -> Markup:
    """An image that scales with the page; ``label`` is read out in its place."""
    return tag(
        "svg", *children, viewBox=f"0 0 {width:g} {height:g}", role="img", aria_label=label,
        **attributes,
    )  # fmt: skip


def alone(width: float, height: float, label: str, *children: str, style: str) -> str:
    """The same as a file of its own, with the style sheet that a page would lend it."""
    look = (
        f"width: {2 * width:.0f}px; background: var(--ground); font-family: system-ui, sans-serif"
    )
    sheet = tag("style", Markup(style))
    named = {"xmlns": "http://www.w3.org/2000/svg", "style": look}
    return f"{picture(width, height, label, sheet, *children, **named)}\n"


def bottom_axis(x: Scale, top: float, bottom: float, title: str) -> Markup:
    """Grid lines, numbers below them, and what they are."""
    parts = [
        tag("line", x1=x(t), x2=x(t), y1=top, y2=bottom, class_="grid") for t in x.ticks()
    ] + [
        tag("text", f"{t:g}", x=x(t), y=bottom + 12.0, class_="tick middle") for t in x.ticks()
    ]  # fmt: skip
    middle = (x.start + x.end) / 2
    return Markup("").join([*parts, tag("text", title, x=middle, y=bottom + 25.0, class_="middle")])


def left_axis(y: Scale, left: float, right: float, title: str) -> Markup:
    """Grid lines, numbers beside them, and what they are."""
    parts = [tag("line", x1=left, x2=right, y1=y(t), y2=y(t), class_="grid") for t in y.ticks()] + [
        tag("text", f"{t:g}", x=left - 4, y=y(t) + 3.5, class_="tick end") for t in y.ticks()
    ]
    return Markup("").join([*parts, tag("text", title, x=0.0, y=10.0)])


def short(name: str, length: int = LABEL) -> str:
    """A name that fits a label; if it is longer its middle is left out, for its ends tell more.

    >>> short("lcpool"), short("topkpool (ratio=0.25)", 16)
    ('lcpool', 'topkpo…tio=0.25)')
    """
    if len(name) <= length:
        return name
    end = (length - 1) * 3 // 5
    return f"{name[: length - 1 - end]}…{name[-end:]}"


def room(names: Iterable[str]) -> float:
    """How wide the longest of their labels is."""
    return 6.0 * max(len(short(name)) for name in names) + 8
