"""Triton kernels for layers of several runs, compiled on first use."""

from lcpool.train.stack.gpu.bias import TritonBias
from lcpool.train.stack.gpu.linear import TritonLinear
from lcpool.train.stack.gpu.norm import TritonBatchNorm

__all__ = ["TritonBatchNorm", "TritonBias", "TritonLinear"]
