"""The training protocol, one training loop, many runs as one."""

from lcpool.train.api import train, train_runs
from lcpool.train.loop import Run, Trainer
from lcpool.train.protocol import RULES, Protocol
from lcpool.train.result import Model, Result
from lcpool.train.stack import CannotStackError, Stack

__all__ = [
    "RULES",
    "CannotStackError",
    "Model",
    "Protocol",
    "Result",
    "Run",
    "Stack",
    "Trainer",
    "train",
    "train_runs",
]
