"""The command line: parse, call, print."""

from __future__ import annotations

import os
import sys
import time

from lcpool.extras import MissingExtraError, needs

# How often GNU's OpenMP, by which torch shares its work, looks for more work before a thread
# sleeps. By default it does so for milliseconds: on a busy machine threads that work wait for
# threads that look, and training takes many times as long (benchmarks/busy.py).
SPINS = "1000"


def main() -> None:
    """Run ``lcpool``, or say what to install if packages are missing."""
    began = time.monotonic()
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)  # before torch is imported
    try:
        with needs("lab"):
            from lcpool.cli.app import app

            app(obj=began)  # Time limits count from here.
    except MissingExtraError as missing:
        sys.exit(str(missing))
    except KeyboardInterrupt:  # during an import
        sys.exit(130)
