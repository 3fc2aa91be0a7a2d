"""The page of ``lcpool show`` with ten thousand graphs, in Chromium.

    python benchmarks/show.py                    # a table
    python benchmarks/show.py docs/show.md       # and into a page, between two marks

Random trees with some edges more, 10 to 60 nodes, pooled three times by an untrained LCPool. A time
ends with the frame that shows the result; of steps it is the median and the longest of fifty.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
from playwright.sync_api import Page, sync_playwright
from torch_geometric.data import Data

from lcpool.cli.show import about
from lcpool.data import GraphSet
from lcpool.models import Architecture, Backbone
from lcpool.train import Model
from lcpool.view.page import page

GRAPHS, STEPS = 10_000, 50
SIZES = {"1400 px": {"width": 1400, "height": 900}, "400 px": {"width": 400, "height": 800}}
COMMAND = "python benchmarks/show.py"
BEGIN, END = f"<!-- begin: {COMMAND} -->", f"<!-- end: {COMMAND} -->"
# Presses a key, waits until another graph is shown, and says how long that took; ms.
STEP = """async (key) => {
  const name = document.getElementById("name"), was = name.textContent, start = performance.now();
  document.dispatchEvent(new KeyboardEvent("keydown", { key }));
  while (name.textContent === was) await new Promise((go) => setTimeout(go, 0));
  await new Promise((go) => requestAnimationFrame(() => setTimeout(go, 0)));
  return performance.now() - start;
}"""
# Changes a field of the list.
CHANGE = """async ([id, value, kind]) => {
  const field = document.getElementById(id), start = performance.now();
  field.value = value;
  field.dispatchEvent(new Event(kind));
  await new Promise((go) => requestAnimationFrame(() => setTimeout(go, 0)));
  return performance.now() - start;
}"""
PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"


def graph(number: int, random: torch.Generator) -> Data:
    size = int(torch.randint(10, 61, (1,), generator=random))
    node = torch.arange(1, size)
    parent = (node - torch.randint(1, 5, node.shape, generator=random)).clamp(min=0)
    more = torch.randint(size, (2, size // 6), generator=random)
    one_way = torch.cat([torch.stack([node, parent]), more[:, more[0] != more[1]]], dim=1)
    edges = torch.cat([one_way, one_way.flip(0)], dim=1).unique(dim=1)
    return Data(x=torch.rand(size, 4, generator=random), edge_index=edges, y=number % 3)


def written(path: Path) -> str:
    """Write the page, and say how long that took and how large it is."""
    random = torch.Generator().manual_seed(0)
    graphs = GraphSet.from_graphs([graph(g, random) for g in range(GRAPHS)], "RANDOM")
    torch.manual_seed(0)
    network = Backbone.of(graphs, Architecture(pool="lcpool", hidden=64, poolings=3))
    model, started = Model.of(network.eval(), graphs), time.perf_counter()
    with path.open("w", encoding="utf-8") as file:
        file.writelines(page(model.each_pooled(graphs), about(model, graphs)))
    seconds, size = time.perf_counter() - started, path.stat().st_size / 2**20
    return f"{GRAPHS} graphs: written in {seconds:.0f} s, {size:.1f} MiB."


def measured(tab: Page, address: str) -> list[str]:
    """The cells of a row; milliseconds."""
    started = time.perf_counter()
    tab.goto(address)
    tab.wait_for_selector("figure.current circle[data-node]")
    first = 1000 * (time.perf_counter() - started)
    steps = [tab.evaluate(STEP, "ArrowDown") for _ in range(STEPS)]
    far = [tab.evaluate(STEP, "PageDown") for _ in range(STEPS)]
    sort = tab.evaluate(CHANGE, ["sort", "error", "change"])
    find = tab.evaluate(CHANGE, ["search", "77", "input"])
    ends = [f"{statistics.median(times):.0f} ({max(times):.0f})" for times in (steps, far)]
    return [f"{tab.evaluate(PAINT):.0f}", f"{first:.0f}", *ends, f"{sort:.0f}", f"{find:.0f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("page", nargs="?", type=Path, help="a page to write the table into")
    target, chromium = parser.parse_args().page, shutil.which("chromium")
    if chromium is None:
        sys.exit("there is no Chromium here.")
    head = ("window", "first paint", "first graph", "next graph", "ten graphs on", "sort", "find")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder, "show.html")
        lines = [f"{written(file)} Times in the browser in ms, the longest in brackets.", ""]
        lines += [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, size in SIZES.items():
            cells = measured(browser.new_page(viewport=size), file.as_uri())
            lines.append(f"| {' | '.join((name, *cells))} |")
        browser.close()
    text = "\n".join(lines)
    print(text)
    if target is not None:
        before, rest = target.read_text("utf-8").split(BEGIN)
        target.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}", "utf-8")


if __name__ == "__main__":
    main()
