"""A' = S'ᵀAS' with its weights and their gradients.

By an operator, where there is a compiled kernel that takes the case, else by joins. The operator,
too, finds by joins what its kernel turns out not to take, and second derivatives.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from lcpool.graph.assignment import Assignment
from lcpool.graph.checks import Checks
from lcpool.graph.precision import wide
from lcpool.ops.kernels import kernels
from lcpool.ops.operator import is_traced, operator
from lcpool.ops.product.joins import connect_by_joins, gradients_by_joins
from lcpool.ops.topk import KeepPlan


class GraphSlices(NamedTuple):
    """Which nodes and which clusters belong to each graph of a batch.

    Attributes:
        batch: the graph of each node.
        num_nodes: the number of nodes of each graph, on the host.
        num_clusters: the number of clusters of each graph, on the host.
        first: the first cluster of each graph, and the end of the last.
    """

    batch: Tensor
    num_nodes: Tensor
    num_clusters: Tensor
    first: Tensor

    @classmethod
    def of_one(cls, S: Assignment) -> GraphSlices:
        """All nodes and clusters as one graph."""
        plan = KeepPlan.of_one(S.num_nodes, S.num_clusters, S.node_index.device)
        batch = S.node_index.new_zeros(S.num_nodes)
        return cls(batch, plan.sizes.counts, plan.kept.counts, plan.kept.ptr)


class SortedMatrices(NamedTuple):
    """A by source, A by target, S' by node and S' by cluster, one after the other.

    What a GPU's kernel keeps for the gradients; empty where joins were used.

    Attributes:
        ptr: where each row begins; the four begin with the rows 0, N, 2N and 3N, of which N is even
            so that each of them lies at an address that a GPU reads well from.
        column: the other end of each entry.
        origin: number q of the dense row of a node lies at its origin + q, q counting the clusters
            of all graphs; rows of clusters follow those of nodes.
        entry: the entries.
    """

    ptr: Tensor
    column: Tensor
    origin: Tensor
    entry: Tensor


class Connected(NamedTuple):
    """S'ᵀAS': its weights and its edges, sorted; and what a kernel keeps for their gradients."""

    weight: Tensor
    edges: Tensor
    kept: SortedMatrices | None = None


def connect_assignment(
    edge_index: Tensor,
    S: Assignment,
    edge_weight: Tensor | None,
    batch: Tensor | None,
    plan: KeepPlan | None,
    self_loops: bool,
    max_edges: int,
    checks: Checks,
) -> tuple[Tensor, Tensor]:
    """The edges of S'ᵀAS', sorted, and their weights, for checked input.

    A kernel may work graph by graph, from the graph of each node and how many each has and keeps,
    where that is known. Sums of 16-bit numbers are made in 32 bits.
    """
    types = [value.dtype for value in (edge_weight, S.weight) if value is not None]
    types = types or [torch.get_default_dtype()]
    dtype = torch.promote_types(types[0], types[-1])
    weight, value = (
        S.node_index.new_ones(size, dtype=dtype) if value is None else value.to(dtype)
        for value, size in ((edge_weight, edge_index.size(1)), (S.weight, S.node_index.numel()))
    )
    weight, S = wide(weight), S.with_weight(wide(value))
    graphs = None
    if batch is not None and plan is not None:
        sizes, clusters = plan.sizes, plan.kept
        graphs = GraphSlices(batch.contiguous(), sizes.counts, clusters.counts, clusters.ptr)
    given = (
        edge_index, S.node_index, S.cluster_index, weight, S.weight, list(graphs or ()),
        S.num_nodes, S.num_clusters, self_loops, max_edges,
    )  # fmt: skip
    if is_traced():
        values, edges, *_ = product(*given)
    elif kernels(weight).takes_assignment(S, graphs):
        # Pending verdicts, which a traced call has none of, cannot pass through torch's dispatcher.
        values, edges, *_ = product(*given, checks)
    else:
        # Autograd knows the way back, and need not find it again.
        edges, values = connect_by_joins(edge_index, weight, S, self_loops, max_edges, checks)
    return edges, values.to(dtype)


class ConnectAssignment:
    """The weights of S'ᵀAS' and its edges; and what a kernel keeps for their gradients."""

    @staticmethod
    def forward(
        edge_index: Tensor,
        node: Tensor,
        cluster: Tensor,
        edge_weight: Tensor,
        value: Tensor,
        graphs: list[Tensor],
        num_nodes: int,
        num_clusters: int,
        self_loops: bool,
        max_edges: int,
        checks: Checks | None = None,
    ) -> tuple[Tensor, ...]:
        """By a kernel or by joins, which keep nothing."""
        S = Assignment(node, num_nodes, cluster, num_clusters, value)
        options = (self_loops, max_edges, checks or Checks())
        found = kernels(value).connect_assignment(
            edge_index.contiguous(), edge_weight, S, _slices(graphs), *options
        )
        if found is None:
            edges, weight = connect_by_joins(edge_index, edge_weight, S, *options)
            assert weight is not None
            found = Connected(weight, edges)
        kept = found.kept or (like.new_empty(0) for like in (node, node, node, value))
        return found.weight, found.edges, *kept

    @staticmethod
    def fake(
        edge_index: Tensor, node: Tensor, _: Tensor, __: Tensor, value: Tensor, *___: Any
    ) -> Any:
        ctx = torch.library.get_ctx()
        size = ctx.new_dynamic_size()
        kept = (like.new_empty(ctx.new_dynamic_size()) for like in (*[node] * 3, value))
        return value.new_empty(size), edge_index.new_empty(2, size), *kept

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*output[1:], *inputs[:5], *inputs[5])
        ctx.sizes = inputs[6:8]

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        """By a kernel; by joins where gradients of the gradients are asked for."""
        if grad is None:
            return (None,) * 11
        (
            edges, ptr, column, origin, entry, edge_index, node, cluster, edge_weight, value,
            *graphs,
        ) = ctx.saved_tensors  # fmt: skip
        if torch.is_grad_enabled():
            num_nodes, num_clusters = ctx.sizes
            S = Assignment(node, num_nodes, cluster, num_clusters, value)
            grads = gradients_by_joins(grad, edges, edge_index, edge_weight, S)
        else:
            grads = product_backward(
                grad, edges, ptr, column, origin, entry, edge_index, node, cluster, edge_weight,
                value, graphs, *ctx.sizes,
            )  # fmt: skip
        return None, None, None, *grads, *(None,) * 6


class Gradients:
    """The gradients of the weights of A and of the entries of S'."""

    @staticmethod
    def forward(
        grad: Tensor,
        edges: Tensor,
        ptr: Tensor,
        column: Tensor,
        origin: Tensor,
        entry: Tensor,
        edge_index: Tensor,
        node: Tensor,
        cluster: Tensor,
        edge_weight: Tensor,
        value: Tensor,
        graphs: list[Tensor],
        num_nodes: int,
        num_clusters: int,
    ) -> tuple[Tensor, Tensor]:
        """By a kernel, from what it kept, or by joins."""
        S = Assignment(node, num_nodes, cluster, num_clusters, value)
        given = (grad.contiguous(), edges, edge_index.contiguous(), edge_weight, S)
        kept = SortedMatrices(ptr, column, origin, entry)
        grads = kernels(grad).connect_assignment_backward(*given, _slices(graphs), kept)
        return gradients_by_joins(*given) if grads is None else grads

    @staticmethod
    def fake(
        grad: Tensor, edges: Tensor, ptr: Tensor, column: Tensor, origin: Tensor, entry: Tensor,
        edge_index: Tensor, node: Tensor, cluster: Tensor, edge_weight: Tensor, value: Tensor,
        *_: Any,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        return edge_weight.new_empty(edge_weight.shape), value.new_empty(value.shape)


def _slices(graphs: list[Tensor]) -> GraphSlices | None:
    """As an operator took them apart."""
    return GraphSlices(*graphs) if graphs else None


ENTRIES = "Tensor edge_index, Tensor node, Tensor cluster, Tensor edge_weight, Tensor value"
SIZES = "Tensor[] graphs, SymInt num_nodes, SymInt num_clusters"
KEPT = "Tensor ptr, Tensor column, Tensor origin, Tensor entry"
product = operator(
    f"connect_assignment({ENTRIES}, {SIZES}, bool self_loops, SymInt max_edges) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    ConnectAssignment,
)
product_backward = operator(
    f"connect_assignment_backward(Tensor grad, Tensor edges, {KEPT}, {ENTRIES}, {SIZES}) "
    "-> (Tensor, Tensor)",
    Gradients,
)
