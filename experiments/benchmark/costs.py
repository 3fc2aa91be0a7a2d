"""What the poolings of the benchmark cost: ``python -m experiments.benchmark.costs``.

``python -m experiments.benchmark.costs measure --datasets MUTAG PTC_MR`` adds to ``costs.csv`` the
seconds of an epoch, measured in turns, ten runs as one; on a GPU also the memory of a training step
of one run. Edges, and the share of connected graphs that stay connected, are those of
``structure-*.csv``, of three networks per dataset that were trained for 20 epochs. Table and
picture, accuracy against time and against edges, go into ``README.md``: plain means over datasets
of the differences from nopool, with Student's 95 % interval. Exploratory.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

import numpy as np
import pandas as pd
import torch

from experiments.benchmark.analysis import BASE, HERE, STYLE, complete, interval
from experiments.pace import paces
from experiments.written import write_block
from lcpool.data import GraphSet, load_dataset
from lcpool.models import Architecture
from lcpool.report import Report
from lcpool.report.page import alone
from lcpool.report.plots import colours, tag
from lcpool.report.statistics import Difference, over_datasets
from lcpool.report.verdict import paired
from lcpool.report.verdict_plots import trade_off
from lcpool.settings import PAPER_CONVS
from lcpool.sweep.grid import read_grids
from lcpool.sweep.results import Results
from lcpool.train import Protocol
from lcpool.train.device import step_memory
from lcpool.train.loop import initial_model
from lcpool.words import listed

COMMAND = "python -m experiments.benchmark.costs"
BEFORE = "none"
SEED = 2
SIZE = (720.0, 520.0)  # width and height of a panel


def measure(datasets: list[str], device: str) -> None:
    """Add the rows of some datasets to the table of costs; what it has of them is replaced."""
    main, plain, _ = read_grids(HERE / "main.toml", {})
    networks = [network for grid in (main, plain) for network, _ in grid.configurations()]
    for dataset in datasets:
        graphs = load_dataset(dataset).to(device)
        seconds = paces(graphs, networks, "stratified", SEED)
        rows = pd.DataFrame([
            {"dataset": graphs.name, "backbone": n.backbone, "conv": n.conv, "pool": n.pool,
             "seconds": one, "step_mib": _mib(graphs, n), "device": _device(graphs.x)}
            for n, one in zip(networks, seconds, strict=True)
        ])  # fmt: skip
        print(rows.drop(columns="device").to_string(index=False), flush=True)
        path = HERE / "costs.csv"
        if path.exists():
            there = pd.read_csv(path)
            rows = pd.concat([there[there["dataset"] != graphs.name], rows])
        rows.round(4).to_csv(path, index=False, lineterminator="\n")


def _mib(graphs: GraphSet, network: Architecture) -> float:
    """Of a training step of one run, where torch can say."""
    if not graphs.x.is_cuda:
        return float("nan")
    protocol = Protocol(split="stratified", seed=SEED)
    return step_memory(graphs, initial_model(graphs, network, protocol, 0), protocol) / 2**20


def _device(x: torch.Tensor) -> str:
    return torch.cuda.get_device_name(x.device) if x.is_cuda else "cpu"


def table(costs: pd.DataFrame, structure: pd.DataFrame) -> pd.DataFrame:
    """A row per pooling: costs beside no pooling, and how many graphs stay connected, in percent.

    Ratios are geometric means over datasets and networks. ``connected`` counts every dataset alike,
    ``of_graphs`` every graph that was connected; ``least`` is the lowest network on any dataset.
    """
    wide = costs.pivot_table(
        ["seconds", "step_mib"], ["dataset", "backbone", "conv"], "pool", sort=False
    )
    found = {name: _ratio(wide[name]) for name in ("seconds", "step_mib") if name in wide}
    # Without pooling graphs are as they were before.
    structure = structure[structure["pool"] != BASE].replace({"pool": {BEFORE: BASE}})
    found["edges"] = _ratio(structure.pivot_table("edges", "dataset", "pool"))
    by_pool, weight = structure["pool"], structure["graphs"] * structure["connected_before"]
    stays = structure["stay_connected"]
    found["connected"] = stays.groupby(by_pool).mean()
    found["of_graphs"] = (stays * weight).groupby(by_pool).sum() / weight.groupby(by_pool).sum()
    found["least"] = structure["least"].groupby(by_pool).min()
    return pd.DataFrame(found)


def leads(report: Report) -> dict[str, Difference]:
    """Each pooling's accuracy minus nopool's: the mean over datasets, each that of its networks."""
    c = report.verdicts.comparison
    found = {}
    for pool in c.trained_pools:
        means = np.array([runs.mean() for runs in paired(c, pool, BASE).runs.values()])
        if pool != BASE and means.size:
            alone = Difference(float(means.mean()), np.nan, np.nan, means.size)
            found[pool] = over_datasets(means) or alone
    return found


def _ratio(values: pd.DataFrame) -> pd.Series:
    """The geometric mean of what a pooling takes beside none."""
    return np.exp(np.log(values.div(values[BASE], axis=0)).mean())


def written(costs: pd.DataFrame, leads: Mapping[str, Difference]) -> str:
    """The table as Markdown, with the accuracy beside that of no pooling."""
    header = ["pooling", "accuracy − nopool's", "time of an epoch / nopool's",
              "edges after / before", "stay connected, %", "of all graphs, %",
              "least of a network, %"]  # fmt: skip
    names = ["seconds", "edges", "connected", "of_graphs", "least"]
    forms = ["{:.2f}", "{:.2f}", "{:.0f}", "{:.0f}", "{:.0f}"]
    if "step_mib" in costs:
        header.insert(3, "memory of a step / nopool's")
        names.insert(1, "step_mib")
        forms.insert(1, "{:.2f}")
    rows = [
        [STYLE.escape(str(pool)), interval(leads[pool]) if pool in leads else "–",
         *("–" if pd.isna(row[n]) else f.format(row[n]) for n, f in zip(names, forms, strict=True))]
        for pool, row in costs.iterrows()
    ]  # fmt: skip
    return STYLE.grid(header, rows)


def pareto(report: Report, costs: pd.DataFrame) -> str:
    """Accuracy against time and against edges, beside nopool's: the figures of the table."""
    found, parts = leads(report), []
    shares = {pool: f"({share:.0f} %)" for pool, share in costs["connected"].dropna().items()}
    for i, (column, cost) in enumerate({"seconds": "time of an epoch", "edges": "edges"}.items()):
        times = costs[column] / costs.loc[BASE, column]
        places = {
            pool: (float(times[pool]), lead.mean, lead.low, lead.high)
            for pool, lead in found.items()
            if np.isfinite(times.get(pool, np.nan))
        }
        title = f"accuracy − {BASE}'s, points"
        # The best are not joined: their intervals overlap those of the others.
        drawn = trade_off(places, BASE, colours(report), title, shares, cost, SIZE, joined=False)
        parts.append(tag("g", *drawn, transform=f"translate(0 {i * (SIZE[1] + 16):g})"))
    label = "Accuracy against the time of an epoch and against edges"
    return alone(SIZE[0], 2 * SIZE[1] + 16, label, *parts)


