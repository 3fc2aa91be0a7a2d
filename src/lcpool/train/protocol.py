"""The training protocol.

Adam with learning rate 5e-4, batches of 32 graphs, at most 500 epochs; graphs are split 8:1:1 into
training, validation and test. After each epoch two rules compare validation figures, each with its
own patience of 50 epochs:

- ``accuracy``: the highest validation accuracy; of equal ones, the lowest validation loss;
- ``loss``: the lowest validation loss.

With another metric, its name and its best value take the place of accuracy. A metric that cannot be
computed on the validation graphs (ROC-AUC if all have one class) is worse than any value.

A run ends when both rules have run out of patience. Auxiliary losses count in training, not in
validation. The test graphs are evaluated once per rule, with the network of the chosen epoch.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from lcpool.data import Split, split
from lcpool.settings import ProtocolSettings

RULES = ("accuracy", "loss")


@dataclass(frozen=True)
class Protocol(ProtocolSettings):
    """How a network is trained: the settings of :class:`lcpool.settings.ProtocolSettings`."""

    def split_of(self, num_graphs: int, run: int) -> Split:
        """The training, validation and test graphs of a run."""
        return split(num_graphs, run, self.split, self.seed)

    def random(self, run: int, *purpose: int) -> torch.Generator:
        """Random numbers for one purpose of one run, independent of all others."""
        return torch.Generator().manual_seed(derive(self.seed, run, *purpose))

    def batches(self, train: Tensor, run: int, epoch: int) -> list[Tensor]:
        """The training graphs of a run, shuffled for an epoch and cut into batches.

        If one graph is left over, it joins the batch before, as batch norm needs two rows.
        """
        order = train[torch.randperm(len(train), generator=self.random(run, 1, epoch))]
        batches = list(torch.split(order, self.batch_size))
        if len(batches) > 1 and len(batches[-1]) == 1:
            batches[-2:] = [torch.cat(batches[-2:])]
        return batches

    def init_seed(self, run: int) -> int:
        """The seed of a run's initial parameters."""
        return derive(self.seed, run, 0)

    def network_seed(self, runs: Sequence[int], epoch: int) -> int:
        """The seed for random numbers inside networks (dropout) in an epoch; the test is epoch 0.

        Runs that train as one draw from one stream: a run alone draws other numbers.
        """
        first, *others = runs
        return derive(self.seed, first, 2, epoch, *others)


def derive(*numbers: int) -> int:
    """A seed from several numbers; seeds of different numbers are independent."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0]) % 2**63


@contextmanager
def seeded(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """Seed torch, numpy and Python while inside, and restore their state afterwards.

    ``device``, if it is a GPU, is seeded too; ``torch.manual_seed`` would seed all GPUs.
    """
    gpus = [device] if device is not None and device.type == "cuda" else []
    of_python, of_numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(gpus):
        torch.default_generator.manual_seed(seed)
        for gpu in gpus:
            with torch.cuda.device(gpu):
                torch.cuda.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed % 2**32)
        try:
            yield
        finally:
            random.setstate(of_python)
            np.random.set_state(of_numpy)


@dataclass
class EpochChoice:
    """The epoch that a rule has chosen so far in one run; 0 before the first."""

    rule: str  # the name of a metric, or "loss"
    epoch: int = 0
    value: float = -1.0  # of the metric on the validation graphs
    loss: float = math.inf
    higher: bool = True  # whether a higher value is better

    @property
    def cost(self) -> tuple[float, float]:
        """By which epochs and runs are compared: lower is better."""
        return self._cost(self.value, self.loss) if self.epoch else (math.inf, math.inf)

    def _cost(self, value: float, loss: float) -> tuple[float, float]:
        if self.rule == "loss":
            return loss, 0.0
        return math.inf if math.isnan(value) else -value if self.higher else value, loss

    def offer(self, epoch: int, value: float, loss: float) -> bool:
        """Choose this epoch if it is better; return whether it was."""
        better = self._cost(value, loss) < self.cost
        if better:
            self.epoch, self.value, self.loss = epoch, value, loss
        return better

    def closed(self, epoch: int, patience: int) -> bool:
        """Whether this rule has run out of patience."""
        return epoch - self.epoch >= patience
