"""Products of matrices by torch, which asks cuBLAS."""

from lcpool.ops.matmul.plain import matmul_each
from lcpool.ops.matmul.plain import multiply as matmul

__all__ = ["matmul", "matmul_each"]
