"""Draw what models pooled: ``python examples/show.py MUTAG``.

Trains two models for some epochs and writes the pictures of ``docs/show.md``: ``docs/drawn.png`` by
``lcpool.draw``, and ``docs/show.png``, the page of ``lcpool show``, for which it needs Chromium.
``docs/networks.png`` is the picture of ``docs/your-graphs.md``, by the code that stands there.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import lcpool
from lcpool.cli.show import about
from lcpool.data import load_dataset
from lcpool.train import train
from lcpool.view.page import page

DOCS = Path(__file__).parent.parent / "docs"
QUICK = {"runs": 1, "epochs": 40, "hidden": 64, "split": "fresh", "device": "cpu"}
SHOWN = 5  # the graph in the pictures


def networks(folder: str) -> None:
    """Run the first two blocks of the page, which end with a picture."""
    text = (DOCS / "your-graphs.md").read_text("utf-8")
    names: dict[str, object] = {}
    with contextlib.chdir(folder):
        for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL)[:2]:
            exec(block, names)
    shutil.copy(Path(folder, "pooled.png"), DOCS / "networks.png")


def main() -> None:
    if len(sys.argv) != 2 or (chromium := shutil.which("chromium")) is None:
        sys.exit("usage: python examples/show.py DATASET, where Chromium is installed")
    graphs = load_dataset(sys.argv[1])

    model = train(graphs, "lcpool", **QUICK).model
    pooled = model.pooled(graphs)[SHOWN]
    lcpool.draw(pooled.graph, pooled).savefig(DOCS / "drawn.png")

    model = train(graphs, "cellpool", poolings=2, **QUICK).model
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        networks(folder)
        target = Path(folder, "show.html")
        target.write_text("".join(page(model.each_pooled(graphs), about(model, graphs))), "utf-8")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1300, "height": 640})
        tab.goto(f"{target.as_uri()}#graph={SHOWN}&level=1")
        tab.wait_for_selector("figure.current circle[data-node]")
        tab.screenshot(path=DOCS / "show.png")
        browser.close()
    print("wrote docs/networks.png, docs/drawn.png and docs/show.png")


if __name__ == "__main__":
    main()