def main() -> None:
    """Measure, or write the table and the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="?", choices=["measure"])
    parser.add_argument("--datasets", nargs="+", default=[])
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    if args.what:
        measure(args.datasets, args.device)
    else:
        text, picture = answered()
        (HERE / "pareto.svg").write_text(picture, "utf-8")
        write_block(HERE / "README.md", COMMAND, text)


def answered() -> tuple[str, str]:
    """The datasets that are complete and measured: table, and picture."""
    results = Results.read(*sorted(HERE.glob("runs-main*.csv")))
    costs = pd.read_csv(HERE / "costs.csv")
    structure = pd.concat(pd.read_csv(path) for path in sorted(HERE.glob("structure-*.csv")))
    done = complete(results, read_grids(HERE / "main.toml", {}))
    done = [n for n in done if n in set(costs["dataset"]) & set(structure["dataset"])]
    results = results.where(dataset=done, conv=list(PAPER_CONVS))
    runs = results.runs
    found = table(*(of[of["dataset"].isin(done)] for of in (costs, structure)))
    report = Report.of(results, split="stratified", against=BASE)
    ahead = leads(report)
    devices = ", ".join(costs.loc[costs["dataset"].isin(done), "device"].unique())
    apart = [pool for pool, lead in ahead.items() if lead.low > 0 or lead.high < 0]
    said = [
        f"Means over {len(done)} datasets ({', '.join(done)}); time measured on {devices}.",
        "- Accuracy: the plain mean of the differences from nopool, with Student's 95 % interval "
        "over datasets. It is not corrected for the number of poolings, takes datasets of one "
        "family for independent, and does not know the noise within a dataset; the verdicts "
        "above are the model's, which does. Wholly above or below 0: "
        f"{listed(apart) or 'none'}.",
        "- Of the graphs that are connected, how many stay so: every dataset alike, every graph "
        "alike, and the lowest of the networks.",
    ]
    said[1:] = ["\n".join(said[1:])]
    caption = (
        "![Accuracy against the time of an epoch and against edges](pareto.svg)\n\n<sub>The "
        "differences from nopool and the intervals of the table; in brackets, the connected graphs "
        "that stay connected.</sub>"
    )
    order = [pool for pool in dict.fromkeys(runs["pool"]) if pool in found.index]
    parts = [
        *(text.replace("*", r"\*") for text in said),
        written(found.loc[order], ahead),
        caption,
    ]
    text = "\n\n".join(parts)
    return text, pareto(report, found)


if __name__ == "__main__":
    main()
