"""The grid of an experiment, its store, and the engines that work it off."""

from lcpool.extras import needs

with needs("lab"):
    from lcpool.sweep.compare import compare
    from lcpool.sweep.grid import Dataset, Grid, make_jobs
    from lcpool.sweep.results import Results
    from lcpool.sweep.store import Store, StoreError

__all__ = ["Dataset", "Grid", "Results", "Store", "StoreError", "compare", "make_jobs"]
