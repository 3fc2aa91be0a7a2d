"""``python -m lcpool.cli``."""

from lcpool.cli import main

main()
