"""The edges between clusters on a GPU: the sort of plain torch."""

from lcpool.ops.contract.plain import contract

__all__ = ["contract"]
