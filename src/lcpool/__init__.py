"""Graph pooling by local cluster selection: LCPool and its peers as layers for PyG."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import lcpool.process  # noqa: F401 - remembers the process, before any other is forked from it
from lcpool.version import __version__

if TYPE_CHECKING:
    from lcpool.estimators import GraphClassifier, GraphRegressor
    from lcpool.graph.assignment import Assignment
    from lcpool.models.unet import GraphUNet
    from lcpool.nn import LCSMP, ClusterAttention, ConvScore, ProjectionScore, Score
    from lcpool.ops.connect import assignment_connect, cluster_connect
    from lcpool.ops.connect.blocks import Blocks, cluster_connect_blocks
    from lcpool.pool import (
        ASAPooling,
        CellPooling,
        DenseAssignmentPooling,
        DiffPooling,
        DMoNPooling,
        EdgePooling,
        GraclusPooling,
        KMISPooling,
        LCPooling,
        LocalAssignmentPooling,
        LocalClusterPooling,
        MinCutPooling,
        NoPooling,
        Partition,
        PartitionPooling,
        Pooled,
        Pooling,
        PoolingError,
        RandomAssignment,
        RandomSelection,
        SAGPooling,
        Selection,
        TopKPooling,
    )
    from lcpool.sweep.compare import compare
    from lcpool.view import draw

__all__ = [
    "LCSMP",
    "ASAPooling",
    "Assignment",
    "Blocks",
    "CellPooling",
    "ClusterAttention",
    "ConvScore",
    "DMoNPooling",
    "DenseAssignmentPooling",
    "DiffPooling",
    "EdgePooling",
    "GraclusPooling",
    "GraphClassifier",
    "GraphRegressor",
    "GraphUNet",
    "KMISPooling",
    "LCPooling",
    "LocalAssignmentPooling",
    "LocalClusterPooling",
    "MinCutPooling",
    "NoPooling",
    "Partition",
    "PartitionPooling",
    "Pooled",
    "Pooling",
    "PoolingError",
    "ProjectionScore",
    "RandomAssignment",
    "RandomSelection",
    "SAGPooling",
    "Score",
    "Selection",
    "TopKPooling",
    "__version__",
    "assignment_connect",
    "cluster_connect",
    "cluster_connect_blocks",
    "compare",
    "draw",
]

# Packages that ``import lcpool`` alone makes available, as in ``lcpool.train``.
_PACKAGES = (
    "data", "estimators", "graph", "models", "nn", "ops", "pool", "report", "sweep", "testing",
    "train", "view",
)  # fmt: skip
# Where the layers are; the first room that has a name is imported, and those before it.
_ROOMS = ("graph.assignment", "ops.connect", "ops.connect.blocks", "nn", "pool", "models.unet")
# Names of rooms that need packages of an extra.
_EXTRA = {
    "GraphClassifier": "estimators", "GraphRegressor": "estimators", "compare": "sweep",
    "draw": "view",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a public name on first use: the command line starts without torch."""
    if name in _PACKAGES:
        return import_module(f"lcpool.{name}")
    if name not in __all__:
        from difflib import get_close_matches

        # Users write names as papers do, such as LCPool.
        near = get_close_matches(name.lower(), [known.lower() for known in __all__], 1)
        meant = [known for known in __all__ if known.lower() in near]
        hint = f": did you mean {meant[0]}?" if meant and name[:1] != "_" else ""
        raise AttributeError(f"module 'lcpool' has no attribute '{name}'{hint}", name=name)
    named = [_EXTRA[name]] if name in _EXTRA else _ROOMS
    rooms = (import_module(f"lcpool.{room}") for room in named)
    value = globals()[name] = next(getattr(room, name) for room in rooms if hasattr(room, name))
    return value


def __dir__() -> list[str]:
    """All public names, imported or not."""
    return sorted({*globals(), *__all__, *_PACKAGES})
