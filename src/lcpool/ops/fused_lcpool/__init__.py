r"""The score, selection and reduction of LCPool as one operator: all but its edges.

.. math::
    s = \mathrm{LCSMP}(X, A), \quad h = \mathrm{softmax}(s), \quad \hat{i} = \mathrm{topk}(s), \quad
    X' = (X \odot h)(\hat{i}, :)

Layer by layer the scores alone are some thirty operations in both passes, each of which reads and
writes the features of all nodes, and is a launch on a GPU. The operator does what lies between the
matrix products in two kernels per pass, and X·W_d and X·W_x as one product, YG = X [W_d; W_x]ᵀ. The
gradient of X has two parts, through X' and through s: the product that ends the second is added to
the first in place.
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
    """The scores from parameters of the type of x."""
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


class Inputs(NamedTuple):
    """What the operator takes: X, the parameters of LCSMP, A by rows, and the sizes of graphs."""

    x: Tensor
    parameters: LCSMPParameters
    rows: Any
    counts: Tensor
    graph_ptr: Tensor
    kept_ptr: Tensor
    num_kept: int = 0

    @classmethod
    def of(cls, flat: Sequence[Any]) -> Inputs:
        """From the arguments one by one; the last may be missing."""
        return cls(flat[0], LCSMPParameters(*flat[1:9]), BothWays(*flat[9:13]), *flat[13:])


class Saved(NamedTuple):
    """The results that are kept for the gradient, with W = [W_d; W_x], YG = XWᵀ and F = D W_fdᵀ."""

    perm: Tensor
    batch: Tensor
    place: Tensor
    ok: Tensor
    h: Tensor
    W: Tensor
    YG: Tensor
    D: Tensor
    F: Tensor


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


class LCPool:
    """The fields of :class:`GatedTopK`, then those of :class:`Saved` that are not among them."""

    results = 6

    @staticmethod
    def forward(*inputs: Any) -> tuple[Tensor, ...]:
        given = Inputs.of(inputs)
        x, p, kernel = given.x.contiguous(), given.parameters, kernels(given.x)
        W = torch.cat([p.W_d, p.W_x])
        YG = torch.mm(x, W.t())
        D = kernel.shifted_difference_sum(YG, p.b_d, given.rows.ptr, given.rows.node)
        F = torch.mm(D, p.W_fd.t())
        s = kernel.combine(F, YG, p.b_fd, p.b_x, p.w_s.view(-1), p.b_s)
        kept = kernel.softmax_topk_gate(
            x, s, given.counts, given.graph_ptr, given.kept_ptr, given.num_kept
        )
        return *kept, W, YG, D, F

    @staticmethod
    def fake(*inputs: Any) -> tuple[Tensor, ...]:
        given = Inputs.of(inputs)
        x, ptr, (width, channels) = given.x, given.rows.ptr, given.parameters.W_d.shape
        kept, nodes = ptr.new_empty(given.num_kept), ptr.new_empty(x.size(0))
        gated = GatedTopK(
            x.new_empty(given.num_kept, channels), x.new_empty(given.num_kept),
            kept, kept.clone(), nodes, ptr.new_empty(()), x.new_empty(x.size(0)),
        )  # fmt: skip
        YG, D, F = (x.new_empty(x.size(0), size) for size in (2 * width, width, width))
        return *gated, x.new_empty(2 * width, channels), YG, D, F

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*output[2:], *inputs[:-1])
        ctx.mark_non_differentiable(*output[2:])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(
        ctx: Any, grad: Tensor | None, grad_score: Tensor | None, *_: Any
    ) -> tuple[Tensor | None, ...]:
        saved, inputs = split(ctx.saved_tensors)
        if grad is None:
            grad = saved.h.new_zeros(saved.perm.numel(), inputs.x.size(1))
        if torch.is_grad_enabled():  # The gradient must have a gradient itself.
            ptr, node, *_ = rows = inputs.rows
            index = torch.stack([node, owners(ptr, node.numel())])
            edges = Edges.of_rows(index, inputs.x.size(0), rows)
            h = softmax(scores(inputs.x, edges, inputs.parameters), inputs.graph_ptr)
            outputs = gate(inputs.x, h, saved.perm)
            grads = [grad, torch.zeros_like(outputs[1]) if grad_score is None else grad_score]
            each = (inputs.x, *inputs.parameters)
            wanted = [value for value in each if value.requires_grad]
            given = iter(torch.autograd.grad(outputs, wanted, grads, create_graph=True))
            found = [next(given) if value.requires_grad else None for value in each]
        else:
            of_x, *of_parameters = lcpool_backward(grad, grad_score, list(ctx.saved_tensors))
            found = [of_x, *parameter_gradients(*of_parameters)]
        return *found, *(None,) * 8


def split(tensors: Sequence[Tensor]) -> tuple[Saved, Inputs]:
    """The tensors that :class:`LCPool` saves, by name."""
    count = len(Saved._fields)
    return Saved(*tensors[:count]), Inputs.of(tensors[count:])


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
lcpool = operator(
    f"lcpool(Tensor x, {PARAMETERS}, {BOTH_WAYS}, Tensor counts, Tensor graph_ptr, "
    f"Tensor kept_ptr, SymInt num_kept) -> ({', '.join(['Tensor'] * 11)})",
    LCPool,
)


def _like_inputs(
    grad: Tensor, grad_score: Tensor | None, tensors: list[Tensor]
) -> tuple[Tensor, ...]:
    saved, given = split(tensors)
    x, W_fd, b_d = given.x, given.parameters.W_fd, given.parameters.b_d
    like = (value.new_empty(value.shape) for value in (x, saved.W, W_fd))
    return *like, b_d.new_empty(4 * b_d.numel() + 1)


@as_operator(
    "lcpool_backward(Tensor grad, Tensor? grad_score, Tensor[] saved) "
    "-> (Tensor, Tensor, Tensor, Tensor)",
    _like_inputs,
)
def lcpool_backward(
    grad: Tensor, grad_score: Tensor | None, tensors: list[Tensor]
) -> tuple[Tensor, ...]:
    """The gradients of x, W = [W_d; W_x], W_fd and [b_fd ‖ b_x ‖ w_s ‖ b_s ‖ b_d]."""
    (perm, _, place, _, h, W, YG, D, F), given = split(tensors)
    x, p, kernel = given.x.contiguous(), given.parameters, kernels(h)
    of_s, of_x = kernel.softmax_topk_gate_backward(
        grad.contiguous(), None if grad_score is None else grad_score.contiguous(),
        x, perm, place, h, given.counts, given.graph_ptr, given.kept_ptr,
    )  # fmt: skip
    of_F, of_YG, sums = kernel.combine_backward(of_s, F, YG, p.b_fd, p.b_x, p.w_s.view(-1))
    of_D = torch.mm(of_F, p.W_fd)
    ptr, node, out_ptr, out_node = given.rows
    sums = kernel.shifted_difference_backward(
        of_D, YG, p.b_d, ptr, node, out_ptr, out_node, of_YG, sums
    )
    return of_x.addmm_(of_YG, W), torch.mm(of_YG.t(), x), torch.mm(of_F.t(), D), sums
