"""Tables, statistics, plots, and a page of the runs of a sweep."""

from lcpool.extras import needs_lab

with needs_lab():
    from lcpool.report.api import Report
    from lcpool.report.audit import Audit
    from lcpool.report.claims import Claim
    from lcpool.report.comparison import Comparison
    from lcpool.report.reproduction import Reproduction

__all__ = ["Audit", "Claim", "Comparison", "Report", "Reproduction"]
