"""GPU kernels for several runs as one, compiled by Triton on first use."""

from lcpool.train.gpu.bias import TritonBias
from lcpool.train.gpu.linear import TritonLinear
from lcpool.train.gpu.norm import TritonBatchNorm

__all__ = ["TritonBatchNorm", "TritonBias", "TritonLinear"]
