"""Layers with parameters: scores and assignments."""

from lcpool.nn.attention import ClusterAttention
from lcpool.nn.lcsmp import LCSMP
from lcpool.nn.score import ConvScore, ProjectionScore, Score

__all__ = ["LCSMP", "ClusterAttention", "ConvScore", "ProjectionScore", "Score"]
