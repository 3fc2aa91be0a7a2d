"""Many runs as one: networks of one architecture trained together, parameters stacked by run."""

from lcpool.train.stack.stack import Single, Stack, as_one
from lcpool.train.stack.stackable import CannotStackError

__all__ = ["CannotStackError", "Single", "Stack", "as_one"]
