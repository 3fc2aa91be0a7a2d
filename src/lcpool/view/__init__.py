"""What a pooling did to each graph: as numbers, as a drawing, as a page."""

from typing import TYPE_CHECKING, Any

from lcpool.view.levels import Level, PooledGraph

if TYPE_CHECKING:
    from lcpool.view.figure import draw

__all__ = ["Level", "PooledGraph", "draw"]


def __getattr__(name: str) -> Any:
    """Import matplotlib when something is drawn: a model that pools does not need it."""
    if name != "draw":
        raise AttributeError(f"module 'lcpool.view' has no attribute '{name}'")
    from lcpool.view.figure import draw

    return draw
