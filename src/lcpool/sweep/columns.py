"""The columns of a run, declared once.

The store's schema, the types of a table of runs, the CSV files and the table in ``docs/sweep.md``
follow from the declarations.
"""

from __future__ import annotations

from dataclasses import dataclass

from lcpool.train.metrics import METRICS

WHICH, OUTCOME, CIRCUMSTANCE = "which run", "results", "how it was trained"

# SQL types in Python and in pandas.
TYPES = {"TEXT": str, "INTEGER": int, "REAL": float, "BLOB": bytes}
DTYPES = {"TEXT": "str", "INTEGER": "int64", "REAL": "float64"}


@dataclass(frozen=True)
class Column:
    """One column."""

    name: str
    sql: str  # its type in the store
    group: str
    help: str
    null: bool = False  # whether a run may have no value here
    absent: bool = False  # whether a CSV file may lack the column
    exported: bool = True  # whether tables have it too, or only the store

    @property
    def dtype(self) -> str:
        """Its type in pandas, where whole numbers that may be missing are floats."""
        return DTYPES["REAL" if self.sql == "INTEGER" and self.null else self.sql]

    @property
    def schema(self) -> str:
        return f'"{self.name}" {self.sql}{"" if self.null else " NOT NULL"}'


# Accuracy has columns of its own, which were there first.
_METRICS = tuple(
    Column(f"test_{metric.name}{by_loss}", "REAL", OUTCOME,
           f"{metric.title} of the test graphs{' in percent' if metric.percent else ''}, at the "
           f"epoch chosen by {'validation loss' if by_loss else 'the metric'}",
           null=True, absent=True)
    for metric in METRICS.values() if metric.name != "accuracy"
    for by_loss in ("", "_by_loss")
)  # fmt: skip

COLUMNS = (
    Column("dataset", "TEXT", WHICH, "name of the data"),
    Column("backbone", "TEXT", WHICH, "`hierarchical`, `plain`, or `module:Class`"),
    Column("conv", "TEXT", WHICH, "the graph convolution, or `module:Class`"),
    Column("pool", "TEXT", WHICH, "the pooling's paper name, or `module:Class`"),
    Column("run", "INTEGER", WHICH, "number of the run in its cell, from 0"),
    Column("test_accuracy", "REAL", OUTCOME,
           "test accuracy in percent, at the epoch chosen by the metric; empty if the run diverged "
           "before any was chosen, and without classes or labels", null=True),
    Column("test_accuracy_by_loss", "REAL", OUTCOME,
           "the same at the epoch chosen by validation loss", null=True),
    Column("epochs", "INTEGER", OUTCOME, "epochs trained"),
    Column("seconds", "REAL", CIRCUMSTANCE, "the run's share of the wall time of its stack"),
    Column("val_accuracy", "REAL", OUTCOME, "best validation accuracy in percent, if that is the "
           "metric", null=True),
    Column("val_loss", "REAL", OUTCOME, "lowest validation loss", null=True),
    Column("epoch", "INTEGER", OUTCOME, "the epoch chosen by the metric on the validation graphs",
           null=True),
    Column("epoch_by_loss", "INTEGER", OUTCOME, "the epoch chosen by validation loss", null=True),
    Column("diverged", "INTEGER", OUTCOME,
           "the epoch in which a loss became NaN or infinite, if any", null=True),
    Column("peak_memory", "INTEGER", CIRCUMSTANCE,
           "peak of GPU memory of the stack in bytes; empty on a CPU", null=True),
    Column("stack", "INTEGER", CIRCUMSTANCE, "how many runs were trained as one"),
    Column("num_train", "INTEGER", OUTCOME, "training graphs"),
    Column("num_val", "INTEGER", OUTCOME, "validation graphs"),
    Column("num_test", "INTEGER", OUTCOME, "test graphs"),
    Column("largest_class", "REAL", OUTCOME,
           "share in percent of the largest class among the test graphs: the accuracy of a network "
           "that always predicts that class", null=True, absent=True),
    Column("constant", "INTEGER", OUTCOME,
           "1 if the network chosen by the metric predicts one class for all test graphs, "
           "else 0", null=True, absent=True),
    Column("constant_by_loss", "INTEGER", OUTCOME,
           "the same for the network chosen by validation loss", null=True, absent=True),
    Column("task", "TEXT", OUTCOME, "what was predicted: `classes`, `labels` or `values`",
           absent=True),
    Column("metric", "TEXT", OUTCOME, "the metric that chose the epoch", absent=True),
    Column("val_metric", "REAL", OUTCOME,
           "its best value on the validation graphs, in percent where the test's is", null=True,
           absent=True),
    *_METRICS,
    Column("curves", "BLOB", OUTCOME, "learning curves", exported=False),
    Column("predictions", "BLOB", OUTCOME, "what was predicted of the test graphs",
           exported=False),
    Column("split", "TEXT", WHICH, "how graphs were split: `fresh`, `10-fold`, …; predefined "
           "splits with their number and a digest"),
    Column("seed", "INTEGER", WHICH, "seed of all random numbers"),
    Column("config", "TEXT", WHICH, "all settings as one JSON object with sorted keys"),
    Column("lcpool", "TEXT", CIRCUMSTANCE, "version of lcpool"),
    Column("torch", "TEXT", CIRCUMSTANCE, "version of torch"),
    Column("pyg", "TEXT", CIRCUMSTANCE, "version of PyG"),
    Column("python", "TEXT", CIRCUMSTANCE, "version of Python"),
    Column("device", "TEXT", CIRCUMSTANCE, "the GPU, or `CPU`"),
    Column("commit", "TEXT", CIRCUMSTANCE, "commit of the sources, with + if they were changed"),
    Column("mates", "TEXT", CIRCUMSTANCE, "the runs of its stack", exported=False),
    Column("threads", "INTEGER", CIRCUMSTANCE, "number of threads", exported=False),
)  # fmt: skip

EXPORTED = tuple(column for column in COLUMNS if column.exported)
# The columns of a table of runs, in order.
NAMES = tuple(column.name for column in EXPORTED)
# What identifies a cell.
OF_CELL = tuple(c for c in COLUMNS if c.group == WHICH and c.name != "run")
# What the store keeps per run.
OF_RUN = tuple(c for c in COLUMNS if c not in OF_CELL)
# The results of a run; training it again gives the same.
FIGURES = tuple(column.name for column in COLUMNS if column.group == OUTCOME)
# What identifies a run.
KEY = (*(column.name for column in OF_CELL), "run")
