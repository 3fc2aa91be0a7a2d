"""Graph sets in columns: the TU reader, the built-in set, splits."""

from lcpool.data.builtin import builtin
from lcpool.data.gather import DatasetError
from lcpool.data.graphset import GraphBatch, GraphSet
from lcpool.data.load import load_dataset
from lcpool.data.notices import DataWarning
from lcpool.data.splits import Split, split

__all__ = [
    "DataWarning",
    "DatasetError",
    "GraphBatch",
    "GraphSet",
    "Split",
    "builtin",
    "load_dataset",
    "split",
]
