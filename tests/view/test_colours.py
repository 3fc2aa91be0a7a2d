"""Colours of clusters are told apart, also by colour-blind readers, on paper and on the page."""

import re
from itertools import combinations

import numpy as np
import pytest

from lcpool.pages import text
from lcpool.view.marks import KEPT, NEW, PALETTE

# What colours look like without one kind of cones (Machado, Oliveira and Fernandes 2009).
SEEN = {
    "all cones": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
LEAST = 15  # CIE 1976; 2.3 is just noticeable


def linear(colour: str) -> np.ndarray:
    parts = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(colour: str, seen: np.ndarray) -> np.ndarray:
    xyz = XYZ @ np.clip(seen @ linear(colour), 0, 1) / XYZ.sum(1)
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(one: str, other: str) -> float:
    low, high = sorted(float(XYZ[1] @ linear(colour)) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


STYLE = text("lcpool.view", "show.css")
*_, DARK = re.findall(r"--ground: (#\w{6})", text("lcpool.view", "+base.css"))
ON_LIGHT, ON_DARK = (re.findall(r"--c\d: (#\w+)", part) for part in STYLE.split("@media", 1))


def test_the_page_has_the_colours_of_drawings():
    assert tuple(ON_LIGHT) == PALETTE
    assert len(ON_DARK[: len(PALETTE)]) == len(PALETTE)


@pytest.mark.parametrize("seen", SEEN.values(), ids=SEEN)
@pytest.mark.parametrize("colours", [PALETTE, ON_DARK, (NEW, KEPT)], ids=["paper", "dark", "edges"])
def test_colours_differ_for_every_reader(colours, seen):
    apart = [np.linalg.norm(lab(a, seen) - lab(b, seen)) for a, b in combinations(colours, 2)]
    assert min(apart) > LEAST


def test_colours_differ_from_the_dark_ground():
    assert min(contrast(colour, DARK) for colour in ON_DARK) > 3
