"""Sets of graphs in columns: readers, the built-in set, splits."""

from lcpool.data.batches import GraphBatch
from lcpool.data.builtin import builtin
from lcpool.data.checks import DatasetError, DataWarning
from lcpool.data.duplicates import Duplicates, find_duplicates
from lcpool.data.graphset import GraphSet
from lcpool.data.load import load_dataset
from lcpool.data.splits import Split, split

__all__ = [
    "DataWarning",
    "DatasetError",
    "Duplicates",
    "GraphBatch",
    "GraphSet",
    "Split",
    "builtin",
    "find_duplicates",
    "load_dataset",
    "split",
]
