"""Draw the report of a sweep: ``python examples/report.py RESULTS``.

RESULTS is a store, or a CSV file exported from one. Writes ``docs/report.png``, the picture in the
README. It needs Chromium.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from lcpool.report import Report
from lcpool.sweep.results import Results


def main() -> None:
    if len(sys.argv) != 2 or (chromium := shutil.which("chromium")) is None:
        sys.exit("usage: python examples/report.py RESULTS, where Chromium is installed")
    target = Path(__file__).parent.parent / "docs" / "report.png"
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        *_, page_file = Report.of(Results.read(sys.argv[1])).write(folder)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 1480})
        page.goto(page_file.as_uri())
        # Down to where the accuracies end, or to what fits a README.
        end = page.locator("#ranks").bounding_box()["y"]
        page.screenshot(path=target, clip={"x": 0, "y": 0, "width": 1200, "height": min(end, 1480)})
        browser.close()
    print(f"wrote {target}")


if __name__ == "__main__":
    main()
