"""The examples of docs/show.md and docs/pyg.md run as they stand there."""

import re
from pathlib import Path

import pytest
import torch
from matplotlib.figure import Figure

from lcpool.data import builtin

DOCS = Path(__file__).parents[1] / "docs"


def blocks(name: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (DOCS / name).read_text("utf-8"), re.DOTALL)


@pytest.mark.slow
def test_what_was_pooled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in blocks("show.md"):
        exec(block, names)
    assert len(names["pooled"]) == 40
    assert Path("drawn.pdf").read_bytes().startswith(b"%PDF")
    assert isinstance(names["figure"], Figure)
    assert len(names["figure"].axes) == 3


def test_a_network_of_pyg_before_and_after():
    graphs = builtin(num_graphs=6)
    batch = graphs.batch(torch.arange(6))
    names: dict = {}
    before, after, *_ = blocks("pyg.md")
    exec(before, names)
    exec(after, names)
    networks = [names[name](graphs.num_features, 3) for name in ("WithTopK", "WithLCPool")]
    for network in networks:
        out = network(batch.x, batch.edge_index, batch.batch)
        assert out.shape == (6, 3)
        out.sum().backward()
        assert all(p.grad is not None for p in network.pools.parameters())
