"""Whatever is random inside a network follows a seed, and the caller's random numbers stay."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def seeded(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """Let torch, numpy and Python draw from ``seed`` while inside; afterwards all is as before.

    Args:
        seed: where the random numbers begin.
        device: a GPU whose random numbers are meant too. ``torch.manual_seed`` would seed all.
    """
    generators = [torch.default_generator]
    if device is not None and device.type == "cuda":
        number = torch.cuda.current_device() if device.index is None else device.index
        generators.append(torch.cuda.default_generators[number])
    states = [generator.get_state() for generator in generators]
    of_python, of_numpy = random.getstate(), np.random.get_state()
    for generator in generators:
        generator.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)
    try:
        yield
    finally:
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)
        random.setstate(of_python)
        np.random.set_state(of_numpy)
