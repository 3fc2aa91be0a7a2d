"""The README's figures are those of the committed results."""

from pathlib import Path

from paper.readme import figures

ROOT = Path(__file__).parents[2]


def test_the_readme_has_the_figures_of_the_results():
    assert figures(ROOT / "paper" / "results") in (ROOT / "README.md").read_text("utf-8"), (
        "run 'make readme'"
    )
