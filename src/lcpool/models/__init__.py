"""The paper's two backbones, with every pooling by name."""

from lcpool.models.backbone import BACKBONES, CONVS, NORMS, Architecture, Backbone, Output
from lcpool.models.pooling import POOLINGS, PoolingOptions, make_pooling, pooling_name

__all__ = [
    "BACKBONES",
    "CONVS",
    "NORMS",
    "POOLINGS",
    "Architecture",
    "Backbone",
    "Output",
    "PoolingOptions",
    "make_pooling",
    "pooling_name",
]
