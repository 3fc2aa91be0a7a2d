"""No kernel connects clusters in plain torch: :mod:`lcpool.ops.product.joins` does."""

from __future__ import annotations

__all__ = ["cluster_search", "connect_clusters"]


def cluster_search(*_: object) -> None:
    """Left to joins."""


def connect_clusters(*_: object) -> None:
    """Left to joins, which also connect by other assignments."""
