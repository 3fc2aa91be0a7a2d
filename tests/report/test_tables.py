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
from lcpool.report.plots import diagram
from lcpool.report.tables import ALL, csv, latex, layouts, markdown, rank_rows, ranks_csv, summary
from lcpool.sweep.results import Results

HOSTILE = (
    "a|b",
    "<script>alert(1)</script>",
    "x_y & 100% {z} \\end",
    "*bold* `code`",
    "two\nlines",
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
    assert len(found) == 6  # Four of accuracies, one of verdicts, one of ranks.
    for table, layout in zip(found, layouts(report.cells), strict=False):
        assert table[0][1:] == layout.datasets
        *rows, sizes = table[2:]
        assert sizes == ["test graphs", *layout.sizes["test graphs"]]
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
    assert list(rank_rows(one.ranked)) == [ALL]
    two = Report.of(make_results(backbones=("plain",), runs=5))
    assert list(rank_rows(two.ranked)) == [("plain", "gcn"), ("plain", "graphconv"), ALL]


def test_one_group_has_no_ranks_and_one_dataset_no_diagram():
    one = Report.of(make_results(datasets=("MINE",), backbones=("plain",), convs=("gcn",)))
    assert rank_rows(one.ranked) == {}
    assert diagram(one) is None
    two = Report.of(make_results(datasets=("MINE",), backbones=("plain",)))
    assert len(rank_rows(two.ranked)) == 3
    assert diagram(two) is None


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


def test_ranks_read_back(report: Report):
    found, c = pd.read_csv(io.StringIO(ranks_csv(report))), report.ranked
    assert len(found) == 5 * 8
    overall = found[found["backbone"] == "all"].set_index("pool")["rank"]
    assert list(overall[list(c.pools)]) == pytest.approx(list(c.rank.values()), rel=1e-5)


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
        spans = [line for line in lines if "multicolumn" in line]
        assert {line.count(" & ") + 1 for line in lines if line not in spans} == {len(columns)}
        assert re.findall(r"multicolumn{(\d+)}", body) == [str(len(columns) - 1)]
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 4 + 2
    cells = re.findall(r"(\d+\.\d+) \$\\pm\$ \d+\.\d+", text)
    assert len(cells) == 192 + 84  # Published figures, too.


def test_names_of_any_kind():
    report = Report.of(make_results(datasets=HOSTILE, pools=("lcpool", *HOSTILE)))
    found = tables_of(markdown(report))
    assert {len(row) for table in found[:4] for row in table} == {len(HOSTILE) + 1}
    assert "<script" not in markdown(report)
    text = latex(report)
    _balanced(text)
    assert r"x\_y \& 100\% \{z\} \textbackslash end" in text


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="there is no pdflatex here")
def test_latex_compiles(report: Report, tmp_path: Path):
    (tmp_path / "tables.tex").write_text(latex(report), encoding="utf-8")
    document = (
        r"\documentclass{article}\usepackage{booktabs}\begin{document}\input{tables}\end{document}"
    )
    command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", document]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, errors="replace", timeout=120
    )
    assert done.returncode == 0, done.stdout[-2000:]


def test_missing_cells_and_single_runs_are_dashes_and_bare_means():
    results = make_results(datasets=("DD", "NCI1"), pools=("nopool", "lcpool"), runs=1)
    gone = (results.runs["dataset"] == "DD") & (results.runs["pool"] == "lcpool")
    results.runs.loc[results.runs["dataset"] == "NCI1", "test_accuracy"] = np.nan
    object.__setattr__(results, "runs", results.runs[~gone].reset_index(drop=True))
    report = Report.of(results)
    for text in (markdown(report), latex(report)):
        assert not re.search(r"nan|none|inf\b", text, re.I)
    assert tables_of(markdown(report))[0][3][1:] == ["–", "–"]
    assert rank_rows(report.ranked) == {}


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
    (header, rows, sizes), c = summary(report), report.ranked
    assert header[1:] == [*c.datasets, "average rank"]
    assert [row[0] for row in rows] == c.order
    blocks = dict(zip(c.pools, c.blocks(c.means).T, strict=True))
    for pool, *accuracies, rank in rows:
        assert float(rank) == pytest.approx(c.rank[pool], abs=0.006)
        assert [float(a) for a in accuracies] == pytest.approx(blocks[pool], abs=0.006)
    assert [len(row) for row in sizes] == [len(header)]


def test_a_pooling_with_few_cells_has_no_rank_but_its_accuracies():
    report = report_without(
        lambda runs: (runs["pool"] == "c") & ((runs["dataset"] != "B") | (runs["conv"] == "gcn"))
    )
    _, rows, _ = summary(report)
    assert [row[0] for row in rows] == [*report.ranked.order, "c"]
    assert [row[-1] == "–" for row in rows] == [False, False, False, True]
    mean = report.cells.set_index(["dataset", "conv", "pool"])["mean"]["B", "graphconv", "c"]
    assert rows[-1] == ["c", "–", f"{mean:.2f} (1 of 2)", "–", "–"]


def test_a_dataset_that_has_just_begun_is_shown_last():
    header, rows, _ = summary(
        report_without(lambda runs: (runs["dataset"] == "A") & (runs["pool"] != "a"))
    )
    assert [name.split()[0] for name in header[1:4]] == ["B", "C", "A"]
    assert {row[0] for row in rows if row[3] != "–"} == {"a"}
    assert all(float(row[-1]) for row in rows)


def test_a_network_that_is_not_ranked_is_in_no_mean():
    report = report_without(lambda runs: (runs["conv"] == "gcn") & (runs["pool"] != "a"))
    assert {group[2] for group in report.ranked.left_out.groups} == {"gcn"}
    cells = report.cells.set_index(["dataset", "conv", "pool"])["mean"]
    _, rows, _ = summary(report)
    for pool, *accuracies, _ in rows:
        expected = [f"{cells[dataset, 'graphconv', pool]:.2f}" for dataset in "ABC"]
        assert accuracies == expected


def test_what_cannot_be_compared_is_shown_all_the_same():
    header, rows, _ = summary(Report.of(make_results(**{**MINE, "pools": ("a",)})))
    assert [row[0] for row in rows] == ["a"]
    assert [name.split()[0] for name in header[1:]] == ["A", "B", "C"]


def test_nothing_has_a_result():
    results = make_results(**MINE)
    results.runs["test_accuracy"] = np.nan
    header, rows, _ = summary(Report.of(results))
    assert (len(header), rows) == (1, [])
