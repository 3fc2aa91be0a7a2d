"""The trial's table and what its rule chooses: ``python -m experiments.connected.analysis``.

Reads ``runs*.csv``, ``structure-*.csv`` and ``seconds.csv`` beside this file and writes the result
into ``README.md``, between two marks.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from experiments.written import write_block

HERE = Path(__file__).parent
COMMAND = "python -m experiments.connected.analysis"
GROUP = ["dataset", "backbone", "conv"]
ONE_POINT, SAME_EDGES, SAME_TIME = 1.0, 0.05, 1.1


def main() -> None:
    """Print the result and write it into the plan."""
    runs = pd.concat([pd.read_csv(path) for path in sorted(HERE.glob("runs*.csv"))])
    structure = pd.concat(
        pd.read_csv(path).assign(ratio=float(path.stem.removeprefix("structure-")))
        for path in sorted(HERE.glob("structure-*.csv"))
    )
    text = report(runs, structure, pd.read_csv(HERE / "seconds.csv"))
    write_block(HERE / "README.md", COMMAND, text)


def report(runs: pd.DataFrame, structure: pd.DataFrame, seconds: pd.DataFrame) -> str:
    """All candidates beside LCPool, and the one that the rule takes."""
    table = candidates(runs, structure, seconds)
    chosen, words = choose(table)
    if chosen is not None:
        words[1:1] = ["", *by_dataset(runs, chosen)]
    lines = [
        "| candidate | ratio | groups | accuracy − LCPool | its standard error over groups | "
        "by loss | edges after / before | stay connected | seconds / LCPool's |",
        "|---" * 9 + "|",
    ]
    for (name, ratio), row in table.iterrows():
        shown = f"**{name}**" if name == chosen else name
        lines.append(
            f"| {shown} | {ratio} | {row['groups']:.0f} | {row['accuracy']:+.2f} | "
            f"{row['error']:.2f} | {row['by_loss']:+.2f} | {known('{:.2f}', row['edges'])} | "
            f"{known('{:.1f} %', row['connected'])} | {known('{:.2f}', row['seconds'])} |"
        )
    return "\n".join([
        *words, "",
        f"Means over groups (dataset × network) of {runs['run'].nunique()} runs each; {len(runs)} "
        f"runs in all, {int(runs['diverged'].notna().sum())} of them diverged.", "", *lines,
    ])  # fmt: skip


def by_dataset(runs: pd.DataFrame, chosen: str) -> list[str]:
    """The chosen candidate's lead over LCPool on each dataset, and on what both were trained."""
    runs = counted(runs)
    runs = runs[runs["pool"].isin([chosen, "lcpool"])]
    cells = runs.groupby([*GROUP, "ratio", "pool"]).agg({"test_accuracy": "mean", "device": "min"})
    cells = cells.unstack("pool")
    lead = (cells["test_accuracy"][chosen] - cells["test_accuracy"]["lcpool"]).rename("lead")
    table = lead.groupby(["ratio", "dataset"]).mean().unstack("ratio").sort_index(axis=1)
    table = table.sort_values(table.columns[-1], ascending=False)
    apart = int((cells["device"][chosen] != cells["device"]["lcpool"]).sum())
    return [
        "Its lead over LCPool by dataset, in points of accuracy, means over networks. It was "
        "chosen by these runs, which flatters it; nothing here is tested. In "
        f"{apart} of {len(cells)} comparisons the two were trained on different devices.", "",
        f"| | {' | '.join(f'ratio {ratio:g}' for ratio in table)} |",
        "|---" * (1 + table.shape[1]) + "|",
        *(f"| {name} | {' | '.join(f'{x:+.1f}' for x in row)} |" for name, *row in
          table.itertuples()),
        f"| mean over datasets | {' | '.join(f'{x:+.1f}' for x in table.mean())} |", "",
        "The rule, step by step:",
    ]  # fmt: skip


def known(form: str, value: float) -> str:
    """A figure, or nothing if it was not measured."""
    return "" if pd.isna(value) else form.format(value)


