import os
from pathlib import Path

import pytest

from lcpool.data.checks import EdgeCounts
from lcpool.data.tu import read_tu
from paper.datasets import paper_datasets

SHARED = Path(__file__).parents[3] / "shared" / "tudatasets"
REAL = Path(os.environ.get("LCPOOL_DATA") or SHARED)


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


@pytest.mark.filterwarnings("ignore::lcpool.data.DataWarning")
@pytest.mark.parametrize("name", paper_datasets())
def test_real_sets_agree_with_the_paper(name: str):
    path = REAL / f"{name}.zip"
    if not path.is_file():
        pytest.skip(f"{name}.zip is neither in LCPOOL_DATA nor in ../shared/tudatasets")
    graphs = read_tu(path)
    read = {
        "graphs": len(graphs),
        "classes": graphs.num_classes,
        "avg_nodes": graphs.x.size(0) / len(graphs),
        "avg_edges": EdgeCounts.of(graphs).pairs / len(graphs),
        "node_labels": len(graphs.label_widths),
        "node_attributes": graphs.num_features - sum(graphs.label_widths),
    }
    # Half of the last decimal that the paper prints.
    assert read == pytest.approx(paper_datasets()[name], abs=0.005)
