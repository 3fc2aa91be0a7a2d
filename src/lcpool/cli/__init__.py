"""The command line: parse, call, print."""

from __future__ import annotations

import sys


def main() -> None:
    """Run ``lcpool``, or say what to install where the command line's packages are missing."""
    try:
        from lcpool.cli.app import app
    except ModuleNotFoundError as missing:
        sys.exit(f"lcpool's command line needs '{missing.name}': pip install 'lcpool[lab]'")
    app()
