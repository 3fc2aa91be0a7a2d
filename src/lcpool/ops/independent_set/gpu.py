"""A maximal k-independent set on a GPU: the rounds of plain torch, which synchronise in each."""

from lcpool.ops.independent_set.plain import independent_set

__all__ = ["independent_set"]
