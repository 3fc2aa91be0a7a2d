import io
import re

import numpy as np
import pandas as pd
import pytest
from runs import make_results

from lcpool.report import Report
from lcpool.report.diagram import diagrams
from lcpool.report.tables import csv, latex, layouts, markdown, ranking

HOSTILE = (
    "a|b",
    "<script>alert(1)</script>",
    "x_y & 100% {z} \\end",
    "*bold* `code`",
    "two\nlines",
)


@pytest.fixture(scope="module")
def report() -> Report:
    return Report.of(make_results())


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
        for pool, row in zip(layout.pools, table[2:], strict=True):
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


def test_a_single_backbone_is_not_ranked_twice():
    one = Report.of(make_results(backbones=("plain",), convs=("gcn",)))
    assert list(ranking(one).index) == ["all, by dataset"]
    assert len(diagrams(one)) == 1
    two = Report.of(make_results(backbones=("plain",)))
    assert list(ranking(two).index) == ["plain, gcn", "plain, graphconv", "all, by dataset"]
    assert len(diagrams(two)) == 3


def test_csv_reads_back(report: Report):
    found = pd.read_csv(io.StringIO(csv(report)))
    assert len(found) == 192
    assert found["mean"].to_numpy() == pytest.approx(report.cells["mean"].to_numpy(), rel=1e-5)
    assert found["agrees"].sum() == report.agreeing[0]


def test_latex_has_as_many_columns_as_it_says(report: Report):
    text = latex(report)
    _balanced(text)
    for columns, body in re.findall(r"\\begin{tabular}{(l c*|lc*)}(.*?)\\end{tabular}", text, re.S):
        lines = [line for line in body.splitlines() if "&" in line]
        assert {line.count(" & ") + 1 for line in lines} == {len(columns)}
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 5
    assert r"$\pm$" in text


def test_names_of_any_kind():
    report = Report.of(make_results(datasets=HOSTILE, pools=("lcpool", *HOSTILE)))
    found = tables_of(markdown(report))
    assert {len(row) for table in found[:4] for row in table} == {6}
    assert "<script" not in markdown(report)
    text = latex(report)
    _balanced(text)
    assert r"x\_y \& 100\% \{z\} \textbackslash{}end" in text


def test_missing_cells_and_single_runs_are_dashes_and_bare_means():
    results = make_results(datasets=("DD", "NCI1"), pools=("nopool", "lcpool"), runs=1)
    gone = (results.runs["dataset"] == "DD") & (results.runs["pool"] == "lcpool")
    results.runs.loc[results.runs["dataset"] == "NCI1", "test_accuracy"] = np.nan
    object.__setattr__(results, "runs", results.runs[~gone].reset_index(drop=True))
    report = Report.of(results)
    for text in (markdown(report), latex(report)):
        assert not re.search(r"nan|none|inf\b", text, re.I)
    assert tables_of(markdown(report))[0][3][1:] == ["–", "–<br><sub>79.10 ± 1.75</sub>"]
    assert ranking(report).empty


def _balanced(text: str) -> None:
    depth = 0
    for token in re.findall(r"\\.|[{}]", text, re.S):
        depth += {"{": 1, "}": -1}.get(token, 0)
        assert depth >= 0
    assert depth == 0
