"""The command line: parse, call, print."""

from __future__ import annotations

import sys
import time

from lcpool.extras import MissingExtraError, needs


def main() -> None:
    """Run ``lcpool``, or say what to install if packages are missing."""
    began = time.monotonic()
    try:
        with needs("lab"):
            from lcpool.cli.app import app

            app(obj=began)  # Time limits count from here.
    except MissingExtraError as missing:
        sys.exit(str(missing))
    except KeyboardInterrupt:  # during an import
        sys.exit(130)
