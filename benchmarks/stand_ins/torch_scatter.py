"""The part of ``torch_scatter`` that tgp and PyG call, in plain torch, where it cannot be compiled.

It has no wheel for current versions of torch, and tgp does not import without it. Put this folder
into PYTHONPATH in its place. It is no part of lcpool.
"""

from __future__ import annotations

from functools import partial

import torch

NAMES = {"sum": "sum", "add": "sum", "mean": "mean", "mul": "prod", "min": "amin", "max": "amax"}
__version__ = "2.1.2"


def scatter(src, index, dim=-1, out=None, dim_size=None, reduce="sum"):
    """``out`` with ``src`` reduced into it at ``index``, in place where it is given."""
    dim = dim % src.dim()
    if index.dim() < src.dim():
        index = index.view([-1 if d == dim else 1 for d in range(src.dim())])
    index = index.expand_as(src)
    if out is not None:
        return out.copy_(out.scatter_reduce(dim, index, src, NAMES[reduce]))
    shape = list(src.shape)
    shape[dim] = dim_size or (int(index.max()) + 1 if index.numel() else 0)
    empty = src.new_full(shape, int(reduce == "mul"))
    return empty.scatter_reduce(dim, index, src, NAMES[reduce], include_self=reduce == "mul")


def with_arguments(reduce, *args, **kwargs):
    """Minimum or maximum; where it is, which tgp does not ask for, is None."""
    return scatter(*args, **kwargs, reduce=reduce), None


def segment_csr(src, ptr, reduce="sum"):
    """``src`` reduced over the rows that begin at ``ptr``, which PyG calls."""
    return torch.segment_reduce(src, reduce, offsets=ptr, axis=0, initial=0)


scatter_add = scatter_sum = scatter
scatter_mul = partial(scatter, reduce="mul")
scatter_min, scatter_max = partial(with_arguments, "min"), partial(with_arguments, "max")
