"""The training protocol, one training loop, many runs as one."""

from lcpool.train.api import train, train_runs
from lcpool.train.loop import Trainer
from lcpool.train.model import Model
from lcpool.train.protocol import RULES, Protocol
from lcpool.train.result import Result, Run

__all__ = ["RULES", "Model", "Protocol", "Result", "Run", "Trainer", "train", "train_runs"]
