"""Graphs in which connections over a given distance decide the class, or nothing but features."""
