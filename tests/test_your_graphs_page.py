"""The examples of docs/your-graphs.md run as they stand there, one after the other."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "your-graphs.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.slow
def test_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in BLOCKS[:2]:
        exec(block, names)
    printed = capsys.readouterr().out.splitlines()
    (said,) = re.findall(r"print\(graphs\)  # (.*)", PAGE)
    assert printed[0] == said
    assert names["accuracies"].mean() > 0.8
    assert Path("networks.pt").exists()
    assert Path("pooled.png").read_bytes().startswith(b"\x89PNG")
    assert names["one"].levels[0].perm is not None
    from_networkx = names["graphs"]
    exec(BLOCKS[2], names)
    graphs = names["graphs"]
    assert graphs.known() == from_networkx.known()
    assert graphs.edge_counts.tolist() == from_networkx.edge_counts.tolist()
    assert names["classifier"].score(names["new"]) > 0.8
    for file, shown in zip(
        ("edges.csv", "graphs.csv"), re.findall(r"```csv\n(.*?)```", PAGE, re.DOTALL), strict=True
    ):
        assert Path(file).read_text().startswith(shown)
    for block in BLOCKS[3:]:
        exec(block, names)
    assert names["search"].best_params_.keys() == {"pool", "hidden"}
    tried = [trial.pool for trial in names["chosen"].pool_choice_.trials]
    assert all(f"`{pool}`" in PAGE for pool in tried)


def test_about_thirty_lines_lead_to_a_prediction():
    lines = [line for block in BLOCKS[:2] for line in block.splitlines() if line.strip()]
    assert len(lines) <= 30
