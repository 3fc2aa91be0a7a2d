import importlib.util
import os
import re
import shutil

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
SLOW = re.compile(r"tests/(cli|estimators|models|report|train)/|tests/sweep/(?!test_(grid|store))")


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


@pytest.fixture(scope="module")
def browser():
    """Chromium, where it and playwright are installed."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("there is no Chromium here: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        # Its sandbox needs rights that containers lack; the pages are our own.
        running = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def visit(browser):
    """Open a page; at the end, nothing may have gone wrong or been fetched on it."""
    opened, pages, wrong, fetched = [], [], [], []

    def open_page(path, fragment="", **options):
        tab = browser.new_page(**options)
        tab.on("console", lambda message: wrong.append(message.text))
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        tab.on("dialog", lambda dialog: (wrong.append("a dialog"), dialog.dismiss()))
        tab.on("request", lambda request: fetched.append(request.url))
        tab.goto(path.as_uri() + fragment)
        opened.append(tab)
        pages.append(path.as_uri())
        return tab

    yield open_page
    for tab in opened:
        tab.close()
    assert wrong == []
    assert [url.partition("#")[0] for url in fetched] == pages
