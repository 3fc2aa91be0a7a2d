from collections.abc import Callable
from dataclasses import replace

import pytest

from lcpool.data import load_dataset
from lcpool.data.table import Figure, check, paper_datasets


def test_the_table_is_the_papers():
    table = paper_datasets()
    assert list(table) == ["PROTEINS", "ENZYMES", "Mutagenicity", "DD", "NCI1", "COX2"]
    assert table["ENZYMES"] == {
        "graphs": 600,
        "classes": 6,
        "avg_nodes": 32.63,
        "avg_edges": 62.14,
        "node_labels": 1,
        "node_attributes": 18,
    }


@pytest.mark.parametrize("name", paper_datasets())
def test_real_sets_agree_with_the_paper(real_graphs: Callable, name: str):
    figures = check(real_graphs(name))
    assert len(figures) == 6
    assert all(figure.paper is not None and figure.agrees for figure in figures)


def test_another_set_under_the_same_name_does_not_agree(write_tu: Callable):
    figures = check(replace(load_dataset(write_tu()), name="PROTEINS"))
    assert [figure.quantity for figure in figures if figure.agrees] == ["classes", "node_labels"]


def test_a_set_that_is_not_in_the_paper_has_nothing_to_disagree_with(write_tu: Callable):
    figures = check(load_dataset(write_tu()))
    assert all(figure.paper is None and figure.agrees for figure in figures)
    assert [figure.read for figure in figures] == [2, 2, 3.5, 3.5, 1, 0]


def test_figures_agree_to_the_last_printed_decimal():
    assert Figure("avg_nodes", 41.22, 41.2248).agrees
    assert not Figure("avg_nodes", 41.22, 41.2252).agrees
