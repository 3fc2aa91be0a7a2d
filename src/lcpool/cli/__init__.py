"""The command line: parse, call, print."""

from __future__ import annotations

import sys
import time

from lcpool.extras import MissingExtraError, needs_lab


def main() -> None:
    """Run ``lcpool``, or say what to install where the command line's packages are missing."""
    began = time.monotonic()
    try:
        with needs_lab():
            from lcpool.cli.app import app

            app(obj=began)  # A time limit counts from here.
    except MissingExtraError as missing:
        sys.exit(str(missing))
    except KeyboardInterrupt:  # while something was still being imported
        sys.exit(130)
