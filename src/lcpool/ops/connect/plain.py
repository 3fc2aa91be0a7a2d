"""Plain torch has no kernel that connects clusters: :mod:`lcpool.ops.product.joins` does it."""

from __future__ import annotations

__all__ = ["cluster_search", "connect_clusters"]


def cluster_search(*_: object) -> None: ...


def connect_clusters(*_: object) -> None: ...
