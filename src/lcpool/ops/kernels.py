"""The list of all kernels, and the choice of their version for a device.

:class:`Kernels` declares every kernel once. Three modules implement it, with the same results: in
plain torch, compiled for CPUs and compiled for GPUs (:mod:`lcpool.ops.backends`). Each gathers its
kernels from the folders of the operations, where the three versions are side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from torch import Tensor

from lcpool.warn import warn_caller

if TYPE_CHECKING:
    from lcpool.graph.assignment import Assignment
    from lcpool.graph.checks import Checks
    from lcpool.graph.edges import Edges
    from lcpool.ops.connect.blocks import RowSearch
    from lcpool.ops.connect.product import GraphSlices, SortedMatrices
    from lcpool.ops.fused_lcpool import GatedTopK
    from lcpool.ops.inspect import BatchFacts
    from lcpool.ops.matmul import Product
    from lcpool.ops.topk import KeepPlan, Kept


class Kernels(Protocol):
    """All kernels, on contiguous tensors of one device.

    Lists of neighbours are given as ``ptr`` and ``node``: row i is ``node[ptr[i] : ptr[i + 1]]``.
    Graphs are given as ``ptr``: graph g has the nodes ``ptr[g]`` to ``ptr[g + 1]``.
    """

    # inspect: the analysis of a batch, and neighbours by rows

    def inspect(self, edge_index: Tensor, num_nodes: int, batch: Tensor | None, /) -> BatchFacts:
        """Whether edges and nodes are in range and in order, and where their rows begin."""

    def sort_by_row(self, row: Tensor, node: Tensor, num_rows: int, /) -> tuple[Tensor, Tensor]:
        """Sort ``node`` by ``row``, stable: where each row begins, and the sorted nodes."""

    # matmul

    def matmul(self, A: Tensor, B: Tensor, out: Tensor | None, plus: Tensor | None, /) -> Tensor:
        """A B, or its sum with ``plus``: a row or ``out`` itself, whose rows are contiguous.

        Other than elsewhere, A and B may be parts of larger matrices, or transposed.
        """

    def matmul_each(self, products: Sequence[Product], /) -> None:
        """``matmul`` for each product."""

    # message

    def gcn_roots(self, ptr: Tensor, node: Tensor, /) -> Tensor:
        """(1 + number of neighbours other than itself)^(-1/2) of each node, in double."""

    def aggregate(self, x: Tensor, ptr: Tensor, node: Tensor, roots: Tensor | None, /) -> Tensor:
        """The sum of x over each node's neighbours; with ``roots``, normalised as in GCN."""

    def difference_sum(self, z: Tensor, y: Tensor, ptr: Tensor, node: Tensor, /) -> Tensor:
        """Σ relu(z_i − y_k) over the neighbours k of each node i."""

    def difference_sum_backward(
        self, grad: Tensor, z: Tensor, y: Tensor, ptr: Tensor, node: Tensor, out_ptr: Tensor,
        out_node: Tensor, /,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """The gradients of z and y."""

    def neighbour_max(self, x: Tensor, ptr: Tensor, node: Tensor, /) -> tuple[Tensor, Tensor]:
        """The maximum over each node's neighbours, zeros without any, and how many share it."""

    def neighbour_max_backward(
        self, share: Tensor, x: Tensor, most: Tensor, out_ptr: Tensor, out_node: Tensor, /
    ) -> Tensor:
        """The sum of the shares of maxima that each node has."""

    def weighted_sum(
        self, x: Tensor, weight: Tensor, ptr: Tensor, node: Tensor, entry: Tensor | None, /
    ) -> Tensor:
        """Σ w_e x_k over the entries (k, i) of each row i; ``entry`` is their index in w."""

    def entry_dot(
        self, y: Tensor, x: Tensor, ptr: Tensor, node: Tensor, entry: Tensor | None, /
    ) -> Tensor:
        """y_i · x_k of each entry (k, i)."""

    # readout

    def softmax(self, values: Tensor, ptr: Tensor, /) -> Tensor:
        """The softmax over the nodes of each graph."""

    def softmax_backward(self, grad: Tensor, h: Tensor, ptr: Tensor, /) -> Tensor:
        """The gradient of the values: h (g − Σ g h)."""

    def readout(self, x: Tensor, ptr: Tensor, /) -> tuple[Tensor, Tensor]:
        """Mean ‖ max of each graph, zeros for an empty one, and how many nodes share a maximum."""

    def readout_backward(
        self, grad: Tensor, x: Tensor, ptr: Tensor, out: Tensor, ties: Tensor, /
    ) -> Tensor:
        """The gradient of x; nodes that share a maximum share its gradient."""

    # topk and gate

    def topk(
        self, rank: Tensor, counts: Tensor, ptr: Tensor, kept_ptr: Tensor, num_kept: int, /
    ) -> tuple[Tensor, Tensor]:
        """The nodes of highest rank of each graph and their graphs, best first."""

    def gate(self, x: Tensor, h: Tensor, perm: Tensor, /) -> tuple[Tensor, Tensor]:
        """(X ⊙ h)(î, :) and h(î)."""

    def gate_backward(
        self, grad: Tensor, grad_score: Tensor | None, x: Tensor, h: Tensor, perm: Tensor, /
    ) -> tuple[Tensor, Tensor]:
        """The gradients of x and h: zeros for nodes that were dropped."""

    # fused_lcpool: between its matrix products, with YG = X [W_d; W_x]ᵀ

    def softmax_topk_gate(
        self, x: Tensor, rank: Tensor, counts: Tensor, ptr: Tensor, kept_ptr: Tensor, num_kept: int,
        /,
    ) -> GatedTopK:  # fmt: skip
        """The kept nodes and their features; h is the softmax of ``rank`` over each graph."""

    def softmax_topk_gate_backward(
        self, grad: Tensor, grad_score: Tensor | None, x: Tensor, perm: Tensor, place: Tensor,
        h: Tensor, counts: Tensor, ptr: Tensor, kept_ptr: Tensor, /,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """The gradient of ``rank``, and that of x in X' = (x ⊙ h)(î, :) for fixed h."""

    def shifted_difference_sum(
        self, YG: Tensor, b_d: Tensor, ptr: Tensor, node: Tensor, /
    ) -> Tensor:
        """D: Σ relu(y_i + b − y_k) over the neighbours k of node i; y is the left of ``YG``."""

    def shifted_difference_backward(
        self, grad: Tensor, YG: Tensor, b_d: Tensor, ptr: Tensor, node: Tensor, out_ptr: Tensor,
        out_node: Tensor, grad_YG: Tensor, sums: Tensor, /,
    ) -> Tensor:  # fmt: skip
        """Write the gradient of y into the left of ``grad_YG``; append that of b to ``sums``."""

    def combine(
        self, F: Tensor, YG: Tensor, b_fd: Tensor, b_x: Tensor, w_s: Tensor, b_s: Tensor, /
    ) -> Tensor:
        """(relu(F + b_fd) + relu(G + b_x)) w_s + b_s; G is the right of ``YG``."""

    def combine_backward(
        self, grad: Tensor, F: Tensor, YG: Tensor, b_fd: Tensor, b_x: Tensor, w_s: Tensor, /
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The gradients of F, of YG (only its right), and of [b_fd ‖ b_x ‖ w_s ‖ b_s].

        The last may be partial sums, which ``shifted_difference_backward`` adds.
        """

    # cells: breadth-first searches over the neighbours of each node

    def nearest_kept(
        self, ptr: Tensor, node: Tensor, place: Tensor, perm: Tensor, counts: Tensor,
        first: Tensor, /,
    ) -> Tensor:  # fmt: skip
        """The position in ``perm`` of each node's nearest kept node, −1 if none is reached."""

    def best_of_components(
        self, ptr: Tensor, node: Tensor, place: Tensor, counts: Tensor, first: Tensor, /
    ) -> Tensor:
        """Which nodes have the best place of their connected component."""

    # connect

    def connect_clusters(
        self, edges: Edges, kept: Kept, batch: Tensor | None, plan: KeepPlan | None,
        self_loops: bool, max_edges: int, checks: Checks, hops: int, /,
    ) -> Tensor:  # fmt: skip
        """The edges of A' = S'ᵀAS' for S = I + A."""

    def cluster_search(
        self, edge_index: Tensor, perm: Tensor, num_nodes: int, self_loops: bool, /
    ) -> RowSearch:
        """An object that finds rows of the same A', some at a time."""

    # independent_set, matching and contract: clusters that share no node

    def independent_set(
        self, order: Tensor, ptr: Tensor, node: Tensor, k: int, counts: Tensor, first: Tensor, /
    ) -> Tensor:
        """The kept node that each node joins, for nodes that are taken in ``order``."""

    def matching(
        self, order: Tensor, edge_index: Tensor, ptr: Tensor, entry: Tensor | None,
        counts: Tensor, first: Tensor, /,
    ) -> Tensor:  # fmt: skip
        """The matched edge of each node or −1, for edges that are taken in ``order``.

        ``entry[ptr[i] : ptr[i + 1]]`` are the edges into node i; None if sorted by target.
        """

    def contract(
        self, edge_index: Tensor, label: Tensor, num_clusters: int, /
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The edges between clusters, sorted, and by rows the edges that each is made of."""

    # connect by any assignment

    def takes_assignment(self, S: Assignment, graphs: GraphSlices | None, /) -> bool:
        """Whether ``connect_assignment`` takes this S', or leaves it to joins."""

    def connect_assignment(
        self, edge_index: Tensor, edge_weight: Tensor, S: Assignment,
        graphs: GraphSlices | None, self_loops: bool, max_edges: int, checks: Checks, /,
    ) -> tuple[Tensor, Tensor, SortedMatrices | None]:  # fmt: skip
        """The weights of S'ᵀAS', its edges, sorted, and what the kernel saves for gradients."""

    def connect_assignment_backward(
        self, grad: Tensor, edges: Tensor, edge_index: Tensor, edge_weight: Tensor, S: Assignment,
        graphs: GraphSlices | None, kept: SortedMatrices, /,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """The gradients of the weights of A and of the entries of S'."""


if TYPE_CHECKING:  # Here mypy compares what the backends offer with what is declared.
    from lcpool.ops.backends import cpu, gpu, plain

    BACKENDS: tuple[Kernels, ...] = (plain, cpu, gpu)


def kernels(like: Tensor) -> Kernels:
    """The fastest kernels for the device of ``like``."""
    compiled = None
    if like.device.type == "cpu":
        compiled = cpu_kernels()
    elif like.is_cuda:
        compiled = gpu_kernels()
    return compiled or _backend("plain")


@cache
def cpu_kernels() -> Kernels | None:
    """The numba kernels; None, with a warning, where numba is not installed."""
    found = _compiled("cpu")
    if found is None:
        warn_caller(
            "numba is not installed: on a CPU lcpool's layers run in plain torch, several times "
            "as slow. Install it: pip install numba."
        )
    return found


@cache
def gpu_kernels() -> Kernels | None:
    """The Triton kernels, or None where Triton is not installed."""
    return _compiled("gpu")


def _compiled(name: str) -> Kernels | None:
    try:
        return _backend(name)
    except ImportError:
        return None


@cache
def _backend(name: str) -> Kernels:
    # By its name: the kernels import the structures, which ask for kernels.
    return cast("Kernels", import_module(f"lcpool.ops.backends.{name}"))
