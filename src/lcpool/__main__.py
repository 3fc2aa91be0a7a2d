"""``python -m lcpool``."""

from lcpool.cli import main

main()
