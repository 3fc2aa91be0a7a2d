"""The figures of the README: a sentence, a table and how it was made, between two marks.

``python -m paper readme paper/results README.md`` writes them from the committed results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pandas as pd

from lcpool.report.tables import Markdown
from lcpool.report.verdict import Verdict
from lcpool.words import listed, signed
from paper import choosing
from paper.audit import Audit
from paper.names import named
from paper.published import OURS

BEGIN, END = "<!-- begin: make readme -->", "<!-- end: make readme -->"
POOLINGS = ("nopool", "topkpool", "sagpool", OURS, "asapool", "mincutpool", "diffpool")
# Those whose place LCPool takes.
SELECTING = ("topkpool", "sagpool")


def write(results: Path, readme: Path) -> Path:
    """Replace what stands between the marks in the README."""
    text = readme.read_text("utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    readme.write_text(f"{before}{BEGIN}\n{figures(results)}\n{END}{after}", "utf-8")
    return readme


def figures(results: Path) -> str:
    """Accuracy, time, edges and connectivity beside LCPool's, as Markdown."""
    audit = Audit.read(results)
    report, costs, structure = audit.report, audit.costs, audit.structure
    assert costs is not None, "costs.csv is missing"
    assert structure is not None, "structure.csv is missing"
    runs = report.runs
    accuracy = runs.pivot_table(index="dataset", columns="pool", values="value")
    leads = accuracy.rsub(accuracy[OURS], axis=0)
    seconds = costs.pivot(index="dataset", columns="pool", values="seconds_per_epoch")
    times = seconds.div(seconds[OURS], axis=0)
    structure = structure.replace({"pool": {choosing.BEFORE: choosing.BASE}})
    edges = structure.pivot(index="dataset", columns="pool", values="edges")
    connected = structure.pivot(index="dataset", columns="pool", values="stay_connected")
    verdicts = {verdict.pool: verdict for verdict in report.verdicts.rivals}
    table = Markdown().grid(
        ["pooling", "accuracy: LCPool minus this one", "LCPool is worse / equal / better, %",
         "time of an epoch / LCPool's", "edges after / before", "stay connected, %"],
        [
            [
                named(pool) if pool != OURS else f"**{named(pool)}**",
                *(_verdict(verdicts[pool]) if pool in verdicts else ("", "")),
                "" if pool == OURS else _spread(times[pool], "{:.1f}"),
                _spread(edges[pool] / edges[choosing.BASE], "{:.1f}"),
                _spread(connected[pool], "{:.0f}"),
            ]
            for pool in POOLINGS
        ],
    )  # fmt: skip
    return "\n\n".join(
        [_advice(verdicts, leads, times), table, " ".join(_notes(audit, leads)), _origin(audit)]
    )


def _advice(verdicts: Mapping[str, Verdict], leads: pd.DataFrame, times: pd.DataFrame) -> str:
    names = listed([named(pool) for pool in SELECTING], "or")
    points = listed([f"{verdicts[pool].mean:.1f}" for pool in SELECTING])
    ahead = (leads[list(SELECTING)] > 0).all(axis=1).sum()
    ratios = listed(list(dict.fromkeys(f"{times[pool].mean():.1f}" for pool in SELECTING)))
    base = verdicts[choosing.BASE]
    return (
        f"**If you would have taken {names}, take LCPool.** On the average dataset it is {points} "
        f"points more accurate, and it is ahead of both on {ahead} of {len(leads)} datasets; on a "
        f"GPU their epochs take {ratios} times as long as LCPool's. Against a network without "
        f"pooling no gain was found: {signed(base.mean, 1)} points ({signed(base.low, 1)} to "
        f"{signed(base.high, 1)})."
    )


def _notes(audit: Audit, leads: pd.DataFrame) -> Iterator[str]:
    """What the columns are, and where the figures mislead."""
    verdicts = audit.report.verdicts
    margin, lower = verdicts.margin, max(one.mean - one.unweighted for one in verdicts.rivals)
    yield (
        "Accuracy: points on the test set of the average dataset, with a 95 % interval, by the "
        "report's model, which gives a dataset that is unlike the others less weight; plain means "
        f"are up to {lower:.1f} points lower. Worse, equal, better: how probable each is there; a "
        f"difference of up to {margin:g} point counts as equal. The other columns: mean over the "
        "datasets, in brackets the lowest and the highest."
    )
    rivals = leads[[pool for pool in POOLINGS if pool != OURS]]
    worst = rivals.mean(axis=1).idxmin()
    behind = rivals.loc[worst][lambda lead: lead < -margin].sort_values()
    if not behind.empty:
        listing = [f"{named(str(pool))} by {-lead:.1f} points" for pool, lead in behind.items()]
        yield f"The exception is {worst}, where LCPool is behind {listed(listing)}."


def _origin(audit: Audit) -> str:
    runs = audit.report.runs
    networks = runs.groupby(["backbone", "conv"]).ngroups
    devices = sorted({*runs["device"], *([] if audit.costs is None else audit.costs["device"])})
    assert audit.structure is not None, "structure.csv is missing"
    others, epochs = (int(audit.structure[name].max()) for name in ("networks", "epochs"))
    return (
        f"{runs['dataset'].nunique()} datasets, {networks} networks, {runs['run'].nunique()} runs "
        f"on fresh splits. Accuracies and times are of one {', '.join(devices)}, "
        f"{audit.measured}. Edges and connected graphs: means of {others} networks per pooling and "
        f"dataset, trained for {epochs} epochs, {audit.looked_at}."
    )


def _verdict(verdict: Verdict) -> tuple[str, str]:
    interval = f"{signed(verdict.low, 1)} to {signed(verdict.high, 1)}"
    shares = " / ".join(f"{100 * probability:.1f}" for probability in verdict.regions)
    return f"{signed(verdict.mean, 1)} ({interval})", shares


def _spread(values: pd.Series[float], form: str) -> str:
    low, mean, high = (form.format(x) for x in (values.min(), values.mean(), values.max()))
    return mean if low == high else f"{mean} ({low} to {high})"
