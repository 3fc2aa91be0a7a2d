"""The command line: parse, call, print."""

from __future__ import annotations

import sys
import time


def main() -> None:
    """Run ``lcpool``, or say what to install where the command line's packages are missing."""
    began = time.monotonic()
    try:
        from lcpool.cli.app import app

        app(obj=began)  # A time limit counts from here.
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] == "lcpool":
            raise
        sys.exit(f"lcpool's command line needs '{missing.name}': pip install 'lcpool[lab]'")
    except KeyboardInterrupt:  # while something was still being imported
        sys.exit(130)
