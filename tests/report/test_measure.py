"""Reports on other metrics than accuracy: title, unit, direction; mixed tables are refused."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from runs import make_results
from typer.testing import CliRunner

from lcpool.cli.app import app
from lcpool.report import Report
from lcpool.report.measure import Measure, choose_measure
from lcpool.report.tables import summary
from lcpool.sweep.results import Results
from lcpool.train.metrics import METRICS

POOLS = ("nopool", "topkpool", "lcpool")


def of_values(datasets=("ESOL", "FREESOLV"), metric: str = "rmse", runs: int = 6) -> Results:
    """Runs whose metric is lowest for lcpool and highest for nopool."""
    made = make_results(datasets, ("plain",), ("gcn",), POOLS, runs=runs)
    level = made.runs["pool"].map({"nopool": 0.9, "topkpool": 0.7, "lcpool": 0.5})
    noise = np.random.default_rng(0).normal(0, 0.01, len(made.runs))
    table = made.runs.assign(
        task="values", metric=metric, test_accuracy=np.nan, test_accuracy_by_loss=np.nan,
        test_rmse=level + noise, test_rmse_by_loss=level + noise + 0.1, test_r2=1 - level - noise,
        test_r2_by_loss=1 - level,
    )  # fmt: skip
    return replace(made, runs=table)


@pytest.mark.parametrize("metric", ["rmse", "r2"])
def test_the_best_is_the_lowest_error_or_the_highest_r2(metric: str):
    report = Report.of(of_values(metric=metric))
    assert report.ranked.order == ["lcpool", "topkpool", "nopool"]
    assert report.ranked.first == ["lcpool"]
    best = report.cells[report.cells["best"]]
    assert set(best["pool"]) == {"lcpool"}
    assert report.rule == metric


def test_differences_are_above_zero_where_the_first_is_better():
    report = Report.of(of_values(datasets=("ESOL",)))
    ((title, _, sheet),) = report.differences()
    assert "lcpool" in title
    assert all(row["difference"] > 0 for row in sheet.rows)
    assert all(row["low"] > 0 for row in sheet.rows)
    said, _ = report.findings()["answer"]
    assert "lowest RMSE on ESOL: 0.49" in said
    assert "below the next, topkpool (0.69" in said
    assert {verdict.word for verdict in report.verdicts.rivals} == {"better"}


@pytest.mark.parametrize("metric", ["rmse", "r2"])
def test_errors_in_different_units_are_not_averaged(metric: str):
    results = of_values(("A", "B", "D", "C"), metric)
    runs, last = results.runs, (results.runs["dataset"] == "C") & (results.runs["pool"] == "lcpool")
    worse = {"test_rmse": runs["test_rmse"] + 9 * last, "test_r2": runs["test_r2"] - 9 * last}
    report = Report.of(replace(results, runs=runs.assign(**worse)))
    assert report.ranked.first == ["lcpool"]
    # Errors have no mean over datasets: then the first in rank is the reference.
    assert (report.verdicts.reference == "lcpool") == (metric == "rmse")
    assert report.findings()["answer"]


def test_figures_have_the_title_unit_and_digits_of_the_metric():
    report = Report.of(of_values())
    header, rows, _ = summary(report)
    assert header[0] == "RMSE"
    assert rows[0][0] == "lcpool"
    assert rows[0][1] == f"{report.cells['mean'][report.cells['pool'] == 'lcpool'].iloc[0]:.3f}"
    page = report.page()
    for words in ("Test RMSE (lower is better)", "Rank 1 is the lowest RMSE", "<h2>RMSE</h2>"):
        assert words in page
    assert "ccuracy" not in page.replace("#accuracy", "").replace('id="accuracy"', "")


def test_files_say_which_metric(tmp_path):
    Report.of(of_values()).write(tmp_path)
    table = pd.read_csv(tmp_path / "tables.csv")
    assert set(table["metric"]) == {"rmse"}
    assert (tmp_path / "tables.md").read_text().startswith("# Test RMSE")
    assert "ccuracy" not in (tmp_path / "tables.tex").read_text()


def test_by_loss():
    report = Report.of(of_values(), rule="loss")
    assert report.cells["mean"].min() > 0.55
    with pytest.raises(ValueError, match="rmse, loss"):
        Report.of(of_values(), rule="accuracy")


def test_another_metric_than_the_one_that_chose_the_epochs():
    report = Report.of(of_values(), metric="r2")
    assert (report.measure.title, report.rule) == ("R²", "rmse")
    assert report.ranked.order[0] == "lcpool"
    assert "Validation RMSE by epoch" in report.page()
    with pytest.raises(ValueError, match="r2"):
        Report.of(of_values(), metric="accuracy")
    with pytest.raises(ValueError, match="unknown metric"):
        Report.of(of_values(), metric="rsme")


def test_runs_without_the_metric_are_named_and_not_counted():
    made = of_values()
    made.runs.loc[0, ["test_rmse", "test_rmse_by_loss"]] = np.nan
    report = Report.of(made)
    said = report.findings()["missing"]
    assert said[0].startswith("1 run has no RMSE")
    assert len(said) == 2
    for name in list(made.curves):
        made.curves[name][:, 2] = np.nan
    assert "Validation RMSE" not in Report.of(made).page()


def mixed() -> Results:
    ours, theirs = of_values(), make_results(("NCI1",), ("plain",), ("gcn",), POOLS, runs=6)
    theirs = replace(theirs, runs=theirs.runs.assign(metric="accuracy", task="classes"))
    runs = pd.concat([ours.runs, theirs.runs], ignore_index=True)
    return Results(runs, {**ours.curves, **theirs.curves})


def test_a_mixed_table_is_refused_in_words():
    with pytest.raises(ValueError, match=r"rmse on ESOL and FREESOLV; accuracy on NCI1.*--metric"):
        Report.of(mixed())
    with pytest.warns(UserWarning, match="rmse on ESOL and FREESOLV"):  # what is left out
        assert set(Report.of(mixed(), metric="accuracy").cells["dataset"]) == {"NCI1"}
    assert set(Report.of(mixed(), datasets="ESOL").cells["dataset"]) == {"ESOL"}


def test_a_table_without_the_column_is_about_accuracy():
    made = make_results(("NCI1",), ("plain",), ("gcn",), POOLS)
    for missing in ("", np.nan):
        _, measure = choose_measure(replace(made, runs=made.runs.assign(metric=missing)))
        assert measure == Measure()


def test_on_the_command_line(tmp_path):
    path = mixed().write(tmp_path / "runs.csv")
    refused = CliRunner().invoke(app, ["report", str(path)])
    assert refused.exit_code == 2
    done = CliRunner().invoke(app, ["report", str(path), "--metric", "rmse"])
    assert done.exit_code == 0, done.output
    assert "RMSE" in done.stdout


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_has_its_columns(name: str):
    measure = Measure(METRICS[name], METRICS[name])
    made = make_results(("NCI1",), ("plain",), ("gcn",), POOLS, runs=5).runs
    assert {measure.column(name), measure.column("loss")} <= set(made.columns)


def with_units(results: Results, factors: dict[str, float]) -> Results:
    """The same errors, in other units on each dataset."""
    runs = results.runs
    scale = runs["dataset"].map(factors)
    return replace(results, runs=runs.assign(test_rmse=runs["test_rmse"] * scale))


def test_tests_over_datasets_do_not_depend_on_the_units_of_their_targets():
    names = ("A", "B", "C", "D", "E", "F", "G")
    made = of_values(names)
    noise = np.random.default_rng(1).normal(0, 0.3, len(made.runs))
    made = replace(made, runs=made.runs.assign(test_rmse=made.runs["test_rmse"] * np.exp(noise)))
    changed = with_units(made, dict(zip(names, 10.0 ** np.arange(-12, 9, 3), strict=True)))
    one, other = (Report.of(of).ranked for of in (made, changed))
    assert one.order == other.order
    assert one.rank == other.rank
    assert one.friedman == other.friedman
    np.testing.assert_array_equal(one.backbone_ranks(one.means), other.backbone_ranks(other.means))


def test_an_error_of_zero_is_better_than_any_other():
    made = of_values(("A", "B", "C"))
    runs, first = made.runs, made.runs["pool"] == "lcpool"
    report = Report.of(
        replace(made, runs=runs.assign(test_rmse=runs["test_rmse"].where(~first, 0)))
    )
    assert report.ranked.first == ["lcpool"]
    assert report.page()
