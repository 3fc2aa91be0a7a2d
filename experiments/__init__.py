"""Experiments of the library's own: plan, settings, runs and analysis, a folder each."""
