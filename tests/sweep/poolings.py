"""Poolings that fail, each in its own way; workers import them from here."""

import faulthandler
import os
import signal
import time
from pathlib import Path

from torch import nn


class Plain(nn.Module):
    def __init__(self, channels):
        super().__init__()

    def forward(self, x, edge_index, edge_attr=None, batch=None):
        return x, edge_index, edge_attr, batch


class Raises(Plain):
    def forward(self, *_):
        raise ZeroDivisionError("no luck")


class Faults(Plain):
    def forward(self, *_):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")


class Waits(Plain):
    """Leaves a file ``sign`` and waits to be killed; not if the file was there."""

    sign: str

    def forward(self, *args):
        if not Path(self.sign).exists():
            Path(self.sign).touch()
            time.sleep(3600)
        return super().forward(*args)


class FaultsInCompany(Faults):
    """Faults as soon as ``Waits`` is being trained."""

    sign: str

    def forward(self, *args):
        until = time.monotonic() + 60
        while not Path(self.sign).exists() and time.monotonic() < until:
            time.sleep(0.01)
        super().forward(*args)


class Dies(Plain):
    def forward(self, *_):
        os.kill(os.getpid(), signal.SIGKILL)


class Crashes(Plain):
    def forward(self, *_):
        faulthandler._sigsegv()


class Hangs(Plain):
    def forward(self, *_):
        time.sleep(3600)


class UnderMPS(Plain):
    """Raises unless its process has the environment that MPS needs."""

    def forward(self, *args):
        assert os.environ["CUDA_MPS_PIPE_DIRECTORY"] == "pretended"
        return super().forward(*args)


class Talks(Plain):
    def forward(self, *args):
        print("a pooling that talks")
        return super().forward(*args)
