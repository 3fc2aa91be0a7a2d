"""The grid of an experiment, its store, and the engines that work it off."""
