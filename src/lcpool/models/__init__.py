"""The paper's two backbones, with every pooling by name."""

from lcpool.models.backbone import CONVS, Architecture, Backbone, Output
from lcpool.models.pooling import POOLINGS, make_pooling
from lcpool.settings import BACKBONES

__all__ = ["BACKBONES", "CONVS", "POOLINGS", "Architecture", "Backbone", "Output", "make_pooling"]
