import io
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from runs import make_results

from lcpool.data.published import published_ranks
from lcpool.models import Architecture
from lcpool.report import Report
from lcpool.report.diagram import diagrams
from lcpool.report.rankings import ALL, misprints, rankings, recomputed_ranks
from lcpool.report.tables import csv, latex, layouts, markdown, ranks_csv
from lcpool.sweep.results import Results

HOSTILE = (
    "a|b",
    "<script>alert(1)</script>",
    "x_y & 100% {z} \\end",
    "*bold* `code`",
    "two\nlines",
    "[3pt] \"quoted\" -- ''it''",
    "β-Größe 数 \x07",
)


@pytest.fixture(scope="module")
def report() -> Report:
    return Report.of(make_results(runs=5))


def tables_of(text: str) -> list[list[list[str]]]:
    """The cells of Markdown's tables; a bar after a backslash separates nothing."""
    blocks = re.findall(r"(?:^\|.*\n)+", text, flags=re.M)
    split = re.compile(r"(?<!\\)\|")
    return [
        [[cell.strip() for cell in split.split(line)[1:-1]] for line in block.splitlines()]
        for block in blocks
    ]


def test_markdown_says_what_the_cells_say(report: Report):
    found = tables_of(markdown(report))
    assert len(found) == 5  # Four of accuracies, one of ranks.
    for table, layout in zip(found, layouts(report.cells), strict=False):
        assert table[0][1:] == layout.datasets
        *rows, sizes = table[2:]
        assert sizes[1:] == [layout.held_out[dataset].size for dataset in layout.datasets]
        for pool, row in zip(layout.pools, rows, strict=True):
            assert row[0].replace("\\", "") == pool
            for dataset, text in zip(layout.datasets, row[1:], strict=True):
                cell = layout.cells[pool, dataset]
                ours, *paper = text.split("<br>")
                assert ours.strip("*") == f"{cell['mean']:.2f} ± {cell['std']:.2f}"
                assert ours.startswith("**") == cell["best"]
                if paper:
                    mark = "✓" if cell["agrees"] else "✗"
                    figure = f"{cell['paper_mean']:.2f} ± {cell['paper_std']:.2f}"
                    assert paper == [f"<sub>{figure} {mark}</sub>"]


def test_the_highest_of_each_group_is_best_but_for_the_variant():
    results = make_results()
    results.runs.loc[results.runs["pool"] == "lcpool*", "test_accuracy"] = 99.0
    cells = Report.of(results).cells
    best = cells[cells["best"]]
    assert set(best["pool"]) <= set(cells["pool"]) - {"lcpool*"}
    assert len(best) == 24
    for _, group in cells[cells["pool"] != "lcpool*"].groupby(["dataset", "backbone", "conv"]):
        assert group.loc[group["mean"].idxmax(), "best"]


def test_a_variant_of_nothing_is_a_pooling_like_others():
    report = Report.of(make_results(pools=("nopool", "lcpool*")))
    assert report.ranked.pools == ("nopool", "lcpool*")


def test_on_own_data_the_variant_is_a_pooling_like_others():
    report = Report.of(make_results(datasets=("MINE",)))
    assert "lcpool*" in report.ranked.pools
    assert "aside" not in markdown(report)


def test_other_settings_of_the_variant_are_aside_too():
    usual, other = make_results(), make_results(architecture=Architecture(ratio=0.25))
    report = Report.of(Results(pd.concat([usual.runs, other.runs], ignore_index=True)))
    assert report.aside == {"lcpool*", "lcpool* (ratio=0.25)"}
    assert not report.aside & set(report.ranked.pools)
    assert not report.cells[report.cells["best"]]["pool"].isin(report.aside).any()


def test_a_single_backbone_is_not_ranked_twice():
    one = Report.of(make_results(backbones=("plain",), convs=("gcn",), runs=5))
    assert [list(ranking.rows) for ranking in rankings(one)] == [[ALL]]
    assert len(diagrams(one)) == 1
    two = Report.of(make_results(backbones=("plain",), runs=5))
    (ranking,) = rankings(two)
    assert list(ranking.rows) == [("plain", "gcn"), ("plain", "graphconv"), ALL]
    assert len(diagrams(two)) == 3


def test_one_group_has_no_ranks_and_one_dataset_no_diagram():
    one = Report.of(make_results(datasets=("MINE",), backbones=("plain",), convs=("gcn",)))
    assert rankings(one) == diagrams(one) == []
    two = Report.of(make_results(datasets=("MINE",), backbones=("plain",)))
    assert len(rankings(two)) == 1
    assert diagrams(two) == []


def test_ranks_beside_the_papers(report: Report):
    (ranking,) = rankings(report)
    assert ranking.beside_paper
    at = ranking.pools.index("nopool")
    rank = ranking.rows["hierarchical", "graphconv"][at]
    assert (rank.printed, round(rank.recomputed, 2)) == (2.33, 2.33)
    assert ranking.rows[ALL][at].printed is None
    first = markdown(report).split("Average rank beside the paper's")[1]
    assert f"{rank.ours:.2f}" in first
    assert "<sub>2.33 / 2.33</sub>" in first
    assert r"{\tiny 2.33 / 2.33}" in latex(report)
    found = pd.read_csv(io.StringIO(ranks_csv(report)), index_col=["backbone", "conv", "pool"])
    row = found.loc["hierarchical", "gcn", "lcpool"]
    assert (row["paper_printed"], round(row["paper_recomputed"], 2)) == (2.33, 2.33)
    assert len(found) == 5 * 7


