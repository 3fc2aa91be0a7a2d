"""The README's Python runs as it is written."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_code_runs():
    blocks = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.S)
    assert blocks
    for block in blocks:
        names = {}
        exec(compile(block, str(README), "exec"), names)
        assert names["x"].shape == (2, 64)
        assert names["edge_index"].shape == (2, 4)
