"""On which graphs does a pooling win? A ridge regression per rival, leaving out one family a time.

For every test graph, how much more often LCPool was right than the rival (mean over runs and
networks, between −1 and 1) is explained by the graph's size, density and diameter and by the share
of its class. Each dataset counts as much as any other. A regression holds if it predicts the graphs
of families that it has not seen better than the mean of the others would; a property is then named
if its coefficient is more than twice its standard error (jackknife over families). Exploratory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import shortest_path
from sklearn.linear_model import RidgeCV

from lcpool.data import GraphSet
from lcpool.data.load import find_dataset, is_path
from lcpool.report.verdict import FAMILIES
from lcpool.settings import PAPER_CONVS
from lcpool.sweep.results import Results, key

PROPERTIES = ("size", "density", "diameter", "share of its class")
# How much a coefficient is drawn to zero; chosen by leaving out one graph at a time.
PENALTIES = np.logspace(0, 6, 13)


def properties(graphs: GraphSet) -> pd.DataFrame:
    """The properties of each graph; sizes and diameters as logarithms."""
    shares = graphs.targets.bincount() / len(graphs)
    rows = []
    for data, target in zip(graphs, graphs.targets.tolist(), strict=True):
        n, (source, target_node) = data.num_nodes, data.edge_index.numpy()
        A = coo_array((np.ones(source.size), (source, target_node)), (n, n)).tocsr()
        away = shortest_path(A, directed=False, unweighted=True) if n else np.zeros(1)
        pairs = max(n * (n - 1), 1)
        rows.append((
            np.log1p(n), source.size / pairs, np.log1p(away[np.isfinite(away)].max()),
            float(shares[target]),
        ))  # fmt: skip
    return pd.DataFrame(rows, columns=list(PROPERTIES))


def right(results: Results, pool: str) -> pd.Series:
    """How often a pooling was right, by dataset and graph."""
    found = []
    for row in results.runs.to_dict("records"):
        kept = results.predictions.get(key(row))
        if row["pool"] == pool and row["conv"] in PAPER_CONVS and kept is not None:
            hit = kept.outputs.argmax(1) == kept.target[:, 0]
            found.append(
                pd.DataFrame({"dataset": row["dataset"], "graph": kept.graphs, "right": hit})
            )
    if not found:
        return pd.Series(dtype=float)
    return pd.concat(found).groupby(["dataset", "graph"])["right"].mean()


def place(name: str, datasets: Iterable[object]) -> str:
    """What to load for a name that runs have: the path of a dataset that the grid names by one.

    That file, or the one of this name in a data folder.
    """
    paths = {Path(str(one)).stem: str(one) for one in datasets if is_path(str(one))}
    path = paths.get(name, name)
    return name if not Path(path).exists() and find_dataset(name) else path


def wins(results: Results, pool: str, rival: str, load: Callable[[str], GraphSet]) -> pd.DataFrame:
    """A row per graph that both poolings were tested on: the lead, and the properties."""
    lead = (right(results, pool) - right(results, rival)).dropna().rename("lead").reset_index()
    parts = [
        part.join(properties(load(str(name))), on="graph") for name, part in lead.groupby("dataset")
    ]
    return pd.concat(parts, ignore_index=True) if parts else lead


def explained(table: pd.DataFrame) -> tuple[float, pd.DataFrame]:
    """R² on families that were left out, and the coefficients, a row per family left out.

    A coefficient is the change of the lead per standard deviation of the property.
    """
    family = table["dataset"].map(lambda name: FAMILIES.get(name, name))
    weight = 1 / table.groupby("dataset")["lead"].transform("size")
    X = table[list(PROPERTIES)]
    X = ((X - X.mean()) / X.std().replace(0, 1)).to_numpy()
    y, w = table["lead"].to_numpy(), (weight / weight.mean()).to_numpy()
    errors, spread, coefficients = 0.0, 0.0, {}
    for left_out in family.unique():
        seen = (family != left_out).to_numpy()
        fit = RidgeCV(PENALTIES).fit(X[seen], y[seen], sample_weight=w[seen])
        mean = np.average(y[seen], weights=w[seen])
        errors += (w * (y - fit.predict(X)) ** 2)[~seen].sum()
        spread += (w * (y - mean) ** 2)[~seen].sum()
        coefficients[left_out] = fit.coef_
    table_of = pd.DataFrame.from_dict(coefficients, orient="index", columns=list(PROPERTIES))
    return 1 - errors / spread if spread else 0.0, table_of


def holds(r2: float, coefficients: pd.DataFrame) -> list[str]:
    """The properties that count, if the regression predicts unseen families at all."""
    if r2 <= 0:
        return []
    families = len(coefficients)
    error = np.sqrt((families - 1) * coefficients.var(ddof=0))
    return [name for name in PROPERTIES if abs(coefficients[name].mean()) > 2 * error[name]]
