"""The benchmark's further questions, all exploratory: ``python -m experiments.benchmark.further``.

Score or connection, ratios, depth, tgp's poolings, OGB's own splits. Reads the runs of each part
beside this file and writes the results into ``README.md``, between two marks. A part is a table of
means over datasets, each its mean over networks and runs, and contrasts of these datasets with
Student's 95 % interval, not corrected for their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
import torch

from experiments.benchmark.analysis import HERE, complete, trained_on
from experiments.written import write_block
from lcpool import KMISPooling
from lcpool.data import GraphSet, load_dataset
from lcpool.report.statistics import over_datasets
from lcpool.report.tables import Markdown
from lcpool.settings import read_config_text
from lcpool.sweep.grid import read_grids
from lcpool.sweep.results import Results
from lcpool.words import signed

COMMAND = "python -m experiments.benchmark.further"
STYLE = Markdown()
RULES = {"by accuracy": "", "by loss": "_by_loss"}
# Differences in points by dataset, by what is subtracted from what.
Contrasts = Mapping[str, pd.Series]


@dataclass(frozen=True)
class Part:
    """A question, and how the runs of its grid answer it.

    Attributes:
        name: of its grid, ``name.toml``, and of its runs, ``runs-name*.csv``.
        question: the heading.
        levels: the row and the column of a run, from its settings.
        contrasts: what is compared, from means by dataset (index), row and column (columns).
        value: the column of a run that counts.
    """

    name: str
    question: str
    levels: Callable[[Mapping[str, object]], tuple[str, str]]
    contrasts: Callable[[pd.DataFrame], Contrasts]
    value: str = "test_accuracy"

    def means(self, results: Results, rule: str = "") -> pd.DataFrame:
        """By dataset, row and column, in the order in which the grid names them.

        NaN where a cell has no result in a network of the dataset, as one that failed: the mean
        of the other network would be compared with means of both.
        """
        runs = results.runs
        levels = [self.levels(read_config_text(text)) for text in runs["config"]]
        row, column = (pd.Series(of, runs.index) for of in zip(*levels, strict=True))
        names = [runs["dataset"], row.rename("row"), column.rename("column")]
        networks = [runs["backbone"], runs["conv"]]
        cells = runs[f"{self.value}{rule}"].groupby([*names, *networks], sort=False).mean()
        of = cells.dropna().groupby(level=[0, 1, 2], sort=False)
        networks = of.size()
        whole = networks == networks.groupby(level=0).transform("max")
        found = of.mean().where(whole).unstack(["row", "column"])
        order = list(dict.fromkeys(zip(row, column, strict=True)))
        return found.reindex(columns=pd.MultiIndex.from_tuples(order))

    def answered(self, results: Results) -> str:
        """Table and contrasts, as Markdown."""
        means = {said: self.means(results, rule) for said, rule in RULES.items()}
        found = {said: self.contrasts(of) for said, of in means.items()}
        first, *_ = means.values()
        lines = [
            [said, *(interval(contrasts[said]) for contrasts in found.values())]
            for said in next(iter(found.values()))
        ]
        parts = [grid(first)]
        if lines:
            parts.append(STYLE.grid(["points", *(f"epoch {said}" for said in found)], lines))
        return "\n\n".join(parts)


def interval(differences: pd.Series) -> str:
    """A mean over datasets with its interval; alone if there is one dataset."""
    tested = over_datasets(differences.dropna().to_numpy())
    if tested is None:
        return signed(differences.mean(), 1)
    return f"{signed(tested.mean, 1)} ({signed(tested.low, 1)} to {signed(tested.high, 1)})"


def grid(means: pd.DataFrame) -> str:
    """Means over datasets, rows by columns."""
    table = means.mean().unstack()
    rows, columns = (list(dict.fromkeys(means.columns.get_level_values(i))) for i in (0, 1))
    cells = [
        [STYLE.escape(row), *("–" if pd.isna(x) else f"{x:.1f}" for x in table.loc[row, columns])]
        for row in rows
    ]
    return STYLE.grid(["", *columns], cells)


SCORES = {"lcsmp": "LCSMP", "topk": "projection", "sag": "convolution", "random": "random"}
HOPS = {1: "one hop", 2: "two hops", 3: "three hops"}


def score_and_connection(settings: Mapping[str, object]) -> tuple[str, str]:
    """Scores down, connections across."""
    connection = "cells" if settings["pool"] == "cellpool" else HOPS[settings["hops"]]
    return SCORES[settings["node_score"]], connection


def of_scores(means: pd.DataFrame) -> Contrasts:
    """Connections, over all scores; then scores, over all connections."""
    # One that is missing leaves its dataset out: the others' mean would be of other scores.
    by_connection, by_score = (
        means.T.groupby(level=i).agg(lambda column: column.mean(skipna=False)).T for i in (1, 0)
    )
    columns = [c for c in (*HOPS.values(), "cells") if c in by_connection]
    found = {
        f"{high} − {low}, any score": by_connection[high] - by_connection[low]
        for i, low in enumerate(columns)
        for high in columns[i + 1 :]
    }
    return found | {
        f"LCSMP − {score}, any connection": by_score["LCSMP"] - by_score[score]
        for score in SCORES.values()
        if score != "LCSMP" and score in by_score
    }


def pool_and(name: str, unread: Sequence[str] = ()) -> Callable[..., tuple[str, str]]:
    """Poolings down, a setting across; "any" where a pooling does not read it."""

    def levels(settings: Mapping[str, object]) -> tuple[str, str]:
        pool = str(settings["pool"]).split(":")[-1]
        return pool, "any" if pool in unread else f"{settings[name]:g}"

    return levels


def ends(means: pd.DataFrame) -> Contrasts:
    """The last level of a setting minus the first, pooling by pooling."""
    pools = dict.fromkeys(means.columns.get_level_values(0))
    known = {pool: list(means[pool].columns) for pool in pools}
    return {
        f"{pool}: {levels[-1]} − {levels[0]}": means[pool, levels[-1]] - means[pool, levels[0]]
        for pool, levels in ((pool, sorted(of)) for pool, of in known.items())
        if len(levels) > 1
    }


def depths(means: pd.DataFrame) -> Contrasts:
    """Three poolings minus one; and what poolings gain over none where there are three."""
    found = dict(ends(means))
    deepest = max(means.columns.get_level_values(1))
    for pool in dict.fromkeys(means.columns.get_level_values(0)):
        if pool != "nopool" and (pool, deepest) in means and ("nopool", deepest) in means:
            found[f"{pool} − nopool, {deepest} deep"] = (
                means[pool, deepest] - means["nopool", deepest]
            )
    return found


def alone(settings: Mapping[str, object]) -> tuple[str, str]:
    """Poolings down, one column."""
    return str(settings["pool"]), "accuracy"


def beside_lcpool(means: pd.DataFrame) -> Contrasts:
    """LCPool minus every other pooling."""
    flat = means.droplevel(1, axis=1)
    return {f"lcpool − {pool}": flat["lcpool"] - flat[pool] for pool in flat if pool != "lcpool"}


KMIS = ("kmis", "KMIS2", "KMIS3")
PARTS = (
    Part("scores", "Score or connection?", score_and_connection, of_scores),
    Part("ratios", "Who degrades slowly?", pool_and("ratio", KMIS), ends),
    Part("depth", "One to three poolings deep", pool_and("poolings"), depths),
    Part("tgp", "The poolings of tgp", alone, beside_lcpool),
    Part("scaffold", "OGB's own splits, ROC-AUC", alone, beside_lcpool, "test_roc_auc"),
)  # fmt: skip


def main() -> None:
    """Print the results and write them into the plan."""
    write_block(HERE / "README.md", COMMAND, text())


def text() -> str:
    """All parts."""
    return "\n\n".join(sections())


def sections() -> Iterator[str]:
    """Every part that has runs, with the datasets it is about; then those that have none."""
    lacking = []
    for part in PARTS:
        files = sorted(HERE.glob(f"runs-{part.name}*.csv"))
        if files:
            yield f"### {part.question}"
            yield section(part, Results.read(*files), load_dataset)
        else:
            lacking.append(f"`{part.name}.toml`")
    if lacking:
        yield f"No runs yet: {', '.join(lacking)}."


def section(part: Part, results: Results, load: Callable[[str], GraphSet]) -> str:
    """A part of which there are runs."""
    grids = read_grids(HERE / f"{part.name}.toml", {})
    done = complete(results, grids)
    said = f"{len(done)} of {len(grids[0].datasets)} datasets: {', '.join(done) or 'none'}."
    if not done:
        return said
    counted = results.where(dataset=done)
    parts = [f"{said} {trained_on(counted)}", part.answered(counted)]
    if part.name == "ratios":
        shares = {k: pd.Series([kept(load(name), k) for name in done]) for k in (1, 2, 3)}
        texts = [f"{100 * of.mean():.0f} % with k = {k}" for k, of in shares.items()]
        parts.append(f"k-MIS keeps {', '.join(texts)} of the nodes, untrained, on average.")
    return "\n\n".join(parts)


def kept(graphs: GraphSet, k: int) -> float:
    """The share of nodes that an untrained k-MIS keeps."""
    torch.manual_seed(0)
    pool = KMISPooling(graphs.num_features, k=k).eval()
    before = after = 0
    with torch.no_grad():
        for part in torch.arange(len(graphs)).split(64):
            graph = graphs.batch(part).graph
            before += graph.num_nodes
            after += pool(graph.x, graph.edge_index, batch=graph.batch).x.size(0)
    return after / before


if __name__ == "__main__":
    main()
