"""Tables and contrasts of the further questions are those of the runs."""

import re

import pandas as pd
import pytest
from runs import make_results

from experiments.benchmark import further
from experiments.benchmark.analysis import HERE
from lcpool.data import builtin
from lcpool.models import Architecture
from lcpool.settings import config_text, read_config_text
from lcpool.sweep.grid import read_grids
from lcpool.sweep.results import Results

BY_NAME = {part.name: part for part in further.PARTS}


def numbers(text: str) -> list[float]:
    return [float(x) for x in re.findall(r"-?\d+\.\d+", text.replace("−", "-"))]


def made(accuracy, datasets=("COX2", "DD", "NCI1"), **settings) -> pd.DataFrame:
    """Runs of one setting, two networks; ``accuracy`` is that of each dataset."""
    pool = settings.pop("pool")
    parts = [
        make_results(datasets, (backbone,), (conv,), (pool,), runs=2, split="stratified",
                     architecture=Architecture(pool=pool, **settings)).runs
        for backbone, conv in (("hierarchical", "gcn"), ("plain", "graphconv"))
    ]  # fmt: skip
    runs = pd.concat(parts, ignore_index=True)
    values = runs["dataset"].map(dict(zip(datasets, accuracy, strict=True)))
    return runs.assign(test_accuracy=values, test_accuracy_by_loss=values + 1)


def test_effects_of_scores_and_connections():
    score = {"lcsmp": 5.0, "topk": 3.0, "sag": 2.0, "random": 0.0}
    runs = [
        made([50 + s + c, 60 + s + c, 70 + s + c], pool=pool, node_score=name, **hops)
        for name, s in score.items()
        for pool, hops, c in (
            ("lcpool", {"hops": 1}, 0.0), ("lcpool", {"hops": 3}, 1.0), ("cellpool", {}, 4.0)
        )
    ]  # fmt: skip
    part, results = BY_NAME["scores"], Results(pd.concat(runs, ignore_index=True))
    means = part.means(results)
    assert means.mean()["LCSMP", "three hops"] == pytest.approx(66)
    found = {said: of.mean() for said, of in part.contrasts(means).items()}
    assert found == pytest.approx({
        "three hops − one hop, any score": 1.0, "cells − one hop, any score": 4.0,
        "cells − three hops, any score": 3.0, "LCSMP − projection, any connection": 2.0,
        "LCSMP − convolution, any connection": 3.0, "LCSMP − random, any connection": 5.0,
    })  # fmt: skip
    table, _, effects = part.answered(results).partition("\n\n")
    assert numbers(table.splitlines()[2]) == [65.0, 66.0, 69.0]
    assert len(effects.splitlines()) == 2 + 6


def test_a_cell_that_failed_leaves_its_dataset_out():
    runs = pd.concat(
        [
            made([50.0 + 9 * (pool == "cellpool"), 60.0, 70.0], pool=pool, node_score=score)
            for pool in ("lcpool", "cellpool")
            for score in ("lcsmp", "topk")
        ],
        ignore_index=True,
    )
    part, failed = BY_NAME["scores"], (runs["dataset"] == "COX2") & (runs["backbone"] == "plain")
    failed &= (runs["pool"] == "cellpool") & runs["config"].str.contains('"topk"')
    assert failed.sum() == 2
    runs.loc[runs["backbone"] == "plain", "test_accuracy"] += 20.0
    name = "cells − three hops, any score"
    assert part.contrasts(part.means(Results(runs)))[name].tolist() == [9.0, 0.0, 0.0]
    found = part.contrasts(part.means(Results(runs[~failed].reset_index(drop=True))))[name]
    assert found.dropna().tolist() == [0.0, 0.0]


def test_ratios_have_an_interval_over_datasets():
    runs = [
        made([60 - drop, 60 - 2 * drop, 60 - 3 * drop], pool="lcpool", ratio=ratio)
        for ratio, drop in ((0.8, 0.0), (0.1, 2.0))
    ]
    runs.append(made([50, 50, 50], pool="kmis"))
    part, results = BY_NAME["ratios"], Results(pd.concat(runs, ignore_index=True))
    (said,) = part.contrasts(part.means(results))
    assert said == "lcpool: 0.8 − 0.1"
    mean, low, high = numbers(part.answered(results).splitlines()[-1].split("|")[2])
    assert mean == 4.0
    assert low == pytest.approx(4 - 4.303 * 2 / 3**0.5, abs=0.05)
    assert high == pytest.approx(8 - low)
    assert "any" in part.means(results)["kmis"]


def test_depths_beside_none():
    runs = [
        made([60 + gain * depth] * 3, pool=pool, poolings=depth)
        for pool, gain in (("nopool", 1.0), ("lcpool", 3.0))
        for depth in (1, 2, 3)
    ]
    part = BY_NAME["depth"]
    found = part.contrasts(part.means(Results(pd.concat(runs, ignore_index=True))))
    assert {said: of.mean() for said, of in found.items()} == pytest.approx(
        {"nopool: 3 − 1": 2.0, "lcpool: 3 − 1": 6.0, "lcpool − nopool, 3 deep": 6.0}
    )


def test_every_cell_of_every_grid_has_a_place():
    for part in further.PARTS:
        for grid in read_grids(HERE / f"{part.name}.toml", {}):
            for network, protocol in grid.configurations():
                config = config_text(network, protocol)
                assert all(part.levels(read_config_text(config)))


def test_only_complete_datasets_count():
    part = BY_NAME["scores"]
    results = Results(made([50.0, 60.0, 70.0], pool="cellpool", node_score="topk"))
    said = further.section(part, results, lambda name: builtin(num_graphs=4))
    assert "\n" not in said


def test_k_mis_keeps_fewer_nodes_the_larger_k_is():
    graphs = builtin(num_graphs=8)
    shares = [further.kept(graphs, k) for k in (1, 2, 3)]
    assert 1 > shares[0] > shares[1] >= shares[2] > 0
