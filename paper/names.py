"""What poolings are called in texts."""

from __future__ import annotations

NAMES = {
    "nopool": "no pooling",
    "topkpool": "TopK",
    "sagpool": "SAG",
    "lcpool": "LCPool",
    "lcpool*": "LCPool*",
    "asapool": "ASAP",
    "mincutpool": "MinCut",
    "diffpool": "DiffPool",
}


def named(pool: str) -> str:
    """A pooling in a sentence; as it is where it has no other name.

    >>> named("topkpool"), named("mine")
    ('TopK', 'mine')
    """
    return NAMES.get(pool, pool)
