"""What this repository says about one paper: its figures, its claims, and an audit of them.

No part of the library: it reads the runs in ``results`` beside it and uses ``lcpool.report``.
"""
