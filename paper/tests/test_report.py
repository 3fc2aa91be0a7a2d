"""Reports beside the paper."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from paper_runs import make_results
from said import naming, numbers

from lcpool.models import Architecture
from lcpool.report.tables import markdown
from lcpool.sweep.results import Results
from lcpool.train import Protocol
from paper.__main__ import main
from paper.published import published_beside, published_ranks
from paper.rankings import misprinted, recomputed_ranks
from paper.report import PaperReport


@pytest.fixture(scope="module")
def report() -> PaperReport:
    return PaperReport.of(make_results(runs=5))


def said(results: Results) -> str:
    """The sentences of a page."""
    return " ".join(" ".join(texts) for texts in PaperReport.of(results).findings().values())


def test_the_page_has_claims_and_agreement(report: PaperReport):
    assert len(report.claims) == 7
    text = report.page()
    agreeing, judged = report.agreeing
    assert f"{agreeing} of {judged} " in text
    assert all(f"{cell['mean']:.2f} ± {cell['std']:.2f}" in text
               for cell in report.cells.to_dict("records"))  # fmt: skip
    assert text.count('<p class="verdict ') == 7


def test_few_runs_leave_the_claims_out():
    few = make_results(datasets=("DD",))
    report = PaperReport.of(few)
    assert not report.claims
    assert "LCPool" in said(few)  # what claims need


def test_own_data_is_not_compared_with_the_paper():
    text = PaperReport.of(make_results(datasets=("MINE",), convs=("gcn",), runs=10)).page()
    assert "paper" not in text.split("</style>")[1].lower()


def test_the_papers_own_accuracies():
    """NoPool has the lowest rank for hierarchical GraphConv, whatever its text says."""
    c = PaperReport.of(make_results(runs=5)).paper
    means = published_beside(c)
    assert np.isnan(means).sum() == 1
    row = c.backbone_ranks(means)[c.backbones.index(("hierarchical", "graphconv"))]
    assert c.pools[row.argmin()] == "nopool"
    assert row.min() == pytest.approx(2.33, abs=0.005)
    assert published_beside(PaperReport.of(make_results(datasets=("MINE",))).ranked) is None


def test_a_cell_with_few_runs_is_not_put_to_the_papers_claims():
    results = make_results(datasets=("DD", "NCI1", "COX2"), runs=5)
    few = results.runs[["dataset", "conv", "pool"]].eq(["DD", "gcn", "asapool"]).all(axis=1)
    runs = results.runs[~(few & (results.runs["run"] > 2))].reset_index(drop=True)
    report = PaperReport.of(Results(runs))
    assert "asapool" in report.ranked.pools
    assert not any(report.ranked.left_out)
    assert report.paper.left_out.pools == {}
    assert {group[0] for group in report.paper.left_out.groups} == {"DD"}
    assert len(report.paper.groups) == 10
    # Left out of the ranking, and two of its runs of the verdict.
    assert sum("asapool" in text for text in report.findings()["missing"]) == 2


def test_the_highest_of_each_group_is_best_but_for_the_variant():
    results = make_results()
    results.runs.loc[results.runs["pool"] == "lcpool*", "test_accuracy"] = 99.0
    cells = PaperReport.of(results).cells
    best = cells[cells["best"]]
    assert set(best["pool"]) <= set(cells["pool"]) - {"lcpool*"}
    assert len(best) == 24
    for _, group in cells[cells["pool"] != "lcpool*"].groupby(["dataset", "backbone", "conv"]):
        assert group.loc[group["mean"].idxmax(), "best"]


def test_a_variant_of_nothing_is_a_pooling_like_others():
    report = PaperReport.of(make_results(pools=("nopool", "lcpool*")))
    assert report.ranked.pools == ("nopool", "lcpool*")


def test_on_own_data_the_variant_is_a_pooling_like_others():
    report = PaperReport.of(make_results(datasets=("MINE",)))
    assert "lcpool*" in report.ranked.pools
    assert "without" not in markdown(report)


def test_other_settings_of_the_variant_are_aside_too():
    usual, other = make_results(), make_results(architecture=Architecture(ratio=0.25))
    report = PaperReport.of(Results(pd.concat([usual.runs, other.runs], ignore_index=True)))
    assert report.aside == {"lcpool*", "lcpool* (ratio=0.25)"}
    assert not report.aside & set(report.ranked.pools)
    assert not report.cells[report.cells["best"]]["pool"].isin(report.aside).any()


def test_the_papers_ranks_are_not_all_those_of_its_accuracies():
    """Half of them, by up to a third of a rank."""
    far = [
        abs(printed - recomputed_ranks()[backbone][pool])
        for backbone, row in published_ranks().items()
        for pool, printed in row.items()
    ]
    assert max(far) == pytest.approx(0.25, abs=0.01)
    assert len(misprinted()) == 14
    assert recomputed_ranks()["hierarchical", "gcn"]["lcpool"] == pytest.approx(2.33, abs=0.005)


def test_the_claims_link_to_an_audit():
    report = PaperReport.of(make_results(runs=5))
    linked = replace(report, audit="../an & audit.md").page()
    assert '<a href="../an &amp; audit.md">the audit</a>' in linked
    assert '<a href="../an &amp; audit.md">The audit</a>' in linked.split("</nav>")[0]
    assert "<code>docs/paper-audit.md</code>" in report.page()


def test_cells_trained_otherwise_are_not_compared_and_counted():
    results = make_results(datasets=("DD",), runs=5, protocol=Protocol(epochs=3))
    report = PaperReport.of(results)
    assert not report.claims
    assert report.findings()["agreement"] == []
    assert report.cells["agrees"].isna().all()
    assert "(epochs=3)" in said(results)


def test_the_winner_is_compared_and_lcpool_for_the_claims():
    results = make_results(runs=5)
    results.runs["test_accuracy"] += 9 * (results.runs["pool"] == "sagpool")
    text = PaperReport.of(results).page()
    assert {"sagpool", "lcpool"} <= set(re.findall(r">\s*(\w+), ", text))


def test_both_splits_of_several_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """As each split's report alone."""
    paths = [
        make_results(datasets=("DD",), runs=2, split=split).write(tmp_path / f"{split}.csv")
        for split in ("fresh", "shared")
    ]
    files = {"report.html", "tables.md", "tables.tex", "tables.csv", "ranks.csv", "verdicts.csv",
             "sensitivity.csv"}  # fmt: skip
    main(["report", *map(str, paths), "--out", str(tmp_path / "both")])
    printed = capsys.readouterr().out
    once = contents(tmp_path / "both")
    agreement = once.pop("agreement.md").decode()
    assert once.keys() == {f"{split}/{name}" for split in ("fresh", "shared") for name in files}
    for path in paths:
        report = PaperReport.of(Results.read(path))
        report.write(tmp_path / path.stem)
        for name, content in contents(tmp_path / path.stem).items():
            assert once[f"{path.stem}/{name}"] == content
        agree, judged = report.agreeing
        assert f"| {path.stem} | accuracy | {agree} of {judged} |" in agreement
        (line,) = naming(printed, f"{path.stem} ", "accuracy")
        assert numbers(line)[:2] == [agree, judged]


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
