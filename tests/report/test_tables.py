"""Tables in every format, and the summary of the terminal."""

import io
import itertools
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from runs import DATASETS, POOLS, make_results

from lcpool.models import Architecture
from lcpool.report import Reference, Report
from lcpool.report.plots import diagrams
from lcpool.report.tables import ALL, csv, latex, layouts, markdown, summary
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
    """Beside published figures of some cells, from which ours are not far."""
    cells = itertools.product(DATASETS, ("plain",), ("gcn", "graphconv"), POOLS)
    figures = {cell: (71.0, 3.0) for cell in cells if cell[-1] != "asapool"}
    return Report.of(make_results(runs=5), reference=Reference("paper", figures, runs=10))


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
                    figure = f"{cell['reference_mean']:.2f} ± {cell['reference_std']:.2f}"
                    assert paper == [f"<sub>{figure} {mark}</sub>"]


def test_a_single_backbone_is_not_ranked_twice():
    one = Report.of(make_results(backbones=("plain",), convs=("gcn",), runs=5))
    assert [list(ranking.rows) for ranking in one.rankings()] == [[ALL]]
    assert len(diagrams(one)) == 1
    two = Report.of(make_results(backbones=("plain",), runs=5))
    (ranking,) = two.rankings()
    assert list(ranking.rows) == [("plain", "gcn"), ("plain", "graphconv"), ALL]
    assert len(diagrams(two)) == 3


def test_one_group_has_no_ranks_and_one_dataset_no_diagram():
    one = Report.of(make_results(datasets=("MINE",), backbones=("plain",), convs=("gcn",)))
    assert one.rankings() == diagrams(one) == []
    two = Report.of(make_results(datasets=("MINE",), backbones=("plain",)))
    assert len(two.rankings()) == 1
    assert diagrams(two) == []


def test_csv_reads_back(report: Report):
    found = pd.read_csv(io.StringIO(csv(report)))
    assert len(found) == 192
    assert found["mean"].to_numpy() == pytest.approx(report.cells["mean"].to_numpy(), rel=1e-5)
    assert found["agrees"].sum() == report.agreeing[0] > 0
    assert found["agrees"].count() == report.agreeing[1] == 84
    assert (found["paper_mean"].dropna() == 71).all()
    assert set(found["split"]) == {"fresh"}
    assert set(found["rule"]) == {"accuracy"}
    assert found["settings"].isna().all()
    assert ((found["low"] < found["mean"]) & (found["mean"] < found["high"])).all()
    assert found["peak_memory"].dtype == int


def test_csv_says_what_was_set_otherwise():
    assert "agrees" not in csv(Report.of(make_results(datasets=("DD",))))
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
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 4 + 2  # Eight ranks.
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
def test_latex_compiles_and_fits_the_page_if_names_are_short(
    report: Report, names: str, tmp_path: Path
):
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
    assert names == "of any kind" or "Overfull" not in done.stdout
    assert len(list(tmp_path.glob("*.pdf"))) == 1


def test_missing_cells_and_single_runs_are_dashes_and_bare_means():
    results = make_results(datasets=("DD", "NCI1"), pools=("nopool", "lcpool"), runs=1)
    gone = (results.runs["dataset"] == "DD") & (results.runs["pool"] == "lcpool")
    results.runs.loc[results.runs["dataset"] == "NCI1", "test_accuracy"] = np.nan
    object.__setattr__(results, "runs", results.runs[~gone].reset_index(drop=True))
    report = Report.of(results)
    for text in (markdown(report), latex(report)):
        assert not re.search(r"nan|none|inf\b", text, re.I)
    assert tables_of(markdown(report))[0][3][1:] == ["–", "–"]
    assert report.rankings() == []


def _balanced(text: str) -> None:
    depth = 0
    for token in re.findall(r"\\.|[{}]", text, re.S):
        depth += {"{": 1, "}": -1}.get(token, 0)
        assert depth >= 0
    assert depth == 0


MINE = {"datasets": ("A", "B", "C"), "backbones": ("plain",), "pools": tuple("abcd")}


def report_without(gone, **options) -> Report:
    results = make_results(**{**MINE, **options})
    return Report.of(Results(results.runs[~gone(results.runs)].reset_index(drop=True)))


def test_ranked_poolings_have_the_accuracies_that_they_are_ranked_by():
    report = Report.of(make_results())
    found, c = summary(report), report.ranked
    assert found.datasets == c.datasets
    assert not found.unranked
    assert [row.pool for row in found.rows] == c.order
    ranks = dict(zip(c.pools, c.average_ranks(c.means), strict=True))
    blocks = dict(zip(c.pools, c.blocks(c.means).T, strict=True))
    for row in found.rows:
        assert row.rank == ranks[row.pool]
        accuracies = [row.means[dataset].accuracy for dataset in c.datasets]
        assert accuracies == pytest.approx(blocks[row.pool])
        assert {(mean.groups, mean.of) for mean in row.means.values()} == {(4, 4)}


def test_a_pooling_with_a_failed_cell_has_no_rank_but_its_accuracies():
    report = report_without(
        lambda runs: (runs["dataset"] == "B") & (runs["pool"] == "c") & (runs["conv"] == "gcn")
    )
    found = summary(report)
    assert [row.pool for row in found.rows] == [*report.ranked.order, "c"]
    assert [row.rank is None for row in found.rows] == [False, False, False, True]
    means = found.rows[-1].means
    assert {name: (mean.groups, mean.of) for name, mean in means.items()} == {
        "A": (2, 2), "B": (1, 2), "C": (2, 2)
    }  # fmt: skip
    cells = report.cells.set_index(["dataset", "conv", "pool"])["mean"]
    assert means["B"].accuracy == pytest.approx(cells["B", "graphconv", "c"])
    assert means["A"].accuracy == pytest.approx(cells["A", :, "c"].mean())


def test_a_dataset_that_has_just_begun_is_shown_last():
    report = report_without(lambda runs: (runs["dataset"] == "A") & (runs["pool"] != "a"))
    found = summary(report)
    assert found.datasets == ["B", "C", "A"]
    assert found.unranked == {"A"}
    assert {row.pool for row in found.rows if "A" in row.means} == {"a"}
    assert all(row.rank is not None for row in found.rows)


def test_a_backbone_that_is_not_ranked_is_in_no_mean():
    report = report_without(lambda runs: (runs["conv"] == "gcn") & (runs["pool"] != "a"))
    (left_out,) = report.ranked.left_out
    assert (left_out.kind, left_out.name) == ("backbone", "plain, gcn")
    cells = report.cells.set_index(["dataset", "conv", "pool"])["mean"]
    for row in summary(report).rows:
        for dataset, mean in row.means.items():
            assert mean[:3] == (pytest.approx(cells[dataset, "graphconv", row.pool]), 1, 1)


def test_what_cannot_be_compared_is_shown_all_the_same():
    found = summary(Report.of(make_results(**{**MINE, "pools": ("a",)})))
    assert [(row.pool, row.rank) for row in found.rows] == [("a", None)]
    assert found.datasets == ["A", "B", "C"]


def test_nothing_has_a_result():
    results = make_results(**MINE)
    results.runs["test_accuracy"] = np.nan
    found = summary(Report.of(results))
    assert (found.datasets, found.rows) == ([], [])
