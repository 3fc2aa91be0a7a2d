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
        page_file = Report.of(Results.read(sys.argv[1])).write(folder)[0]
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1100, "height": 1000}, device_scale_factor=1.25)
        page.goto(page_file.as_uri())
        page.screenshot(path=target)
        browser.close()
    print(f"wrote {target}")


if __name__ == "__main__":
    main()
