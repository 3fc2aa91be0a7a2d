"""The paper's statements about graphs, and the tests that show each of them."""

from __future__ import annotations

from typing import NamedTuple

from lcpool.report.tables import Markdown

CONNECT = "tests/ops/test_connect.py"
LC = "tests/pool/test_lc.py"


class Shown(NamedTuple):
    """A statement, the tests that show it, and what the paper does not say about it."""

    name: str
    says: str
    tests: tuple[str, ...]
    note: str = ""


STATEMENTS = (
    Shown(
        "Prerequisite 1",
        "A node contributes to itself and its neighbours alone.",
        ("tests/pool/test_local.py::test_prerequisite_1_is_verified",),
        "A condition; `verify=True` checks an assignment of one's own.",
    ),
    Shown(
        "Proposition 2",
        "Connected contributors connect their clusters; S with a full diagonal preserves edges.",
        (f"{CONNECT}::test_proposition_2", f"{CONNECT}::test_proposition_2_needs_s_without_signs"),
        "Holds for S ≥ 0. With signs, entries of S'ᵀAS' can cancel.",
    ),
    Shown(
        "Proposition 3",
        "Node selection is local assignment selection with f = I.",
        (f"{CONNECT}::test_proposition_3", "tests/pool/test_topk.py::test_equals_pyg"),
        "The second test is of TopK, which is made that way: X' too.",
    ),
    Shown(
        "Prerequisite 4",
        "A node contributes to itself and all of its neighbours.",
        (f"{CONNECT}::test_lemma_5_is_local_assignment_selection_with_any_positive_s",),
        "A condition; any positive S that meets it gives the same edges.",
    ),
    Shown(
        "Lemma 5",
        "A' = ones(A + AᵀA + A² + AᵀA²)(î, î).",
        (f"{CONNECT}::test_lemma_5", f"{LC}::test_equals_the_equations_of_the_paper"),
    ),
    Shown(
        "Proposition 6",
        "Of undirected graphs, A' = ones(A + A² + A³)(î, î).",
        (f"{CONNECT}::test_proposition_6",),
    ),
    Shown(
        "Proposition 7",
        "v can be left out behind a convolution.",
        (f"{LC}::test_proposition_7",),
        "The test shows that a convolution and then LCPool is local cluster selection with that "
        "convolution as v. Whether another v would help is a matter of accuracy: see the claims.",
    ),
    Shown(
        "Lemma 8",
        "S(:, î)ᵀAS(:, î) = (SᵀAS)(î, î).",
        (f"{CONNECT}::test_lemma_8",),
    ),
    Shown(
        "LCSMP",
        "Tells clusters apart whose differences cancel out in the graph Laplacian.",
        ("tests/nn/test_lcsmp.py::test_distinguishes_clusters_whose_differences_cancel",),
    ),
    Shown(
        "Adaptive",
        "The pooled graph's size is proportional to that of the input.",
        ("tests/ops/test_topk.py::test_k_is_exact_for_every_decimal",),
    ),
    Shown(
        "ASAP",
        "Is local assignment selection with attention as f.",
        ("tests/pool/test_asap.py::test_equals_pyg",),
        "Made of those parts, it gives what PyG's own ASAP gives.",
    ),
    Shown(
        "Sparse",
        "Sparse products reduce the cost.",
        (),
        "Measured, not tested: times and memory beside dense assignment are in "
        "[performance](performance.md) and in the costs below.",
    ),
    Shown(
        "Dense",
        "Dense assignment gives every graph the same size: small graphs grow.",
        ("tests/pool/test_dense.py::test_every_pooled_graph_is_complete",),
        "There, even a graph without nodes gets three.",
    ),
    Shown(
        "Connectivity",
        "New edges strengthen the connectivity of the pooled graph.",
        (f"{CONNECT}::test_proposition_2", f"{LC}::test_a_connected_graph_stays_connected"),
        "All edges of node selection are there, and others. A connected graph stays so if every "
        "node is kept or has a kept neighbour; else it can fall apart: see how often, below.",
    ),
)


def theory() -> str:
    """A row for each statement."""
    rows = [
        [one.name, one.says, "<br>".join(f"`{test}`" for test in one.tests) or "–",
         one.note]
        for one in STATEMENTS
    ]  # fmt: skip
    return Markdown().grid(["", "statement", "shown by", "note"], rows)
