import importlib.util
import os
import re

import pytest
import torch
from hypothesis import settings

if not torch.cuda.is_available():  # Triton's interpreter runs kernels for a GPU on a CPU.
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is first imported, as PyG does

from lcpool.ops import kernels

# A deadline would be a wall-clock assertion: the first example of a test compiles kernels.
settings.register_profile("lcpool", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("lcpool")

# Rooms whose tests train, start processes and write whole reports.
SLOW = re.compile(r"tests/(cli|models|report|train)/|tests/sweep/(?!test_(grid|store))")


def pytest_collection_modifyitems(items):
    """Mark the tests of whole rooms as slow; elsewhere those that are say so themselves."""
    for item in items:
        if SLOW.match(item.nodeid):
            item.add_marker("slow")


@pytest.fixture
def poisoned():
    """New memory holds NaN and huge numbers: what is read before it is written shows."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture(params=["numba", pytest.param("triton", marks=pytest.mark.slow), "torch"])
def backend(request, monkeypatch, poisoned):
    """An operation compiled for a CPU, compiled for a GPU (interpreted), and in plain torch."""
    name = request.param
    if name != "torch" and importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    if name == "triton":
        if torch.cuda.is_available():
            pytest.skip("tests/test_cuda.py runs the kernels themselves")
        from lcpool.ops.backends import gpu

        monkeypatch.setattr(kernels, "cpu_kernels", lambda: gpu)
    elif name == "torch":
        monkeypatch.setattr(kernels, "cpu_kernels", lambda: None)
    return name
