"""HTML forms of objects: small, escaped, and without colours of their own."""

import math
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from runs import make_results

from lcpool.data import builtin
from lcpool.notebook import MOST_ROWS, card
from lcpool.report import Report, hierarchical
from lcpool.report.findings import answer
from lcpool.train import train

HOSTILE = "<script>alert('x')</script>&"


class Cells(HTMLParser):
    """The rows of all tables as text, and every tag."""

    def __init__(self, page):
        super().__init__()
        self.rows, self.tags, self.open = [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] in (["td"], ["th"]):
            self.rows[-1].append(data)


def test_texts_are_escaped_and_long_tables_are_cut():
    rows = [(HOSTILE, n) for n in range(MOST_ROWS + 5)]
    page = card(HOSTILE, {HOSTILE: HOSTILE}, (HOSTILE, "n"), rows)
    found = Cells(page)
    assert "script" not in found.tags
    assert found.rows[0] == [HOSTILE, HOSTILE]
    assert found.rows[2:] == [[HOSTILE, str(n)] for n in range(MOST_ROWS)]
    assert "5 more" in page
    assert not found.open


@pytest.mark.slow
def test_a_result_and_its_model():
    graphs = replace(builtin(num_graphs=40), name=HOSTILE)
    result = train(graphs, "topkpool", runs=2, epochs=2, hidden=8, device="cpu")
    pages = [of._repr_html_() for of in (result, result.model)]
    assert all("<script" not in page and "color" not in page for page in pages)
    facts = {row[0]: row[1:] for row in Cells(pages[0]).rows}
    assert facts["test accuracy"] == [f"{result.mean():.2f} ± {result.std():.2f} %"]
    for run in result.runs:
        figures = 100 * run.choices["accuracy"].value, 100 * run.test["accuracy"][0]
        assert facts[str(run.number)][2:] == [f"{figure:.2f} %" for figure in figures]
    model = {row[0]: row[1] for row in Cells(pages[1]).rows}
    assert model["predicts"].endswith(": 0, 1")
    assert model["graphs"] == "32 trained, 4 validated, 4 tested"
    assert "hidden=8" in model["network"]


@pytest.mark.slow
def test_runs_that_diverged():
    result = train(builtin(num_graphs=40), "nopool", runs=1, epochs=1, hidden=4, device="cpu")
    (run,) = result.runs
    run.diverged, run.choices["accuracy"].epoch, run.test = 1, 0, {"accuracy": (math.nan,) * 2}
    assert Cells(result._repr_html_()).rows[-1] == ["0", "1", "–", "–", "diverged"]


def test_a_report_answers_with_its_verdicts(monkeypatch):
    monkeypatch.setattr(hierarchical, "DRAWS", 20)
    monkeypatch.setattr(hierarchical, "WARMUP", 5)
    results = make_results(runs=3)
    results.runs.loc[results.runs["pool"] == "sagpool", "pool"] = HOSTILE
    report = Report.of(results)
    rows = Cells(report._repr_html_()).rows
    assert ["answer", " ".join(answer(report))] in rows
    assert {rival.pool for rival in report.verdicts.rivals} <= {row[0] for row in rows}
    found = Cells(report.ranked._repr_html_()).rows[-len(report.ranked.pools) :]
    assert [row[0] for row in found] == report.ranked.order
    assert [float(row[1]) for row in found] == pytest.approx(
        sorted(report.ranked.rank.values()), abs=0.005
    )
    for page in (report._repr_html_(), report.ranked._repr_html_()):
        assert "<script" not in page
        assert not Cells(page).open


def test_reports_are_printed_in_a_line():
    """A cell of a notebook prints what it ends with: not thousands of curves."""
    results = make_results(runs=3)
    report = Report.of(results)
    for one in (results, report, report.ranked, report.verdicts):
        assert len(repr(one)) < 500
        assert "\n" not in repr(one)
    assert str(len(results.runs)) in repr(results)
