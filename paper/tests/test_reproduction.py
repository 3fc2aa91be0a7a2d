import re
from pathlib import Path

import pandas as pd
import pytest
from paper_runs import make_results

from lcpool.sweep.results import Results
from paper.published import published
from paper.report import PaperReport
from paper.reproduction import Reproduction

SPLITS, RULES = ("fresh", "shared"), ("accuracy", "loss")


def both(**settings) -> Results:
    parts = [make_results(split=split, **settings) for split in SPLITS]
    return Results(pd.concat([part.runs for part in parts], ignore_index=True))


@pytest.fixture(scope="module")
def results() -> Results:
    """As the paper's, but for a cell that is far off on the shared split, by validation loss."""
    made = both(datasets=("DD", "ENZYMES"))
    cell = ["DD", "plain", "gcn", "lcpool*", "shared"]
    far = made.runs[["dataset", "backbone", "conv", "pool", "split"]].eq(cell).all(axis=1)
    made.runs.loc[far, "test_accuracy_by_loss"] = [10.0, 20.0, 30.0]
    return made


def rows_of(text: str, heading: str) -> list[list[str]]:
    """The cells of the table below a heading, without its head."""
    below = text.split(f"## {heading}\n\n")[1].split("\n\n")[0]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in below.splitlines()[2:]]


def test_both_splits_by_both_rules(results: Results):
    made = Reproduction.of(results)
    assert [(analysis.split, analysis.rule) for analysis in made.analyses] == [
        (split, rule) for split in SPLITS for rule in RULES
    ]
    rows = rows_of(made.markdown(), "How many agree")
    for analysis, row in zip(made.analyses, rows, strict=True):
        agree, judged = PaperReport.of(results, analysis.rule, analysis.split).agreeing
        share = f"{100 * agree / judged:.1f} %"
        assert judged == 63
        assert row == [analysis.split, analysis.rule, f"{agree} of 63", share]
        assert f"{agree} of 63" in str(analysis)
        assert f"({share})" in str(analysis)


def test_cells_that_do_not_agree_are_listed_with_every_figure(results: Results):
    made = Reproduction.of(results)
    rows = rows_of(made.markdown(), "Which do not")
    (row,) = (row for row in rows if row[:4] == ["DD", "plain", "gcn", r"lcpool\*"])
    cells = pd.concat(
        [
            analysis.cells.assign(split=analysis.split, rule=analysis.rule)
            for analysis in made.analyses
        ]
    )
    differ = cells[cells["agrees"].eq(False).fillna(False)]
    assert len(rows) == len(differ.drop_duplicates(["dataset", "backbone", "conv", "pool"])) > 0
    assert sum(text.count("✗") for row in rows for text in row) == len(differ)
    cell = differ[(differ["mean"] == 20) & (differ["pool"] == "lcpool*")].iloc[0]
    assert row[4] == f"{cell['reference_mean']:.2f} ± {cell['reference_std']:.2f}"
    off = f"−{cell['reference_mean'] - 20:.2f} / {cell['tolerance']:.2f} ✗"
    assert row[8] == f"20.00 ± 10.00<br><sub>{off}</sub>"
    assert all(re.search(r" / \d+\.\d\d [✓✗]</sub>$", text) for text in row[5:])


def test_what_agreement_would_also_let_pass(results: Results):
    exact = Results(results.runs.copy())
    for names, runs in exact.runs.groupby(["dataset", "backbone", "conv", "pool"]):
        mean, _ = published(*names) or (50.0, 1.0)
        exact.runs.loc[runs.index, "test_accuracy"] = mean + runs["run"] - 1.0
    rows = rows_of(Reproduction.of(exact).markdown(), "What that says")
    assert [row[:2] for row in rows] == [[split, rule] for split in SPLITS for rule in RULES]
    for row in rows[::2]:  # By validation accuracy.
        assert row[2] == "63 of 63"
        assert row[6] == "1.00"
        assert int(row[3]) <= 63
        assert 50 < float(row[4]) <= 63


def test_where_the_runs_come_from(results: Results):
    origin = {
        name: values for name, *values in rows_of(Reproduction.of(results).markdown(), "The runs")
    }
    assert origin["commit"] == ["0" * 40] * 2
    assert origin["device"] == ["a GPU"] * 2
    spent = results.runs.groupby("split")["seconds"].sum()
    assert origin["seconds"] == [f"{spent[split]:.0f}" for split in SPLITS]


def test_cells_that_one_split_lacks(results: Results):
    lacks = (results.runs["split"] == "fresh") & (results.runs["pool"] == "lcpool*")
    made = Reproduction.of(Results(results.runs[~lacks].reset_index(drop=True)))
    rows = rows_of(made.markdown(), "Which do not")
    (row,) = (row for row in rows if row[:4] == ["DD", "plain", "gcn", r"lcpool\*"])
    assert row[5:7] == ["–", "–"]
    assert row[8].endswith("✗</sub>")


def test_files_of_own_data_are_the_reports_alone(tmp_path: Path):
    made = Reproduction.of(both(datasets=("MINE",), pools=("nopool", "lcpool"), runs=2))
    assert made.analyses == []
    made.write(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"fresh", "shared"}


def test_one_split_is_not_both():
    with pytest.raises(ValueError, match=r"'shared'.*'fresh'"):
        Reproduction.of(make_results(datasets=("DD",)))


def test_both_splits_are_chosen_from():
    parts = both(datasets=("DD", "NCI1"), runs=2)
    made = Reproduction.of(parts, pools=["nopool", "lcpool"], datasets="DD")
    assert len(made.analyses) == 4
    for analysis in made.analyses:
        assert set(analysis.cells["pool"]) == {"nopool", "lcpool"}
        assert set(analysis.cells["dataset"]) == {"DD"}
    assert [set(report.cells["dataset"]) for report in made.reports] == [{"DD"}] * 2
