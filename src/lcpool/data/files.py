"""Files of tensors that are whole or not there: written atomically, checked when they are read."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import torch

from lcpool.atomic import whole_file


def write_atomically(values: Any, path: Path) -> None:
    """Save with torch so that ``path`` is always the old file or the new one, never half of it."""
    with whole_file(path) as file:
        try:
            torch.save(values, file)
        except RuntimeError as error:  # torch hides the error of the file: no space left
            if isinstance(error.__context__, OSError):
                raise error.__context__ from None
            raise


def read_whole(path: Path, device: torch.device | str = "cpu") -> Any:
    """What :func:`write_atomically` saved; nothing in the file is executed (``weights_only``).

    Raises:
        OSError: if the file is not there or cannot be opened.
        ValueError: if it is damaged, or was written by something else.
    """
    with path.open("rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:  # torch does not look at the checksums
                broken = archive.testzip()
            if broken is None:
                file.seek(0)
                return torch.load(file, map_location=device, weights_only=True)
        except Exception as error:  # zipfile, zlib, pickle and torch each have several of their own
            raise ValueError(f"{path} is damaged, or no file of lcpool's.") from error
    raise ValueError(f"{path} is damaged, at its part '{broken}'.")
