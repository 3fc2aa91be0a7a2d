"""The paper's two backbones, with every pooling by name."""

from lcpool.models.backbone import CONVS, NORMS, Architecture, Backbone, Output
from lcpool.models.pooling import POOLINGS, make_pooling, pooling_name
from lcpool.settings import BACKBONES

__all__ = [
    "BACKBONES",
    "CONVS",
    "NORMS",
    "POOLINGS",
    "Architecture",
    "Backbone",
    "Output",
    "make_pooling",
    "pooling_name",
]
