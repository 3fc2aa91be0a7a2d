import itertools

import pytest

from lcpool.models import BACKBONES
from lcpool.settings import PAPER_CONVS, POOLS
from paper.datasets import paper_datasets
from paper.published import published

CELLS = list(itertools.product(paper_datasets(), BACKBONES, PAPER_CONVS, POOLS))


def test_the_paper_reports_every_cell_but_one():
    missing = [cell for cell in CELLS if published(*cell) is None]
    assert missing == [("ENZYMES", "hierarchical", "gcn", "asapool")]


def test_figures_are_percentages():
    for mean, std in filter(None, (published(*cell) for cell in CELLS)):
        assert 50 < mean < 100
        assert 0 < std < 15


@pytest.mark.parametrize("dataset", ["builtin", "proteins", "MUTAG"])
def test_what_the_paper_does_not_report(dataset: str):
    assert published(dataset, "plain", "gcn", "lcpool") is None
