"""The benchmark's eight verdicts: ``python -m experiments.benchmark.analysis``.

Reads ``runs-main*.csv`` beside this file and writes the result into ``README.md``, between two
marks. What it judges is fixed in that plan.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from experiments.benchmark import by_graph
from experiments.written import write_block
from lcpool.data import GraphSet, load_dataset
from lcpool.report import Report
from lcpool.report.comparison import Comparison
from lcpool.report.findings import findings
from lcpool.report.statistics import Difference, over_splits
from lcpool.report.tables import Markdown, verdict_rows
from lcpool.report.verdict import FAMILIES, Verdict, paired
from lcpool.settings import PAPER_CONVS, config_text, read_config_text
from lcpool.sweep.grid import PAPER_DATASETS, Grid, read_grids
from lcpool.sweep.results import Results
from lcpool.words import count, listed, signed

HERE = Path(__file__).parent
COMMAND = "python -m experiments.benchmark.analysis"
SHORT = f"{COMMAND} (in short)"  # the block at the top of the page
LCPOOL, OWN, BASE, WITHOUT = "lcpool", "cellpool", "nopool", "without edges"
# LCPool is judged against these; all other contrasts are exploratory.
RIVALS = ("nopool", "topkpool", "sagpool", "asapool", "mincutpool", "diffpool", "kmis")
STYLE = Markdown()
INFORMATIVE = "informative datasets only"  # what the report calls that analysis
# What a verdict says of a difference.
MEANS = {
    "better": "more than 1 point ahead", "equal": "within 1 point", "worse": "more than 1 point "
    "behind", "not worse": "at most 1 point behind", "not better": "at most 1 point ahead",
    "undecided": "these runs do not tell",
}  # fmt: skip


@dataclass(frozen=True)
class Judged(Report):
    """A report that may be told which datasets are uninformative: one without nopool cannot tell.

    Attributes:
        told: datasets that are, by another report; of them those that this one is about count.
    """

    told: tuple[str, ...] | None = None

    @functools.cached_property
    def uninformative(self) -> list[str] | None:
        """Datasets on which poolings can hardly differ."""
        if self.told is None:
            return super().uninformative
        return [name for name in self.told if name in set(self.runs["dataset"])]

    @functools.cached_property
    def sensitive(self) -> set[str]:
        """The poolings against which another analysis has another verdict."""
        words = {rival.pool: rival.word for rival in self.verdicts.rivals}
        rows = self.sensitivity.itertuples()
        return {row.pool for row in rows if row.verdict != words[row.pool]}

    def named(self, rival: Verdict) -> str:
        """The verdict, with the word for those that other analyses change."""
        return f"{rival.word} (sensitive)" if rival.pool in self.sensitive else rival.word


def main() -> None:
    """Print the result and write it into the plan: the answer at its top, the tables below."""
    for mark, part in blocks(text()).items():
        write_block(HERE / "README.md", mark, part)


def blocks(whole: str) -> dict[str, str]:
    """The two blocks of the page: what comes before the first table, and the rest."""
    short, heading, rest = whole.partition("### ")
    return {SHORT: short.rstrip(), COMMAND: heading + rest or "No tables yet."}


def text() -> str:
    """The result of all files of runs that there are."""
    files = sorted(HERE.glob("runs-main*.csv"))
    return answered(Results.read(*files)) if files else "No runs yet."


def answered(results: Results) -> str:
    """How much of the plan there is, and everything about the datasets that are complete."""
    grids = read_grids(HERE / "main.toml", {})
    planned = len(grids[0].datasets)
    done, cells = complete(results, grids), tried(results, grids)
    counted = results.where(dataset=done)
    said = [
        f"{len(done)} of {planned} datasets are complete, with {len(counted.runs)} runs: "
        f"{', '.join(done) or 'none'}."
    ]
    if len(done) < planned:
        said.insert(0, "**Preliminary.** The verdicts are those of all datasets.")
    if partial := [f"{name} ({n} of {of})" for name, (n, of) in cells.items() if name not in done]:
        said.append(f"Left out, as not all of their cells were tried: {', '.join(partial)}.")
    if not done:
        return " ".join(said)
    if counted.failures:
        failed = "; ".join(" ".join(failure.names) for failure in counted.failures)
        said.append(f"Failed, and left out of pairs: {failed}.")
    return f"{' '.join([*said, trained_on(counted)])}\n\n{written(counted)}"


def trained_on(results: Results) -> str:
    """Which datasets were trained on which device."""
    devices = results.runs.groupby("device", sort=False)["dataset"].unique()
    return " ".join(f"Trained on {name}: {', '.join(of)}." for name, of in devices.items())


def complete(results: Results, grids: Sequence[Grid]) -> list[str]:
    """The datasets of which every cell of the grids has all its runs, or failed."""
    return [name for name, (cells, of) in tried(results, grids).items() if cells == of]


def tried(results: Results, grids: Sequence[Grid]) -> dict[str, tuple[int, int]]:
    """By dataset, how many cells of the grids have all their runs or failed, of how many."""
    runs = results.runs
    counts = runs.groupby(["dataset", runs["config"].map(_settings)]).size()
    failed = {(failure.names[0], _settings(failure.config)) for failure in results.failures}
    cells = [
        (_settings(config_text(*configuration)), grid.runs)
        for grid in grids
        for configuration in grid.configurations()
    ]
    names = dict.fromkeys([*runs["dataset"], *(failure.names[0] for failure in results.failures)])
    return {
        name: (
            sum((name, cell) in failed or counts.get((name, cell), 0) >= n for cell, n in cells),
            len(cells),
        )
        for name in names
    }


def _settings(config: str) -> str:
    """All settings of a run, also those that its text leaves out."""
    return json.dumps(read_config_text(config), sort_keys=True)


def in_short(results: Results, judged: Judged, own: Judged | None) -> str:
    """The verdicts in a sentence, how many may be wrong, how many datasets tell anything."""
    found: dict[str, list[str]] = {}
    both = (judged, *([] if own is None else [own]))
    rivals = [rival for report in both for rival in report.verdicts.rivals]
    wrong = [rival.doubt for rival in rivals if rival.word != "undecided"]
    for report in both:
        verdicts = report.verdicts
        for word in dict.fromkeys(map(report.named, verdicts.rivals)):
            named = [r.pool for r in verdicts.rivals if report.named(r) == word]
            found.setdefault(word, []).append(f"{verdicts.reference} against {listed(named)}")
    said = [f"Decided: {len(wrong)} of {count(len(rivals), 'contrast')}."]
    said += [
        f"**{word.capitalize()}** ({MEANS[word.removesuffix(' (sensitive)')]}): {'; '.join(pairs)}."
        for word, pairs in found.items()
    ]
    if any(report.sensitive for report in both):
        said.append(
            "Sensitive: another prior, the other rule for the epoch, or the informative datasets "
            "alone would change it."
        )
    said.append(
        f"Each contrast is judged by itself; of these verdicts {sum(wrong):.2f} are expected to be "
        "wrong."
    )
    if judged.uninformative is not None:
        datasets = results.runs["dataset"].nunique()
        known = datasets - len(judged.uninformative)
        said.append(f"Informative are {known} of {datasets} datasets.")
    gains = edges(results)
    helped = [name for name, gain in gains.items() if gain.low > 0]
    if gains:
        said.append(
            f"Edges help visibly on {len(helped)} of {len(gains)}{': ' * bool(helped)}"
            f"{listed(helped)} (exploratory: see the controls)."
        )
    return " ".join(said)


def written(results: Results) -> str:
    """Everything, as Markdown."""
    judged, own, other = reports(results)
    parts = [
        in_short(results, judged, own),
        _section("Judged: LCPool against seven poolings", judged),
    ]
    if own is not None:
        parts += [_section("Judged: our own, where it was not chosen", own), *_unrelated(own)]
    parts += [_section("Exploratory: LCPool against the others", other)] if other else []
    if results.predictions:
        parts.append(_by_graph(results))
    parts.append(f"### Controls\n\n{_controls(results)}")
    return "\n\n".join(parts)


def reports(results: Results) -> tuple[Judged, Judged | None, Judged | None]:
    """LCPool against its rivals, our own against LCPool where it was not chosen, and the rest."""
    results = results.where(conv=list(PAPER_CONVS))
    runs = results.runs
    there, datasets = set(runs["pool"]), list(dict.fromkeys(runs["dataset"]))
    judged = Judged.of(
        results, split="stratified", pools=[p for p in (LCPOOL, *RIVALS) if p in there],
        against=LCPOOL,
    )  # fmt: skip
    # The others have no runs without pooling, by which a dataset is informative.
    told = None if judged.uninformative is None else tuple(judged.uninformative)
    further = [name for name in datasets if name not in PAPER_DATASETS]
    own = other = None
    if OWN in there and further:
        own = Judged.of(
            results, split="stratified", pools=[LCPOOL, OWN], datasets=further, against=OWN
        )
        own = replace(own, told=told)
    if rest := sorted(there - {LCPOOL, *RIVALS}):
        other = Judged.of(results, split="stratified", pools=[LCPOOL, *rest], against=LCPOOL)
        other = replace(other, told=told)
    return judged, own, other


def _section(title: str, report: Judged) -> str:
    """The verdicts of a report: answer, table, power, sensitivity, what is left out."""
    found = findings(report)
    header, rows = verdict_rows(report)
    header += [INFORMATIVE, "found with probability 0.8"]
    informative = _informative(report)
    for row, rival, able in zip(
        rows, report.verdicts.rivals, report.verdicts.table["detectable"], strict=True
    ):
        row[0] = STYLE.escape(row[0])
        row[1] = report.named(rival) if row[1] == rival.word else row[1]
        row += [informative.get(rival.pool, "–"), "–" if pd.isna(able) else f"{able:.1f}"]
    # How many verdicts may be wrong, power's second sentence, is said of all contrasts together.
    texts = [*found["answer"], *found["power"][:1], *found["sensitivity"], *found["missing"]]
    # Of the names of poolings, lcpool* alone is markup.
    said = ["- " + text.replace("*", r"\*") for text in texts]
    grid = STYLE.grid(header, rows)
    return "\n\n".join([f"### {title}", grid, "\n".join(said), _datasets(report)])


def relatives(datasets: Iterable[str]) -> list[str]:
    """Of these datasets, those of a family of one that our own pooling was chosen on."""
    chosen = {FAMILIES[name] for name in PAPER_DATASETS if name in FAMILIES}
    return [name for name in datasets if FAMILIES.get(name) in chosen]


def _unrelated(own: Judged) -> Iterator[str]:
    """Our own pooling without the relatives of the datasets that it was chosen on; exploratory."""
    names = list(dict.fromkeys(own.runs["dataset"]))
    near = relatives(names)
    rest = [name for name in names if name not in near]
    if not near or not rest:
        return
    (found,) = own.verdicts.judged(own.ranked, rest)
    chances = " / ".join(f"{100 * p:.1f}" for p in found.regions)
    mean = f"{signed(found.mean, 1)} ({signed(found.low, 1)} to {signed(found.high, 1)})"
    yield (
        f"Exploratory: {listed(near)} {'is' if len(near) == 1 else 'are'} of the families of "
        f"datasets that {OWN} was chosen on. Without: {found.word}, {chances} %, {mean} points "
        f"on {listed(rest)}."
    )


def _informative(report: Judged) -> dict[str, str]:
    """By rival, verdict and difference without the uninformative datasets."""
    if report.uninformative == []:
        return {rival.pool: "the same" for rival in report.verdicts.rivals}
    rows = report.sensitivity.itertuples()
    return {
        row.pool: f"{row.verdict}, {signed(row.difference, 1)}"
        for row in rows
        if row.analysis == INFORMATIVE
    }


def load(name: str) -> GraphSet:
    """A dataset of the plan by the name that its runs have."""
    return load_dataset(by_graph.place(name, read_grids(HERE / "main.toml", {})[0].datasets))


def _by_graph(results: Results) -> str:
    """What the regressions of ``by_graph.py`` find, a row per rival."""
    title, rows, lacking = "### Exploratory: on which graphs?", [], []
    for rival in RIVALS:
        table = by_graph.wins(results, LCPOOL, rival, load)
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
    table = pd.concat(tables, axis=1, keys=[rival.pool for rival in rivals])
    header = [f"{report.verdicts.reference} −", *map(STYLE.escape, table.columns)]
    rows = [
        [STYLE.escape(str(name)), *("–" if pd.isna(x) else signed(x, 1) for x in row)]
        for name, *row in table.itertuples()
    ]
    return STYLE.grid(header, rows)


def _controls(results: Results) -> str:
    """What a network reaches without pooling, without edges, and without learning."""
    gains = edges(results)
    rows = []
    for name, *row in controls(results).itertuples():
        gain = gains.get(str(name))
        shown = ["–" if pd.isna(value) else f"{value:.1f}" for value in row]
        rows.append([STYLE.escape(str(name)), *shown, "–" if gain is None else interval(gain)])
    header = ["dataset", "largest class, %", "without edges, %", "nopool, %", "LCPool, %",
              "nopool − without edges, points"]  # fmt: skip
    return (
        f"{STYLE.grid(header, rows)}\n\nThe last column has 95 % intervals, corrected for "
        "overlapping splits; edges help visibly where they are above 0. Exploratory: it decides "
        "nothing, and the rule for informative datasets does not use it."
    )


def interval(found: Difference) -> str:
    """A mean with its interval, if there is one."""
    if pd.isna(found.error):
        return signed(found.mean, 1)
    return f"{signed(found.mean, 1)} ({signed(found.low, 1)} to {signed(found.high, 1)})"


def edges(results: Results) -> dict[str, Difference]:
    """By dataset, nopool minus the network without edges, on the same splits, in points."""
    runs = results.runs[(results.runs["split"] == "stratified") & (results.runs["pool"] == BASE)]
    reads = runs["conv"].isin(PAPER_CONVS)
    # Both are networks of the same backbone.
    runs = runs.assign(value=runs["test_accuracy"], conv="any", pool=BASE)
    runs["pool"] = runs["pool"].where(reads, WITHOUT)
    c = Comparison.of(runs, [BASE, WITHOUT])
    pairs = paired(c, BASE, WITHOUT).runs
    return {name: over_splits(values, c.shares[name]) for name, values in pairs.items()}


def controls(results: Results) -> pd.DataFrame:
    """By dataset, in percent: the largest class, a network without edges, nopool, LCPool."""
    runs = results.runs[results.runs["split"] == "stratified"]
    edges = runs["conv"].isin(PAPER_CONVS)
    parts = {
        "largest": runs.groupby("dataset", sort=False)["largest_class"].mean(),
        "without": runs[~edges].groupby("dataset")["test_accuracy"].mean(),
        **{pool: runs[edges & (runs["pool"] == pool)].groupby("dataset")["test_accuracy"].mean()
           for pool in (BASE, LCPOOL)},
    }  # fmt: skip
    return pd.DataFrame(parts).reindex(list(dict.fromkeys(runs["dataset"])))


if __name__ == "__main__":
    main()
