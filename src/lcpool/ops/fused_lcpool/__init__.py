r"""LCSMP as one operator, and the score, selection and reduction of LCPool as another.

.. math::
    s = \mathrm{LCSMP}(X, A), \quad h = \mathrm{softmax}(s), \quad \hat{i} = \mathrm{topk}(s), \quad
    X' = (X \odot h)(\hat{i}, :)

Layer by layer the scores alone are some thirty operations in both passes, each of which reads and
writes the features of all nodes, and is a launch on a GPU. The operator does what lies between the
matrix products in two kernels per pass, and X·W_d and X·W_x as one product, YG = X [W_d; W_x]ᵀ. In
LCPool the gradient of X has two parts, through X' and through s: the product that ends the second
is added to the first in place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from lcpool.graph.checks import check_lengths
from lcpool.graph.edges import BOTH_WAYS, BothWays, Edges
from lcpool.graph.graph import Graph
from lcpool.graph.sizes import owners
from lcpool.ops.kernels import kernels
from lcpool.ops.matmul import matmul
from lcpool.ops.message import difference_sum
from lcpool.ops.operator import as_operator, operator
from lcpool.ops.readout.plain import softmax
from lcpool.ops.topk import KeepPlan, Kept
from lcpool.ops.topk.plain import gate

Layer = Callable[[Tensor], Tensor]


class LCSMPParameters(NamedTuple):
    """The weights and biases of L_d, L_fd, L_x and L_s."""

    W_d: Tensor
    b_d: Tensor
    W_fd: Tensor
    b_fd: Tensor
    W_x: Tensor
    b_x: Tensor
    w_s: Tensor
    b_s: Tensor


def composed(
    x: Tensor, edges: Edges, L_d: Layer, b_d: Layer, L_fd: Layer, L_x: Layer, L_s: Layer
) -> Tensor:
    """The scores from layers; ``b_d`` adds the bias of L_d, which counts once per edge."""
    y = L_d(x)
    D = difference_sum(b_d(y), y, edges)
    return L_s(L_fd(D).relu() + L_x(x).relu()).view(-1)


def scores(x: Tensor, edges: Edges, parameters: LCSMPParameters) -> Tensor:
    """The scores from parameters of the type of x, by one operator."""
    s: Tensor = lcsmp(x, *parameters, *edges.both_ways(x, *parameters))[0]
    return s


def scores_in_torch(x: Tensor, edges: Edges, parameters: LCSMPParameters) -> Tensor:
    """:func:`scores` operation by operation, where the gradient must have a gradient itself."""
    W_d, b_d, W_fd, b_fd, W_x, b_x, w_s, b_s = parameters
    L_fd, L_x, L_s = (
        partial(linear, weight=W, bias=b) for W, b in ((W_fd, b_fd), (W_x, b_x), (w_s, b_s))
    )
    return composed(x, edges, partial(linear, weight=W_d), b_d.add, L_fd, L_x, L_s)


class GatedTopK(NamedTuple):
    """The kept nodes and their features."""

    X: Tensor  # X' = (X ⊙ h)(î, :)
    score: Tensor  # h(î)
    perm: Tensor  # î
    batch: Tensor  # the graph of each kept node
    place: Tensor  # the position of each input node in î, −1 if it was dropped
    ok: Tensor  # 1 if no h is NaN
    h: Tensor  # the softmax of the scores over each graph


class Scored(NamedTuple):
    """What LCSMP takes: X, its parameters, and A by rows."""

    x: Tensor
    parameters: LCSMPParameters
    rows: Any

    @classmethod
    def of(cls, flat: Sequence[Any]) -> Scored:
        """From the arguments one by one."""
        return cls(flat[0], LCSMPParameters(*flat[1:9]), BothWays(*flat[9:13]))

    @property
    def edges(self) -> Edges:
        """A with its rows."""
        ptr, node = self.rows.ptr, self.rows.node
        index = torch.stack([node, owners(ptr, node.numel())])
        return Edges.of_rows(index, self.x.size(0), self.rows)


class Graphs(NamedTuple):
    """How many nodes each graph has, and how many are kept."""

    counts: Tensor
    ptr: Tensor
    kept_ptr: Tensor
    num_kept: int = 0


class Products(NamedTuple):
    """What LCSMP keeps for its gradient: W = [W_d; W_x], YG = XWᵀ, D, and F = D W_fdᵀ."""

    W: Tensor
    YG: Tensor
    D: Tensor
    F: Tensor


class Saved(NamedTuple):
    """What LCPool keeps for its gradient beside :class:`Products`."""

    perm: Tensor
    batch: Tensor
    place: Tensor
    ok: Tensor
    h: Tensor


def score_and_select(
    x: Tensor, graph: Graph, plan: KeepPlan, parameters: LCSMPParameters
) -> tuple[Tensor, Tensor, Kept, Tensor]:
    """Score the nodes by LCSMP, and keep the best of each graph: X', h(î), î, and if h is no NaN.

    The nodes must be sorted by graph, and ``x`` have the type of the parameters.
    """
    check_lengths(x=(x, plan.sizes.total))
    sizes, kept = plan.sizes, plan.kept
    X, score, perm, batch, place, ok, *_ = lcpool(
        x, *parameters, *graph.edges.both_ways(x, *parameters),
        sizes.counts, sizes.ptr, kept.ptr, kept.total,
    )  # fmt: skip
    return X, score, Kept(perm, batch, place), ok


def forward_scores(given: Scored) -> tuple[Tensor, Products]:
    """The scores of all nodes, and what their gradient needs."""
    x, p, kernel = given.x.contiguous(), given.parameters, kernels(given.x)
    W = torch.cat([p.W_d, p.W_x])
    YG = matmul(x, W.t())
    D = kernel.shifted_difference_sum(YG, p.b_d, given.rows.ptr, given.rows.node)
    F = matmul(D, p.W_fd.t())
    s = kernel.combine(F, YG, p.b_fd, p.b_x, p.w_s.view(-1), p.b_s)
    return s, Products(W, YG, D, F)


def backward_scores(
    of_s: Tensor, given: Scored, saved: Products, of_x: Tensor | None = None
) -> tuple[Tensor, ...]:
    """The gradients of x, W = [W_d; W_x], W_fd and [b_fd ‖ b_x ‖ w_s ‖ b_s ‖ b_d].

    That of x is added to ``of_x`` in place, if there is one.
    """
    x, p, kernel = given.x.contiguous(), given.parameters, kernels(of_s)
    W, YG, D, F = saved
    of_F, of_YG, sums = kernel.combine_backward(of_s, F, YG, p.b_fd, p.b_x, p.w_s.view(-1))
    of_D = matmul(of_F, p.W_fd)
    ptr, node, out_ptr, out_node = given.rows
    sums = kernel.shifted_difference_backward(
        of_D, YG, p.b_d, ptr, node, out_ptr, out_node, of_YG, sums
    )
    of_x = matmul(of_YG, W, of_x, of_x)
    return of_x, matmul(of_YG.t(), x), matmul(of_F.t(), D), sums


def empty_products(given: Scored) -> Products:
    """Tensors of the shapes of :class:`Products`."""
    x, (width, channels) = given.x, given.parameters.W_d.shape
    YG, D, F = (x.new_empty(x.size(0), size) for size in (2 * width, width, width))
    return Products(x.new_empty(2 * width, channels), YG, D, F)


def gradient_in_torch(
    outputs: Sequence[Tensor], grads: Sequence[Tensor], given: Scored
) -> list[Tensor | None]:
    """The gradients of x and the parameters, which have gradients themselves."""
    each = (given.x, *given.parameters)
    wanted = [value for value in each if value.requires_grad]
    found = iter(torch.autograd.grad(outputs, wanted, grads, create_graph=True))
    return [next(found) if value.requires_grad else None for value in each]


class LCSMP:
    """The scores, then the fields of :class:`Products`."""

    results = 1

    @staticmethod
    def forward(*inputs: Any) -> tuple[Tensor, ...]:
        s, saved = forward_scores(Scored.of(inputs))
        return s, *saved

    @staticmethod
    def fake(*inputs: Any) -> tuple[Tensor, ...]:
        given = Scored.of(inputs)
        return given.x.new_empty(given.x.size(0)), *empty_products(given)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*output[1:], *inputs)
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, of_s: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
        if of_s is None:
            return (None,) * len(ctx.needs_input_grad)
        _, given = split_scored(ctx.saved_tensors)
        if torch.is_grad_enabled():
            s = scores_in_torch(given.x, given.edges, given.parameters)
            found = gradient_in_torch([s], [of_s], given)
        else:
            of_x, *of_parameters = lcsmp_backward(of_s, list(ctx.saved_tensors))
            found = [of_x, *parameter_gradients(*of_parameters)]
        return *found, *(None,) * 4


class LCPool:
    """The fields of :class:`GatedTopK`, then those of :class:`Products`."""

    results = 6

    @staticmethod
    def forward(*inputs: Any) -> tuple[Tensor, ...]:
        given, graphs = Scored.of(inputs), Graphs(*inputs[13:])
        s, saved = forward_scores(given)
        kept = kernels(s).softmax_topk_gate(given.x.contiguous(), s, *graphs)
        return *kept, *saved

    @staticmethod
    def fake(*inputs: Any) -> tuple[Tensor, ...]:
        given, num_kept = Scored.of(inputs), inputs[-1]
        x, ptr = given.x, given.rows.ptr
        kept, nodes = ptr.new_empty(num_kept), ptr.new_empty(x.size(0))
        gated = GatedTopK(
            x.new_empty(num_kept, x.size(1)), x.new_empty(num_kept),
            kept, kept.clone(), nodes, ptr.new_empty(()), x.new_empty(x.size(0)),
        )  # fmt: skip
        return *gated, *empty_products(given)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*output[2:], *inputs[:-1])
        ctx.mark_non_differentiable(*output[2:])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(
        ctx: Any, grad: Tensor | None, grad_score: Tensor | None, *_: Any
    ) -> tuple[Tensor | None, ...]:
        saved, _, given, graphs = split(ctx.saved_tensors)
        if grad is None:
            grad = saved.h.new_zeros(saved.perm.numel(), given.x.size(1))
        if torch.is_grad_enabled():
            h = softmax(scores_in_torch(given.x, given.edges, given.parameters), graphs.ptr)
            outputs = gate(given.x, h, saved.perm)
            of_h = torch.zeros_like(outputs[1]) if grad_score is None else grad_score
            found = gradient_in_torch(outputs, [grad, of_h], given)
        else:
            of_x, *of_parameters = lcpool_backward(grad, grad_score, list(ctx.saved_tensors))
            found = [of_x, *parameter_gradients(*of_parameters)]
        return *found, *(None,) * 8


def split(tensors: Sequence[Any]) -> tuple[Saved, Products, Scored, Graphs]:
    """The tensors that :class:`LCPool` saves, by name."""
    own = len(Saved._fields)
    inputs = tensors[own + len(Products._fields) :]
    return (
        Saved(*tensors[:own]), Products(*tensors[own : -len(inputs)]),
        Scored.of(inputs), Graphs(*inputs[13:]),
    )  # fmt: skip


def parameter_gradients(of_W: Tensor, of_W_fd: Tensor, sums: Tensor) -> LCSMPParameters:
    """The gradients of the parameters one by one."""
    width = of_W_fd.size(0)
    of_W_d, of_W_x = torch.split_with_sizes(of_W, [width, width])
    of_b_fd, of_b_x, of_w_s, of_b_s, of_b_d = torch.split_with_sizes(
        sums, [width, width, width, 1, width]
    )
    of_w_s = of_w_s.view(1, -1)
    return LCSMPParameters(of_W_d, of_b_d, of_W_fd, of_b_fd, of_W_x, of_b_x, of_w_s, of_b_s)


PARAMETERS = ", ".join(f"Tensor {name}" for name in LCSMPParameters._fields)
lcsmp = operator(
    f"lcsmp(Tensor x, {PARAMETERS}, {BOTH_WAYS}) -> ({', '.join(['Tensor'] * 5)})", LCSMP
)
lcpool = operator(
    f"lcpool(Tensor x, {PARAMETERS}, {BOTH_WAYS}, Tensor counts, Tensor graph_ptr, "
    f"Tensor kept_ptr, SymInt num_kept) -> ({', '.join(['Tensor'] * 11)})",
    LCPool,
)
GRADIENTS = "(Tensor, Tensor, Tensor, Tensor)"


def empty_gradients(given: Scored, saved: Products) -> tuple[Tensor, ...]:
    """Tensors of the shapes of what :func:`backward_scores` returns."""
    like = (value.new_empty(value.shape) for value in (given.x, saved.W, given.parameters.W_fd))
    return *like, given.x.new_empty(4 * given.parameters.b_d.numel() + 1)


def split_scored(tensors: Sequence[Tensor]) -> tuple[Products, Scored]:
    """The tensors that :class:`LCSMP` saves, by name."""
    count = len(Products._fields)
    return Products(*tensors[:count]), Scored.of(tensors[count:])


@as_operator(
    f"lcsmp_backward(Tensor grad, Tensor[] saved) -> {GRADIENTS}",
    lambda _, tensors: empty_gradients(*reversed(split_scored(tensors))),
)
def lcsmp_backward(grad: Tensor, tensors: list[Tensor]) -> tuple[Tensor, ...]:
    """:func:`backward_scores` from the tensors that :class:`LCSMP` saves."""
    saved, given = split_scored(tensors)
    return backward_scores(grad.contiguous(), given, saved)


@as_operator(
    f"lcpool_backward(Tensor grad, Tensor? grad_score, Tensor[] saved) -> {GRADIENTS}",
    lambda grad, grad_score, tensors: empty_gradients(*split(tensors)[2:0:-1]),
)
def lcpool_backward(
    grad: Tensor, grad_score: Tensor | None, tensors: list[Tensor]
) -> tuple[Tensor, ...]:
    """The gradients of x and the parameters, from the tensors that :class:`LCPool` saves."""
    (perm, _, place, _, h), saved, given, graphs = split(tensors)
    of_s, of_x = kernels(h).softmax_topk_gate_backward(
        grad.contiguous(), None if grad_score is None else grad_score.contiguous(),
        given.x.contiguous(), perm, place, h, graphs.counts, graphs.ptr, graphs.kept_ptr,
    )  # fmt: skip
    return backward_scores(of_s, given, saved, of_x)
