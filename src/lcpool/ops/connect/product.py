"""A' = S'ᵀAS' with its weights and their gradients.

By an operator where a compiled kernel takes the case, else, and for second derivatives, by joins.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from lcpool.graph.assignment import Assignment
from lcpool.graph.checks import Checks
from lcpool.graph.precision import wide
from lcpool.ops.connect import plain
from lcpool.ops.kernels import kernels
from lcpool.ops.operator import as_operator, is_traced, new_size, operator
from lcpool.ops.topk import KeepPlan


class GraphSlices(NamedTuple):
    """Which nodes and which clusters belong to each graph of a batch."""

    batch: Tensor  # the graph of each node
    num_nodes: Tensor  # the number of nodes of each graph, on the host
    num_clusters: Tensor  # the number of clusters of each graph, on the host
    first: Tensor  # the first cluster of each graph, and the end of the last

    @classmethod
    def of_one(cls, S: Assignment) -> GraphSlices:
        """All nodes and clusters as one graph."""
        plan = KeepPlan.of_one(S.num_nodes, S.num_clusters, S.node_index.device)
        batch = S.node_index.new_zeros(S.num_nodes)
        return cls(batch, plan.sizes.counts, plan.kept.counts, plan.kept.ptr)


class SortedMatrices(NamedTuple):
    """A by source, A by target, S' by node and S' by cluster, one after the other.

    A GPU's kernel keeps them for the gradients; empty where joins were used.

    Attributes:
        ptr: where each row begins. The four matrices begin at rows 0, N, 2N and 3N; N is even, so
            that each begins at an aligned address.
        column: the column of each entry.
        origin: the number for cluster q in the dense row of a node is at the node's origin + q,
            where q counts the clusters of all graphs; rows of clusters follow those of nodes.
        entry: the value of each entry.
    """

    ptr: Tensor
    column: Tensor
    origin: Tensor
    entry: Tensor


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

    With ``batch``, the graph of each node, and ``plan``, a kernel works graph by graph. Sums of
    16-bit numbers are made in 32 bits.
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
        # Pending checks cannot pass through torch's dispatcher; a traced call has none.
        values, edges, *_ = product(*given, checks)
    else:
        # Autograd differentiates the joins themselves, without searching the edges again.
        found = plain.connect_by_joins(edge_index, weight, S, self_loops, max_edges, checks)
        edges, values = found
    return edges, values.to(dtype)


class Inputs(NamedTuple):
    """What the operator takes: A and S' as tensors, and the fields of :class:`GraphSlices`."""

    edge_index: Tensor
    node: Tensor
    cluster: Tensor
    edge_weight: Tensor
    value: Tensor
    graphs: list[Tensor]
    num_nodes: int
    num_clusters: int
    self_loops: bool = True
    max_edges: int = 0
    checks: Checks | None = None

    @property
    def S(self) -> Assignment:  # noqa: N802 - the paper's name
        size = (self.num_nodes, self.cluster, self.num_clusters)
        return Assignment.trusted(self.node, *size, self.value)

    @property
    def slices(self) -> GraphSlices | None:
        return GraphSlices(*self.graphs) if self.graphs else None


class ConnectAssignment:
    """The weights of S'ᵀAS' and its edges, then the fields of :class:`SortedMatrices`."""

    @staticmethod
    def forward(*inputs: Any) -> tuple[Tensor, ...]:
        given = Inputs(*inputs)
        weight, edges, kept = kernels(given.value).connect_assignment(
            given.edge_index.contiguous(), given.edge_weight, given.S, given.slices,
            given.self_loops, given.max_edges, given.checks or Checks(),
        )  # fmt: skip
        index = given.node
        none = (like.new_empty(0) for like in (index, index, index, given.value))
        return weight, edges, *(kept or none)

    @staticmethod
    def fake(*inputs: Any) -> Any:
        given, size = Inputs(*inputs), new_size()
        index, value = given.node, given.value
        kept = (like.new_empty(new_size()) for like in (index, index, index, value))
        return value.new_empty(size), index.new_empty(2, size), *kept

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        given = Inputs(*inputs)
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*output[1:], *inputs[:5], *given.graphs)
        ctx.numbers = given[6:]

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        if grad is None:
            return (None,) * 11
        edges, *tensors = ctx.saved_tensors
        kept, given = tensors[:4], Inputs._make([*tensors[4:9], tensors[9:], *ctx.numbers])
        if torch.is_grad_enabled():  # The gradient must have a gradient itself.
            matrices = (given.edge_index, given.edge_weight, given.S)
            grads = plain.connect_assignment_backward(grad, edges, *matrices)
        else:
            grads = product_backward(grad, edges, *kept, *given[:8])
        return None, None, None, *grads, *(None,) * 6


ENTRIES = "Tensor edge_index, Tensor node, Tensor cluster, Tensor edge_weight, Tensor value"
SIZES = "Tensor[] graphs, SymInt num_nodes, SymInt num_clusters"
KEPT = "Tensor ptr, Tensor column, Tensor origin, Tensor entry"
product = operator(
    f"connect_assignment({ENTRIES}, {SIZES}, bool self_loops, SymInt max_edges) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    ConnectAssignment,
)


def _like_inputs(grad: Tensor, edges: Tensor, *tensors: Any) -> tuple[Tensor, Tensor]:
    given = Inputs(*tensors[4:])
    return torch.empty_like(given.edge_weight), torch.empty_like(given.value)


@as_operator(
    f"connect_assignment_backward(Tensor grad, Tensor edges, {KEPT}, {ENTRIES}, {SIZES}) "
    "-> (Tensor, Tensor)",
    _like_inputs,
)
def product_backward(grad: Tensor, edges: Tensor, *tensors: Any) -> tuple[Tensor, Tensor]:
    """The gradients of the weights of A and of the entries of S'."""
    kept, given = SortedMatrices(*tensors[:4]), Inputs(*tensors[4:])
    matrices = (given.edge_index.contiguous(), given.edge_weight, given.S)
    kernel = kernels(grad).connect_assignment_backward
    return kernel(grad.contiguous(), edges, *matrices, given.slices, kept)
