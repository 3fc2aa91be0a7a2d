"""What the poolings of the benchmark cost: ``python -m experiments.benchmark.costs``.

``python -m experiments.benchmark.costs measure --datasets MUTAG PTC_MR`` adds to ``costs.csv`` the
seconds of an epoch, measured in turns, ten runs as one; on a GPU also the memory of a training step
of one run. Edges, and the share of connected graphs that stay connected, are those of
``structure-*.csv``, of three networks per dataset that were trained for 20 epochs. Table and
picture, accuracy against time and against edges, go into ``README.md``. Exploratory.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
import torch

from experiments.benchmark.analysis import HERE, LCPOOL, STYLE, complete
from experiments.pace import paces
from experiments.written import write_block
from lcpool.data import GraphSet, load_dataset
from lcpool.models import Architecture
from lcpool.report import Report
from lcpool.report.page import alone
from lcpool.report.plots import colours, tag
from lcpool.report.verdict_plots import trade_off
from lcpool.settings import PAPER_CONVS
from lcpool.sweep.grid import read_grids
from lcpool.sweep.results import Results
from lcpool.train import Protocol
from lcpool.train.device import step_memory
from lcpool.train.loop import initial_model

COMMAND = "python -m experiments.benchmark.costs"
BASE, BEFORE = "nopool", "none"
SEED = 2
SIZE = (720.0, 380.0)  # width and height of a panel


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
    edges = structure.assign(edges=structure["nodes"] * structure["degree"])
    found["edges"] = _ratio(edges.pivot_table("edges", "dataset", "pool"))
    by_pool, weight = structure["pool"], structure["graphs"] * structure["connected_before"]
    stays = structure["stay_connected"]
    found["connected"] = stays.groupby(by_pool).mean()
    found["of_graphs"] = (stays * weight).groupby(by_pool).sum() / weight.groupby(by_pool).sum()
    found["least"] = structure["least"].groupby(by_pool).min()
    return pd.DataFrame(found)


def _ratio(values: pd.DataFrame) -> pd.Series:
    """The geometric mean of what a pooling takes beside none."""
    return np.exp(np.log(values.div(values[BASE], axis=0)).mean())


def written(costs: pd.DataFrame, leads: pd.Series) -> str:
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
        [STYLE.escape(str(pool)), f"{leads.get(pool, np.nan):+.1f}".replace("-", "−"),
         *("–" if pd.isna(row[n]) else f.format(row[n]) for n, f in zip(names, forms, strict=True))]
        for pool, row in costs.iterrows()
    ]  # fmt: skip
    return STYLE.grid(header, rows)


def pareto(report: Report, costs: pd.DataFrame) -> str:
    """Accuracy against time and against edges, beside LCPool's."""
    v = report.verdicts
    parts = []
    shares = {pool: f"({share:.0f} %)" for pool, share in costs["connected"].dropna().items()}
    for i, (column, cost) in enumerate({"seconds": "time of an epoch", "edges": "edges"}.items()):
        times = costs[column] / costs.loc[v.reference, column]
        places = {
            r.pairs.other: (float(times[r.pairs.other]), -r.mean, -r.high, -r.low)
            for r in v.rivals
            if np.isfinite(times.get(r.pairs.other, np.nan))
        }
        title = f"accuracy − {v.reference}'s, points"
        drawn = trade_off(places, v.reference, colours(report), title, shares, cost, SIZE)
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
        write_block(HERE / "README.md", COMMAND, answered())


def answered() -> str:
    """The datasets that are complete and measured: table and picture."""
    results = Results.read(*sorted(HERE.glob("runs-main*.csv")))
    costs = pd.read_csv(HERE / "costs.csv")
    structure = pd.concat(pd.read_csv(path) for path in sorted(HERE.glob("structure-*.csv")))
    done = complete(results, read_grids(HERE / "main.toml", {}))
    done = [n for n in done if n in set(costs["dataset"]) & set(structure["dataset"])]
    results = results.where(dataset=done, conv=list(PAPER_CONVS))
    runs = results.runs
    found = table(*(of[of["dataset"].isin(done)] for of in (costs, structure)))
    cells = runs.groupby(["dataset", "backbone", "conv", "pool"], sort=False)["test_accuracy"]
    accuracy = cells.mean().groupby("pool", sort=False).mean()
    report = Report.of(results, split="stratified", against=LCPOOL)
    (HERE / "pareto.svg").write_text(pareto(report, found), "utf-8")
    devices = ", ".join(costs.loc[costs["dataset"].isin(done), "device"].unique())
    said = (
        f"Means over {len(done)} datasets ({', '.join(done)}); time measured on {devices}. Of the "
        "graphs that are connected, how many stay so: every dataset alike, every graph alike, and "
        "the lowest of the networks."
    )
    picture = (
        "![Accuracy against the time of an epoch and against edges](pareto.svg)\n\n<sub>Mean "
        "differences with 95 % intervals; in brackets, the connected graphs that stay connected. "
        "Those that no other beats in both are joined.</sub>"
    )
    order = [pool for pool in accuracy.index if pool in found.index]
    return "\n\n".join([said, written(found.loc[order], accuracy - accuracy[BASE]), picture])


if __name__ == "__main__":
    main()
