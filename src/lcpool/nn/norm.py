"""Batch normalisation for batches of any size."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


class BatchNorm(nn.BatchNorm1d):
    """``nn.BatchNorm1d`` that also trains on a batch with no or one row.

    Such a batch has no variance. It is normalised with the running statistics, which stay as they
    are. Graphs may have no nodes, and a pooling may keep one.
    """

    def forward(self, x: Tensor) -> Tensor:
        if self.training and x.size(0) < 2:
            own = (self.running_mean, self.running_var, self.weight, self.bias)
            return F.batch_norm(x, *own, eps=self.eps)
        return super().forward(x)
