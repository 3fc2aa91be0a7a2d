"""Damaged files give an error or a warning of ours, and never another exception."""

import io
import warnings
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from damage import CHANGES, damaged, quick
from hypothesis import given
from hypothesis import strategies as st

from lcpool.data import DatasetError, DataWarning
from lcpool.data.checks import check_columns
from lcpool.data.tu import read_tu

FILES = {
    "A": "1, 2\n2, 1\n2, 3\n3, 2\n1, 3\n3, 1\n4, 5\n5, 4\n5, 6\n6, 5\n4, 6\n6, 4\n6, 7\n7, 6\n",
    "graph_indicator": "1\n1\n1\n2\n2\n2\n2\n",
    "graph_labels": "-1\n1\n",
    "node_labels": "1\n2\n2\n1\n1\n4\n4\n",
    "node_attributes": "0.5, 1\n" * 7,
    "edge_labels": "1\n2\n" * 7,
    "edge_attributes": "0.25\n" * 14,
}


def read(path: Path) -> None:
    with warnings.catch_warnings(action="ignore", category=DataWarning), suppress(DatasetError):
        graphs = read_tu(path)
        check_columns(graphs)
        assert graphs.x.isfinite().all()
        assert len(graphs.batch(torch.arange(len(graphs))).target) == len(graphs)


@quick
@given(kinds=st.sets(st.sampled_from(sorted(FILES)), min_size=1, max_size=2), changes=CHANGES)
def test_damaged_text(tmp_path: Path, kinds: set[str], changes: list):
    for kind, text in FILES.items():
        content = damaged(text.encode(), changes) if kind in kinds else text.encode()
        (tmp_path / f"TOY_{kind}.txt").write_bytes(content)
    read(tmp_path)


def packed(method: int) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for kind, text in FILES.items():
            archive.writestr(f"TOY/TOY_{kind}.txt", text)
    return file.getvalue()


ZIPS = [packed(m) for m in (zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2)]


@quick
@given(content=st.sampled_from(ZIPS), seed=st.integers(0, 10**6), count=st.integers(1, 8))
def test_damaged_zips(tmp_path: Path, content: bytes, seed: int, count: int):
    random, changed = np.random.RandomState(seed), bytearray(content)
    for at in random.randint(0, len(content), count):
        changed[at] = random.randint(256)
    (tmp_path / "TOY.zip").write_bytes(changed)
    read(tmp_path / "TOY.zip")


@pytest.mark.parametrize("content", ZIPS)
def test_what_is_not_damaged_is_read(tmp_path: Path, content: bytes):
    (tmp_path / "TOY.zip").write_bytes(content)
    assert len(read_tu(tmp_path / "TOY.zip")) == 2
