"""What is computed over the nodes of each graph: the softmax of scores, and the readout."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch_geometric.utils import softmax

from lcpool.ops.graph import Graph
from lcpool.ops.kernels import kernels
from lcpool.ops.precision import wide


def graph_softmax(values: Tensor, graph: Graph) -> Tensor:
    """The softmax over the nodes of each graph, summed in float32 or better."""
    if graph.batch is None:
        return wide(values).softmax(dim=0).to(values.dtype)
    compiled = kernels(values)
    if compiled is not None and graph.sizes is not None:
        h: Tensor = Softmax.apply(wide(values).contiguous(), graph.sizes.ptr, compiled)  # type: ignore[no-untyped-call]
    else:
        h = softmax(wide(values), graph.batch, num_nodes=graph.batch_size)
    return h.to(values.dtype)


def readout(x: Tensor, graph: Graph) -> Tensor:
    """Mean ‖ max over the nodes of each graph, ``[batch_size, 2 · channels]``; zeros for none."""
    compiled = kernels(x)
    if compiled is not None and graph.sizes is not None and x.dtype == wide(x).dtype:
        out: Tensor = Readout.apply(x.contiguous(), graph.sizes.ptr, compiled)  # type: ignore[no-untyped-call]
        return out
    shape, batch = (graph.batch_size, x.size(-1)), graph.batch_vector()
    count = graph.node_counts().to(x.dtype).unsqueeze(-1)
    mean = x.new_zeros(shape).index_add(0, batch, x) / count.clamp(min=1)
    index = batch.unsqueeze(-1).expand_as(x)
    # From below all numbers: a first value that equals a maximum would share its gradient.
    most = x.new_full(shape, -torch.inf).scatter_reduce(0, index, x, "amax")
    return torch.cat([mean, most.where(count > 0, 0.0)], dim=-1)


class Softmax(torch.autograd.Function):
    """The softmax over graphs whose nodes stand together, from ``ptr[g]`` to ``ptr[g + 1]``."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, ptr: Tensor, compiled: ModuleType) -> Tensor:
        """exp(v) / Σ exp(v)."""
        h: Tensor = compiled.softmax(values, ptr)
        ctx.save_for_backward(h, ptr)
        ctx.compiled = compiled
        return h

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        """H (g − Σ g h); in plain torch where the gradient's own gradient is asked for."""
        h, ptr = ctx.saved_tensors
        if torch.is_grad_enabled():
            batch = torch.repeat_interleave(ptr.diff())
            inner = (grad * h).new_zeros(ptr.numel() - 1).index_add(0, batch, grad * h)
            return h * (grad - inner[batch]), None, None
        return ctx.compiled.softmax_backward(grad.contiguous(), h, ptr), None, None


class Readout(torch.autograd.Function):
    """Mean ‖ max over graphs whose nodes stand together."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, ptr: Tensor, compiled: ModuleType) -> Tensor:
        """Both in one walk over the nodes."""
        out, ties = compiled.readout(x, ptr)
        ctx.save_for_backward(x, ptr, out, ties)
        ctx.compiled = compiled
        result: Tensor = out
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        """1/n of the mean's gradient to all, the maximum's to those who share it."""
        if torch.is_grad_enabled():  # The gradient's own gradient is asked for.
            x, ptr, out, ties = ctx.saved_tensors
            count, batch = ptr.diff(), torch.repeat_interleave(ptr.diff())
            of_mean, of_most = grad.chunk(2, dim=-1)
            is_most = x == out.chunk(2, dim=-1)[1][batch]
            shared = torch.where(is_most, (of_most / ties)[batch], 0.0)
            return (of_mean / count.clamp(min=1).unsqueeze(-1))[batch] + shared, None, None
        grad_x: Tensor = ctx.compiled.readout_backward(grad.contiguous(), *ctx.saved_tensors)
        return grad_x, None, None
