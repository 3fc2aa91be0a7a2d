"""Which pooling, on which graphs, by how much: the benchmark's plan, grids and analysis."""