def test_the_papers_ranks_are_not_all_those_of_its_accuracies(report: Report):
    """Half of them, by up to a third of a rank."""
    far = [
        abs(printed - recomputed_ranks()[backbone][pool])
        for backbone, row in published_ranks().items()
        for pool, printed in row.items()
    ]
    assert max(far) == pytest.approx(0.25, abs=0.01)
    said = "14 of the paper's 28 printed ranks are not what its accuracies give."
    assert misprints() == said
    assert said in markdown(report)
    assert said in latex(report)


def test_settings_are_ranked_beside_the_papers_ranking():
    usual = make_results(runs=5)
    other = make_results(runs=5, pools=("topkpool",), architecture=Architecture(ratio=0.25))
    report = Report.of(Results(pd.concat([usual.runs, other.runs], ignore_index=True)))
    assert [len(ranking.pools) for ranking in rankings(report)] == [7, 8]


def test_csv_reads_back(report: Report):
    found = pd.read_csv(io.StringIO(csv(report)))
    assert len(found) == 192
    assert found["mean"].to_numpy() == pytest.approx(report.cells["mean"].to_numpy(), rel=1e-5)
    assert found["agrees"].sum() == report.agreeing[0]
    assert set(found["split"]) == {"fresh"}
    assert set(found["rule"]) == {"accuracy"}
    assert found["settings"].isna().all()
    assert ((found["low"] < found["mean"]) & (found["mean"] < found["high"])).all()
    assert found["peak_memory"].dtype == int


def test_csv_says_what_was_set_otherwise():
    report = Report.of(make_results(datasets=("DD",), architecture=Architecture(ratio=0.25)))
    assert set(pd.read_csv(io.StringIO(csv(report)))["settings"]) == {"ratio=0.25"}


def test_intervals_end_where_percentages_do():
    results = make_results(datasets=("DD",), runs=5)
    results.runs["test_accuracy"] = 100.0 - 3 * (results.runs["run"] == 1)
    cells = Report.of(results).cells
    assert (cells["high"] == 100).all()
    assert (cells["low"] < cells["mean"]).all()


def test_latex_has_as_many_columns_as_it_says(report: Report):
    text = latex(report)
    _balanced(text)
    for columns, body in re.findall(r"\\begin{tabular}{(lc*)}(.*?)\\end{tabular}", text, re.S):
        lines = [line for line in body.splitlines() if "&" in line]
        assert {line.count(" & ") + 1 for line in lines} == {len(columns)}
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 5
    assert r"$\pm$" in text


def test_names_of_any_kind():
    report = Report.of(make_results(datasets=HOSTILE, pools=("lcpool", *HOSTILE)))
    found = tables_of(markdown(report))
    assert {len(row) for table in found[:4] for row in table} == {len(HOSTILE) + 1}
    assert "<script" not in markdown(report)
    text = latex(report)
    _balanced(text)
    assert r"x\_y \& 100\% \{z\} \textbackslash{}end" in text
    assert "U+03B2{-}Größe U+6570 U+0007" in text
    assert r"{[}3pt{]} {\char34}quoted{\char34} {-}{-}" in text


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="there is no pdflatex here")
@pytest.mark.parametrize("names", ["the paper's", "of any kind", "many"])
def test_latex_compiles_and_fits_the_page(report: Report, names: str, tmp_path: Path):
    if names == "of any kind":
        report = Report.of(
            make_results(datasets=HOSTILE, pools=("lcpool", *HOSTILE), convs=("gcn",))
        )
    elif names == "many":
        report = Report.of(make_results(datasets=[f"DATA{i}" for i in range(20)], convs=("gcn",)))
    (tmp_path / "tables.tex").write_text(latex(report), encoding="utf-8")
    document = r"\documentclass{article}\begin{document}\input{tables}\end{document}"
    command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", document]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout
    assert len(list(tmp_path.glob("*.pdf"))) == 1


def test_missing_cells_and_single_runs_are_dashes_and_bare_means():
    results = make_results(datasets=("DD", "NCI1"), pools=("nopool", "lcpool"), runs=1)
    gone = (results.runs["dataset"] == "DD") & (results.runs["pool"] == "lcpool")
    results.runs.loc[results.runs["dataset"] == "NCI1", "test_accuracy"] = np.nan
    object.__setattr__(results, "runs", results.runs[~gone].reset_index(drop=True))
    report = Report.of(results)
    for text in (markdown(report), latex(report)):
        assert not re.search(r"nan|none|inf\b", text, re.I)
    assert tables_of(markdown(report))[0][3][1:] == ["–", "–<br><sub>79.10 ± 1.75</sub>"]
    assert rankings(report) == []


def _balanced(text: str) -> None:
    depth = 0
    for token in re.findall(r"\\.|[{}]", text, re.S):
        depth += {"{": 1, "}": -1}.get(token, 0)
        assert depth >= 0
    assert depth == 0
