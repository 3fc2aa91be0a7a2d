"""The data structures: a batch of graphs, edges and their order, sizes, assignments, checks."""
