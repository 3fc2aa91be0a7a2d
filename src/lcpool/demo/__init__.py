"""What poolings do to a graph and to accuracy, on built-in data."""

from lcpool.demo.graph import num_components, pooled_by_all, ring_of_cliques, show_graph
from lcpool.demo.ranking import show_ranking

__all__ = ["num_components", "pooled_by_all", "ring_of_cliques", "show_graph", "show_ranking"]
