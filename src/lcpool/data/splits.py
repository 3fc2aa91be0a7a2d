"""Training, validation and test graphs of each run."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

# Fewer graphs leave the validation part empty.
MIN_GRAPHS = 6


class Split(NamedTuple):
    """Numbers of graphs, ``[part]`` each, int64, in the order in which they were drawn."""

    train: Tensor
    val: Tensor
    test: Tensor


def split(
    n: int, run: int, protocol: Literal["shared", "fresh"] = "shared", seed: int = 0
) -> Split:
    """Split ``n`` graphs 8:1:1, unstratified.

    Args:
        n: the number of graphs.
        run: the number of the run, from 0.
        protocol: "shared", one split for all runs, or "fresh", a new one for each. Neither depends
            on the pooling.
        seed: another seed gives other splits.

    Example:
        >>> [len(part) for part in split(1113, run=0)]
        [890, 111, 112]
    """
    if n < MIN_GRAPHS:
        raise ValueError(f"a split 8:1:1 needs at least {MIN_GRAPHS} graphs, not {n}.")
    if protocol not in ("shared", "fresh"):
        raise ValueError(f"'protocol' must be 'shared' or 'fresh', not {protocol!r}.")
    # RandomState's streams are frozen for good. Seeded with a list it starts differently from
    # any single number, so no fresh split repeats a shared one.
    random = np.random.RandomState(seed if protocol == "shared" else [seed, run])
    order = torch.from_numpy(random.permutation(n))
    return Split(*order.tensor_split([n * 8 // 10, n * 9 // 10]))
