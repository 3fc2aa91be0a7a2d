"""The benchmark's eight verdicts: ``python -m experiments.benchmark.analysis``.

Reads ``runs-main*.csv`` beside this file and writes the result into ``README.md``, between two
marks. What it judges is fixed in that plan.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from experiments.benchmark import by_graph
from experiments.written import write_block
from lcpool.data import load_dataset
from lcpool.report import Report
from lcpool.report.findings import findings
from lcpool.report.tables import Markdown, verdict_rows
from lcpool.report.words import listed, signed
from lcpool.settings import PAPER_CONVS, config_text, read_config_text
from lcpool.sweep.grid import PAPER_DATASETS, Grid, read_grids
from lcpool.sweep.results import Results

HERE = Path(__file__).parent
COMMAND = "python -m experiments.benchmark.analysis"
LCPOOL, OWN = "lcpool", "cellpool"
# LCPool is judged against these; all other contrasts are exploratory.
RIVALS = ("nopool", "topkpool", "sagpool", "asapool", "mincutpool", "diffpool", "kmis")
STYLE = Markdown()


def main() -> None:
    """Print the result and write it into the plan."""
    files = sorted(HERE.glob("runs-main*.csv"))
    text = answered(Results.read(*files)) if files else "No runs yet."
    write_block(HERE / "README.md", COMMAND, text)


def answered(results: Results) -> str:
    """How much of the plan there is, and everything about the datasets that are complete."""
    grids = read_grids(HERE / "main.toml", {})
    planned = len(grids[0].datasets)
    done = complete(results, grids)
    partial = sorted(set(results.runs["dataset"]) - set(done))
    said = [f"{len(done)} of {planned} datasets are complete: {', '.join(done) or 'none'}."]
    if len(done) < planned:
        said.insert(0, "**Preliminary.** The verdicts are those of all datasets.")
    if partial:
        said.append(f"Left out, as not all of their cells were tried: {', '.join(partial)}.")
    if not done:
        return " ".join(said)
    counted = results.where(dataset=done)
    if counted.failures:
        cells = "; ".join(" ".join(failure.names) for failure in counted.failures)
        said.append(f"Failed, and left out of pairs: {cells}.")
    return f"{' '.join([*said, trained_on(counted)])}\n\n{written(counted)}"


def trained_on(results: Results) -> str:
    """Which datasets were trained on which device."""
    devices = results.runs.groupby("device", sort=False)["dataset"].unique()
    return " ".join(f"Trained on {name}: {', '.join(of)}." for name, of in devices.items())


def complete(results: Results, grids: Sequence[Grid]) -> list[str]:
    """The datasets of which every cell of the grids has all its runs, or failed."""
    runs = results.runs
    counts = runs.groupby(["dataset", runs["config"].map(_settings)]).size()
    failed = {(failure.names[0], _settings(failure.config)) for failure in results.failures}
    cells = [
        (_settings(config_text(*configuration)), grid.runs)
        for grid in grids
        for configuration in grid.configurations()
    ]
    return [
        name
        for name in dict.fromkeys(runs["dataset"])
        if all(
            (name, cell) in failed or counts.get((name, cell), 0) >= wanted
            for cell, wanted in cells
        )
    ]


def _settings(config: str) -> str:
    """All settings of a run, also those that its text leaves out."""
    return json.dumps(read_config_text(config), sort_keys=True)


def in_short(results: Results, judged: Report, own: Report | None) -> str:
    """The verdicts in a sentence, and how many datasets tell anything."""
    found: dict[str, list[str]] = {}
    for report in (judged, *([] if own is None else [own])):
        verdicts = report.verdicts
        for word in dict.fromkeys(rival.word for rival in verdicts.rivals):
            rivals = [rival.pairs.other for rival in verdicts.rivals if rival.word == word]
            found.setdefault(word, []).append(f"{verdicts.reference} against {listed(rivals)}")
    said = [f"**{word.capitalize()}**: {'; '.join(pairs)}." for word, pairs in found.items()]
    datasets = results.runs["dataset"].nunique()
    known = datasets - len(judged.uninformative)
    return " ".join([*said, f"Informative are {known} of {datasets} datasets."])


def written(results: Results) -> str:
    """Everything, as Markdown."""
    judged, own, other = reports(results)
    parts = [
        in_short(results, judged, own),
        _section("Judged: LCPool against seven poolings", judged),
    ]
    parts += [] if own is None else [_section("Judged: our own, where it was not chosen", own)]
    parts += [_section("Exploratory: LCPool against the others", other)] if other else []
    if results.predictions:
        parts.append(_by_graph(results))
    control = controls(results)
    if len(control):
        rows = [[name, *(f"{value:.1f}" for value in row)] for name, *row in control.itertuples()]
        header = ["dataset", "largest class, %", "without edges, %", "nopool, %", "LCPool, %"]
        parts.append(f"### Controls\n\n{STYLE.grid(header, rows)}")
    return "\n\n".join(parts)


def reports(results: Results) -> tuple[Report, Report | None, Report | None]:
    """LCPool against its rivals, our own against LCPool where it was not chosen, and the rest."""
    results = results.where(conv=list(PAPER_CONVS))
    runs = results.runs
    there, datasets = set(runs["pool"]), list(dict.fromkeys(runs["dataset"]))
    judged = Report.of(
        results, split="stratified", pools=[p for p in (LCPOOL, *RIVALS) if p in there],
        against=LCPOOL,
    )  # fmt: skip
    further = [name for name in datasets if name not in PAPER_DATASETS]
    own = other = None
    if OWN in there and further:
        own = Report.of(
            results, split="stratified", pools=[LCPOOL, OWN], datasets=further, against=OWN
        )
    if rest := sorted(there - {LCPOOL, *RIVALS}):
        other = Report.of(results, split="stratified", pools=[LCPOOL, *rest], against=LCPOOL)
    return judged, own, other


def _section(title: str, report: Report) -> str:
    """The verdicts of a report: answer, table, power, sensitivity, what is left out."""
    found = findings(report)
    header, rows = verdict_rows(report)
    able = [
        "–" if pd.isna(row.detectable) else f"{row.detectable:.1f}"
        for row in report.verdicts.table.itertuples()
    ]
    rows = [
        [STYLE.escape(row[0]), *row[1:], points] for row, points in zip(rows, able, strict=True)
    ]
    topics = ("answer", "power", "sensitivity", "missing")
    # Of the names of poolings, lcpool* alone is markup.
    said = ["- " + text.replace("*", r"\*") for topic in topics for text in found[topic]]
    grid = STYLE.grid([*header, "found with probability 0.8"], rows)
    return "\n\n".join([f"### {title}", grid, "\n".join(said), _datasets(report)])


def _by_graph(results: Results) -> str:
    """What the regressions of ``by_graph.py`` find, a row per rival."""
    title, rows, lacking = "### Exploratory: on which graphs?", [], []
    for rival in RIVALS:
        table = by_graph.wins(results, LCPOOL, rival, load_dataset)
        if table.empty:
            continue
        r2, found = by_graph.explained(table)
        named = by_graph.holds(r2, found)
        if not named:
            lacking.append(f"{rival} ({signed(r2, 3)})")
            continue
        shown = [
            f"{signed(100 * found[name].mean(), 1)}" if name in named else "–"
            for name in by_graph.PROPERTIES
        ]
        rows.append([rival, str(len(table)), signed(r2, 3), *shown])
    header = ["LCPool −", "graphs", "R² on families left out", *by_graph.PROPERTIES]
    parts = [title]
    if rows:
        parts += [
            "Points of accuracy per standard deviation of a property of the graph; – where it does "
            "not count.",
            STYLE.grid(header, rows),
        ]
    if lacking:
        parts.append(
            "No property says whether LCPool leads in families that the regression has not seen "
            f"(R² there): {', '.join(lacking)}."
        )
    return "\n\n".join(parts)


def _datasets(report: Report) -> str:
    """Mean differences by dataset, rivals across."""
    rivals = report.verdicts.rivals
    tables = [rival.datasets.set_index("dataset")["difference"] for rival in rivals]
    table = pd.concat(tables, axis=1, keys=[rival.pairs.other for rival in rivals])
    header = [f"{report.verdicts.reference} −", *map(STYLE.escape, table.columns)]
    rows = [
        [STYLE.escape(str(name)), *("–" if pd.isna(x) else signed(x, 1) for x in row)]
        for name, *row in table.itertuples()
    ]
    return STYLE.grid(header, rows)


def controls(results: Results) -> pd.DataFrame:
    """By dataset, in percent: the largest class, a network without edges, nopool, LCPool."""
    runs = results.runs[results.runs["split"] == "stratified"]
    edges = runs["conv"].isin(PAPER_CONVS)
    parts = {
        "largest": runs.groupby("dataset", sort=False)["largest_class"].mean(),
        "without": runs[~edges].groupby("dataset")["test_accuracy"].mean(),
        **{pool: runs[edges & (runs["pool"] == pool)].groupby("dataset")["test_accuracy"].mean()
           for pool in ("nopool", LCPOOL)},
    }  # fmt: skip
    return pd.DataFrame(parts).reindex(list(dict.fromkeys(runs["dataset"])))


if __name__ == "__main__":
    main()
