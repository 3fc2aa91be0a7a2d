"""The paper's two backbones, with every pooling by name, and a U-Net."""

from lcpool.models.backbone import Architecture, Backbone, Output, network_class
from lcpool.models.conv import CONVS, make_conv
from lcpool.models.pooling import POOLINGS, make_pooling
from lcpool.models.unet import GraphUNet
from lcpool.settings import BACKBONES

__all__ = [
    "BACKBONES",
    "CONVS",
    "POOLINGS",
    "Architecture",
    "Backbone",
    "GraphUNet",
    "Output",
    "make_conv",
    "make_pooling",
    "network_class",
]
