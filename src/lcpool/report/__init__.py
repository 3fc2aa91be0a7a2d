"""Tables, statistics, plots, and a page of the runs of a sweep."""

from lcpool.report.api import Report
from lcpool.report.claims import Claim
from lcpool.report.comparison import Comparison
from lcpool.report.reproduction import Reproduction

__all__ = ["Claim", "Comparison", "Report", "Reproduction"]
