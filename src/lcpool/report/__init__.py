"""Tables, statistics, plots, and a page of the runs of a sweep."""

from lcpool.extras import needs

with needs("lab"):
    from lcpool.report.api import Report
    from lcpool.report.cells import Reference
    from lcpool.report.comparison import Comparison

__all__ = ["Comparison", "Reference", "Report"]
