"""Many runs as one: networks of one architecture with their parameters stacked by run."""

from lcpool.train.stack.rows import CannotStackError
from lcpool.train.stack.stack import Single, Stack, as_one

__all__ = ["CannotStackError", "Single", "Stack", "as_one"]
