"""Graph algebra without parameters: operations on the structures of :mod:`lcpool.graph`."""
