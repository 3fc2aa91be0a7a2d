"""Steps of a stack that are captured once as a CUDA graph, and replayed: one launch each.

On a GPU a step of small graphs waits for the host, which launches some hundred kernels. Captured,
the same kernels run without it. Shapes are fixed, so batches come from a
:class:`~lcpool.train.stack.feed.Feed`, and the numbers of the graphs of an epoch lie on the device
beforehand. Each shape runs once as usual, which compiles its kernels, and is captured at its second
step.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from lcpool.data import GraphBatch, GraphSet
from lcpool.graph.capture import NotCapturableError, host_apart
from lcpool.train.faults import is_out_of_memory
from lcpool.train.stack import Stack
from lcpool.train.stack.feed import Columns, Feed, NotCountedError
from lcpool.warn import warn_caller

Work = Callable[[GraphBatch, Tensor], None]


class Capturer:
    """Captures CUDA graphs that share their memory, as they are never replayed at once."""

    def __init__(self, device: torch.device) -> None:
        # Autograd works on the stream of a parameter's first use, which must not be the default.
        self.stream: Any = torch.cuda.Stream(device)
        self.pool = torch.cuda.graph_pool_handle()

    def aside(self, work: Callable[[], None]) -> None:
        """Call ``work`` on the stream of captures."""
        current = torch.cuda.current_stream(self.stream.device)
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            work()
        current.wait_stream(self.stream)

    def capture(self, work: Callable[[], None]) -> Any:
        """What ``work`` does, as a graph to be replayed."""
        graph: Any = torch.cuda.CUDAGraph()
        # Other threads of this process may go on working. Garbage may be earlier graphs: freeing
        # these during a capture would end it.
        collects = gc.isenabled()
        gc.disable()
        try:
            with torch.cuda.graph(
                graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local"
            ):
                work()
        finally:
            if collects:
                gc.enable()
        return graph


class Replayed:
    """``work(batch, step)`` for one batch after the other of one shape; ``step`` counts them.

    Args:
        feed: makes the batches.
        work: works on the device alone, and writes its results to tensors that it has made before.
        capturer: captures the steps; None, on a CPU, to call ``work`` for each.
    """

    def __init__(self, feed: Feed, work: Work, capturer: Capturer | None) -> None:
        self.feed, self.work, self.capturer = feed, work, capturer
        device = feed.columns.graphs.x.device
        self.step = torch.zeros(1, dtype=torch.int64, device=device)
        self.table = torch.empty(0, feed.graphs, dtype=torch.int64, device=device)
        self.warm = False
        self.captured: Any = None

    def __call__(self, batches: Tensor) -> None:
        """Go through batches, ``[steps, graphs]``, numbers of graphs on the host."""
        if len(batches) > len(self.table):
            self.table = torch.empty_like(batches, device=self.table.device)
            self.warm = False
        if not self.feed.load(batches):
            self.warm = False
        if not self.warm:
            self.close()
        self.table[: len(batches)] = batches.to(self.table.device)
        self.step.zero_()
        for _ in range(len(batches)):
            self._next()

    def _next(self) -> None:
        if self.captured is not None:
            self.captured.replay()
        elif self.capturer is None:
            self._work()
        elif not self.warm:
            self.capturer.aside(self._work)
            self.warm = True
        else:
            self._capture(self.capturer)

    def _capture(self, capturer: Capturer) -> None:
        """Capture a step and replay it; where a library cannot be captured, go on without."""
        try:
            self.captured = capturer.capture(self._work)
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            warn_caller(f"training steps are not captured, which takes longer: {error!r}")
            self.capturer = None
            self._work()
        else:
            self.captured.replay()

    def close(self) -> None:
        """Free the graph and its memory."""
        if self.captured is not None:
            self.captured.reset()
            self.captured = None

    def _work(self) -> None:
        with host_apart():
            picked = self.table.index_select(0, self.step).view(-1)
            self.work(self.feed.cut(picked), self.step)
            self.step += 1


class Steps:
    """The training steps of a stack, and its scores of graphs, replayed.

    Args:
        stack: the networks.
        columns: the graphs.
        runs: how many networks there are.
        losses: the training loss of each run, from the output of the stack and the batch.
        optimizer: of the parameters of the stack.
    """

    def __init__(
        self,
        stack: Stack,
        columns: Columns,
        runs: int,
        losses: Callable[[Any, GraphBatch], Tensor],
        optimizer: torch.optim.Optimizer,
    ) -> None:
        self.stack, self.columns, self.runs = stack, columns, runs
        self.losses, self.optimizer = losses, optimizer
        self.parameters = list(stack.model.parameters())
        self.hops: set[float] = {1}
        device = columns.graphs.x.device
        self.total = torch.zeros(runs, dtype=torch.float64, device=device)
        self.capturer = Capturer(device) if device.type == "cuda" else None
        self.training: dict[int, Replayed] = {}
        self.scoring: dict[int, tuple[Replayed, Tensor]] = {}

    def train(self, orders: Sequence[Sequence[Tensor] | None]) -> Tensor:
        """A step for each batch of graphs of each run, None for a run that has ended.

        Returns the sum of the losses of each run.
        """
        self.total.zero_()
        self.stack.model.train()
        steps = next(order for order in orders if order is not None)
        for size, first, stop in equal_parts(list(map(len, steps))):
            empty = torch.full((stop - first, size), self.columns.empty)
            batches = [
                empty if order is None else torch.stack(list(order[first:stop])) for order in orders
            ]
            if size not in self.training:
                self.training[size] = self._replayed(size, self._train)
            self.training[size](torch.cat(batches, dim=1))
        return self.total

    def _train(self, batch: GraphBatch, _: Tensor) -> None:
        loss = self.losses(self.stack(batch, self.runs), batch)
        gradients = torch.autograd.grad(loss.sum(), self.parameters, allow_unused=True)
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient
        self.optimizer.step()
        self.total += loss.detach()
        self.optimizer.zero_grad(set_to_none=True)

    @torch.no_grad()
    def scores(self, indices: Sequence[Tensor | None], most: int) -> Tensor:
        """The scores of some graphs of each run, ``[runs, graphs, outputs]``; None for ended runs.

        The networks get ``most`` graphs at a time.
        """
        self.stack.model.eval()
        count = max(len(index) for index in indices if index is not None)
        size = min(count, most)
        steps = -(-count // size)
        filled = torch.full((len(indices), steps * size), self.columns.empty)
        for row, index in zip(filled, indices, strict=True):
            if index is not None:
                row[: len(index)] = index
        if size in self.scoring and len(self.scoring[size][1]) < steps:
            self.scoring.pop(size)[0].close()
        if size not in self.scoring:
            outputs = self.columns.graphs.num_outputs
            out = self.columns.graphs.x.new_empty(steps, self.runs * size, outputs)
            self.scoring[size] = self._replayed(size, self._write_to(out)), out
        replayed, out = self.scoring[size]
        replayed(filled.view(self.runs, steps, size).transpose(0, 1).reshape(steps, -1))
        by_run = out[:steps].view(steps, self.runs, size, -1).transpose(0, 1)
        return by_run.reshape(self.runs, steps * size, -1)[:, :count]

    def _write_to(self, out: Tensor) -> Work:
        def work(batch: GraphBatch, step: Tensor) -> None:
            scores = self.stack(batch, self.runs).logits
            out.index_copy_(0, step, scores.unsqueeze(0))

        return work

    def _replayed(self, size: int, work: Work) -> Replayed:
        feed = Feed(self.columns, self.runs, size, self.hops)
        return Replayed(feed, work, self.capturer)

    def close(self) -> None:
        """Free all graphs and their memory."""
        for replayed in (*self.training.values(), *(one for one, _ in self.scoring.values())):
            replayed.close()

    def check(self, graphs: Tensor) -> None:
        """Raise a ``NotCapturableError`` if a step would need the host.

        A step on a few graphs, by numbers, that changes nothing.
        """
        self.stack.model.eval()  # no running statistics are changed
        feed = Feed(self.columns, self.runs, len(graphs), self.hops)
        feed.load(graphs.repeat(1, self.runs))
        picked = feed.batches[0].to(self.total.device)
        try:
            with host_apart(), refused_waits(picked.device):
                batch = feed.cut(picked)
                loss = self.losses(self.stack(batch, self.runs), batch).sum()
                torch.autograd.grad(loss, self.parameters, allow_unused=True)
        except NotCountedError as missing:
            self.hops.add(missing.args[0])
        except RuntimeError as error:
            if "synchronizing CUDA" not in str(error):
                raise
            raise NotCapturableError("the host waits for the device in it") from error
        else:
            return
        self.check(graphs)


@contextmanager
def refused_waits(device: torch.device) -> Iterator[None]:
    """An error where the host would wait for a GPU."""
    if device.type != "cuda":
        yield
        return
    mode = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(mode)


@lru_cache(maxsize=4)
def columns_of(graphs: GraphSet) -> Columns:
    """The columns of a set, made once for all its trainings."""
    return Columns(graphs)


def equal_parts(counts: Sequence[int]) -> list[tuple[int, int, int]]:
    """Neighbours that are equal: the number, and where its part begins and ends.

    >>> equal_parts([32, 32, 17])
    [(32, 0, 2), (17, 2, 3)]
    """
    begins = [i for i, count in enumerate(counts) if i == 0 or counts[i - 1] != count]
    return [(counts[a], a, b) for a, b in zip(begins, [*begins[1:], len(counts)], strict=True)]