def candidates(runs: pd.DataFrame, structure: pd.DataFrame, seconds: pd.DataFrame) -> pd.DataFrame:
    """A row per candidate and ratio: differences from LCPool, edges, connectivity, time."""
    by, values = ["pool", "ratio"], ["test_accuracy", "test_accuracy_by_loss"]
    cells = counted(runs).groupby([*GROUP, "ratio", "pool"])[values].mean()
    rows = (cells - cells.xs("lcpool", level="pool")).groupby(by)
    time = seconds.assign(pool=short(seconds["pool"])).set_index([*GROUP, "ratio", "pool"])
    time = time["seconds"] / time["seconds"].xs("lcpool", level="pool")
    table = pd.DataFrame({
        "groups": rows["test_accuracy"].count(),
        "accuracy": rows["test_accuracy"].mean(),
        "error": rows["test_accuracy"].sem(),
        "by_loss": rows["test_accuracy_by_loss"].mean(),
        "seconds": time.groupby(by).mean(),
    })  # fmt: skip
    structure = structure.assign(
        pool=short(structure["pool"]), edges=structure["nodes"] * structure["degree"] / 2
    ).set_index(["dataset", "pool", "ratio"])
    before = structure["edges"].xs("none", level="pool")
    table["edges"] = (structure["edges"] / before).groupby(by).mean()
    table["connected"] = structure["stay_connected"].groupby(by).mean()
    table["least_connected"] = structure["stay_connected"].groupby(by).min()
    return table


def short(pools: pd.Series) -> pd.Series:
    """Candidates without their module."""
    return pools.str.split(":").str[-1]


def counted(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs that count, with their ratio, candidates without their module."""
    ratio = runs["config"].str.extract(r'"ratio": ?([\d.]+)')[0].astype(float)
    return complete(runs.assign(ratio=ratio.fillna(0.5), pool=short(runs["pool"])))


def complete(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs of the groups in which LCPool and all candidates that can win have all runs."""
    size = runs.groupby([*GROUP, "ratio", "pool"])["run"].transform("nunique")
    playing = runs[~runs["pool"].str.startswith("Random") & (size == runs["run"].nunique())]
    wanted = playing.groupby("ratio")["pool"].nunique()
    there = playing.groupby([*GROUP, "ratio"])["pool"].nunique()
    whole = there[there == wanted.reindex(there.index.get_level_values("ratio")).to_numpy()]
    return runs.set_index([*GROUP, "ratio"]).loc[lambda r: r.index.isin(whole.index)].reset_index()


def choose(table: pd.DataFrame) -> tuple[str | None, list[str]]:
    """The candidate that the rule takes, and a sentence for each of its steps."""
    names = {n for n in table.index.get_level_values("pool") if not n.startswith(("Random", "lc"))}

    def at(name: str, ratio: float) -> pd.Series:
        below = name.replace("Cover", "Topk") if ratio < 0.5 else name
        # Top-k with three hops and the kept nodes is LCPool.
        return table.loc[("lcpool" if below == "TopkHopsKept" else below, ratio)]

    both = {name: [at(name, 0.5), at(name, 0.25)] for name in sorted(names)}
    left = [n for n, rows in both.items() if all(r["least_connected"] == 100 for r in rows)]
    words = [f"- Connected at every ratio: {', '.join(left) or 'none'}."]
    left = [n for n in left if all(r["accuracy"] >= -ONE_POINT for r in both[n])]
    words.append(f"- Of these, at most one point below LCPool: {', '.join(left) or 'none'}.")
    if left:
        fewest = min(both[n][0]["edges"] for n in left)
        left = [n for n in left if both[n][0]["edges"] <= fewest + SAME_EDGES]
        words.append(f"- Of these, the fewest edges: {', '.join(left)}.")
        fastest = min(both[n][0]["seconds"] for n in left)
        left = [n for n in left if both[n][0]["seconds"] <= fastest * SAME_TIME]
        words.append(f"- Of these, the least time: {', '.join(left)}.")
        left.sort(key=lambda n: -sum(r["accuracy"] for r in both[n]))
    chosen = left[0] if left else None
    return chosen, [f"**Chosen: {chosen or 'none'}.**", "", *words]


if __name__ == "__main__":
    main()
