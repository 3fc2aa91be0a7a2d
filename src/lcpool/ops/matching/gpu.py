"""A maximal matching on a GPU: the rounds of plain torch, which synchronise in each."""

from lcpool.ops.matching.plain import matching

__all__ = ["matching"]
