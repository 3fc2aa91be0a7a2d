"""Every operator, for the tests that hold for all of them."""

import torch
from torch_geometric.nn import GCNConv

from lcpool import (
    ASAPooling,
    CellPooling,
    DiffPooling,
    DMoNPooling,
    EdgePooling,
    KMISPooling,
    LCPooling,
    MinCutPooling,
    SAGPooling,
    TopKPooling,
)

SELECTIONS = {
    "topk": lambda c, **k: TopKPooling(c, **k),
    "sag": lambda c, **k: SAGPooling(c, **k),
    "asap": lambda c, **k: ASAPooling(c, **k),
    "lcpool": lambda c, **k: LCPooling(c, **k),
    "lcpool*": lambda c, **k: LCPooling(c, cluster=GCNConv(c, c), **k),
}
DENSE = {
    "diff": lambda c: DiffPooling(c, 3),
    "mincut": lambda c: MinCutPooling(c, 3),
    "dmon": lambda c: DMoNPooling(c, 3),
}


def cell_pooling(channels: int) -> CellPooling:
    """As if it had warned: random graphs often have more components than kept nodes."""
    pool = CellPooling(channels)
    pool.warned_of_lost = True
    return pool


PARTITIONS = {
    "cell": cell_pooling,
    "kmis": lambda c: KMISPooling(c),
    "edge": lambda c: EdgePooling(c),
}
ALL = {**SELECTIONS, **DENSE, **PARTITIONS}


def make(name: str, channels: int = 8, seed: int = 0, **options):
    torch.manual_seed(seed)
    return ALL[name](channels, **options).double()
