"""The poolings of docs/own-pooling.md, importable by name, and one with a loss."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "own-pooling.md"
*CLASSES, CHECKS = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
for block in CLASSES:
    exec(compile(block, PAGE, "exec"))
for name in ("KMIS", "EdgeContraction", "RandomHalf"):
    globals()[name].__module__ = __name__


class WithLoss(KMIS):  # noqa: F821 - from the page
    """Wants scores of each graph to add up to one."""

    loss_weights = {"sum": 0.3}  # noqa: RUF012

    def losses(self, graph, S):
        score = self.score(graph.x).view(-1)
        total = score.new_zeros(graph.batch_size).index_add(0, graph.batch_vector(), score)
        return {"sum": (total - 1).square()}


class OnClusters(KMIS):  # noqa: F821
    """Transforms the pooled features: a layer that a stack cannot place."""

    def __init__(self, in_channels):
        super().__init__(in_channels)
        import torch

        self.after = torch.nn.Linear(in_channels, in_channels)

    def reduce(self, graph, S):
        return self.after(super().reduce(graph, S))


class OneLoss(KMIS):  # noqa: F821
    """Sets one loss for the whole batch, by hand."""

    def forward(self, *args, **kwargs):
        out = super().forward(*args, **kwargs)
        out.loss = out.x.square().mean()
        return out
