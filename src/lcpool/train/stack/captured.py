"""Steps of a stack that are captured once as a CUDA graph, and replayed: one launch each.

On a GPU a step of small graphs waits for the host, which launches some hundred kernels. Captured,
the same kernels run without it. Shapes are fixed, so batches come from a
:class:`~lcpool.train.stack.feed.Feed`, and the numbers of the graphs of an epoch lie on the device
beforehand. Each shape runs once as usual, which compiles its kernels, and is captured at its second
step.
"""

from __future__ import annotations

import copy
import gc
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from lcpool.data import GraphBatch, GraphSet
from lcpool.graph.capture import NotCapturableError, without_copies
from lcpool.train.stack import Stack
from lcpool.train.stack.feed import Columns, Feed, NotCountedError

Work = Callable[[GraphBatch, Tensor], None]
# The batches of each run, numbers of graphs on the host; None for a run that has ended.
Orders = Sequence[Sequence[Tensor] | None]
# The graphs of each run to score, likewise.
Indices = Sequence[Tensor | None]
# The rooms of the feeds of training (True) and of scoring, by the number of graphs of each run.
Rooms = dict[bool, dict[int, dict[Any, int]]]
_columns: WeakKeyDictionary[GraphSet, Columns] = WeakKeyDictionary()


class Capturer:
    """Captures CUDA graphs that share their memory, as they are never replayed at once.

    Where that fails, as in too little memory, ``failed`` is called with the error, and nothing more
    is captured.
    """

    def __init__(self, device: torch.device, failed: Callable[[Exception], None]) -> None:
        # Autograd works on the stream of a parameter's first use, which must not be the default.
        self.stream: Any = torch.cuda.Stream(device)
        self.pool = torch.cuda.graph_pool_handle()
        self.failed, self.works = failed, True

    def aside(self, work: Callable[[], None]) -> None:
        """Call ``work`` on the stream of captures."""
        with torch.cuda.device(self.stream.device):
            current = torch.cuda.current_stream()
            self.stream.wait_stream(current)
            with torch.cuda.stream(self.stream):
                work()
            current.wait_stream(self.stream)

    def capture(self, work: Callable[[], None]) -> Any:
        """What ``work`` does, as a graph to be replayed; None if that failed.

        In either case nothing was computed yet.
        """
        # Garbage may be earlier graphs: freeing these during a capture would end it.
        collects = gc.isenabled()
        gc.disable()
        try:
            return self._graph_of(work)
        except Exception as error:
            self.works = False
            # The end of a capture that was broken off may fail, too: then the first error counts.
            first = error.__context__
            self.failed(first if isinstance(first, Exception) else error)
            return None
        finally:
            if collects:
                gc.enable()

    def _graph_of(self, work: Callable[[], None]) -> Any:
        graph: Any = torch.cuda.CUDAGraph()
        with (
            torch.cuda.device(self.stream.device),
            torch.cuda.stream(self.stream),  # torch.cuda.graph does not leave it if it fails
            torch.cuda.graph(
                graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local"
            ),
        ):
            work()
        return graph


class Replayed:
    """``work(batch, step)`` for one batch after the other of one shape; ``step`` counts them.

    The first call works as usual, which compiles kernels; the second is captured. Where that fails,
    all are as usual.

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

    def load(self, batches: Tensor) -> bool:
        """Prepare for batches, ``[steps, graphs]`` on the host; return whether the shape stays."""
        stays = self.feed.load(batches)
        if len(batches) > len(self.table):
            self.table = torch.empty_like(batches, device=self.table.device)
            self.close()
        if not stays:
            self.close()
        self.table[: len(batches)] = batches.to(self.table.device)
        self.step.zero_()
        return stays

    def run(self, steps: int) -> None:
        """Go through the first of the batches that were loaded."""
        for _ in range(steps):
            if self.captured is None:
                self._first_ones()
            else:
                self.captured.replay()

    def _first_ones(self) -> None:
        if self.capturer is not None and self.capturer.works:
            if not self.warm:
                self.capturer.aside(self._work)
                self.warm = True
                return
            self.captured = self.capturer.capture(self._work)
        if self.captured is None:
            self._work()
        else:
            self.captured.replay()

    def _work(self) -> None:
        with without_copies():
            picked = self.table.index_select(0, self.step).view(-1)
            self.work(self.feed.cut(picked), self.step)
            self.step += 1

    def close(self) -> None:
        """Free the graph and its memory."""
        self.warm = False
        if self.captured is not None:
            self.captured.reset()
            self.captured = None


class Steps:
    """The training steps of a stack, and its scores of graphs, replayed.

    Args:
        stack: the networks.
        columns: the graphs.
        losses: the training loss of each run, from the output of the stack and the batch.
        optimizer: of the parameters of the stack.
        failed: called with the error if a capture fails; steps are launched one by one from then
            on. It may raise.
        rooms: those of :meth:`rooms`, to go on with the same shapes.
    """

    def __init__(
        self,
        stack: Stack,
        columns: Columns,
        losses: Callable[[Any, GraphBatch], Tensor],
        optimizer: torch.optim.Optimizer,
        failed: Callable[[Exception], None],
        rooms: Rooms | None = None,
    ) -> None:
        self.stack, self.columns, self.runs = stack, columns, stack.runs
        self.losses, self.optimizer = losses, optimizer
        self.parameters = list(stack.model.parameters())
        self.given, self.hops = rooms or {}, {1.0}
        device = columns.graphs.x.device
        self.total = torch.zeros(self.runs, dtype=torch.float64, device=device)
        self.capturer = Capturer(device, failed) if device.type == "cuda" else None
        self.training: dict[int, Replayed] = {}
        self.scoring: dict[int, Replayed] = {}
        self.steps: list[tuple[int, int]] = []  # how many of each size
        self.scored = (0, 0, 0)  # how many graphs at a time, how many times, and graphs of a run
        self.out = columns.graphs.x.new_empty(0)

    def prepare(self, orders: Orders, indices: Indices | None, most: int) -> None:
        """Make room for an epoch: batches to train on, and graphs to score, ``most`` at a time.

        Raises:
            NotCapturableError: if a step would need the host. Then nothing has changed.
        """
        self.steps = []
        for size, batches in self._tables(orders):
            self._prepare(self.training, size, batches, self._train)
            self.steps.append((size, len(batches)))
        if indices is not None:
            size, batches = self._filled(indices, most)
            self.scored = size, len(batches), max(len(one) for one in indices if one is not None)
            shape = len(batches), self.runs * size, self.columns.graphs.num_outputs
            if self.out.shape[1:] != shape[1:] or len(self.out) < shape[0]:
                self.out = self.out.new_empty(shape)
                for replayed in self.scoring.values():
                    replayed.close()
            self._prepare(self.scoring, size, batches, self._score)

    def _prepare(self, known: dict[int, Replayed], size: int, batches: Tensor, work: Work) -> None:
        is_new = size not in known
        if is_new:
            feed = Feed(self.columns, self.runs, size, self.hops)
            feed.rooms |= self.given.get(known is self.training, {}).get(size, {})
            known[size] = Replayed(feed, work, self.capturer)
        if not known[size].load(batches) or is_new:
            self._check(known[size].feed, batches, known is self.training)

    def _check(self, feed: Feed, batches: Tensor, gradients: bool) -> None:
        """Make the first step, which changes nothing, without the host."""
        self.stack.model.eval()  # no running statistics are changed
        picked = batches[0].to(self.total.device)
        try:
            with without_copies(), refused_waits(picked.device), torch.set_grad_enabled(gradients):
                batch = feed.cut(picked)
                loss = self.losses(self.stack(batch, self.runs), batch).sum()
                if gradients:
                    torch.autograd.grad(loss, self.parameters, allow_unused=True)
        except NotCountedError as missing:
            self.hops.add(missing.hops)
            feed.rooms[missing.hops] = 0
            feed.load(batches)
        except RuntimeError as error:
            if "synchronizing CUDA" not in str(error):
                raise
            raise NotCapturableError("the host waits for the device in it") from error
        else:
            return
        self._check(feed, batches, gradients)

    def train(self) -> Tensor:
        """The steps that were prepared; the sum of the losses of each run."""
        self.total.zero_()
        self.stack.model.train()
        for size, steps in self.steps:
            self.training[size].run(steps)
        return self.total

    def _tables(self, orders: Orders) -> Iterator[tuple[int, Tensor]]:
        """The batches that have equally many graphs of each run, and these, ``[steps, graphs]``."""
        steps = next(order for order in orders if order is not None)
        for size, first, stop in equal_parts(list(map(len, steps))):
            empty = torch.full((stop - first, size), self.columns.empty)
            batches = [
                empty if order is None else torch.stack(list(order[first:stop])) for order in orders
            ]
            yield size, torch.cat(batches, dim=1)

    def _train(self, batch: GraphBatch, _: Tensor) -> None:
        loss = self.losses(self.stack(batch, self.runs), batch)
        gradients = torch.autograd.grad(loss.sum(), self.parameters, allow_unused=True)
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient
        self.optimizer.step()
        self.total += loss.detach()
        self.optimizer.zero_grad(set_to_none=True)

    @torch.no_grad()
    def scores(self) -> Tensor:
        """The scores of the graphs that were prepared, ``[runs, graphs, outputs]``."""
        self.stack.model.eval()
        size, steps, count = self.scored
        self.scoring[size].run(steps)
        by_run = self.out[:steps].view(steps, self.runs, size, -1).transpose(0, 1)
        return by_run.reshape(self.runs, steps * size, -1)[:, :count]

    def _filled(self, indices: Indices, most: int) -> tuple[int, Tensor]:
        """How many graphs of each run to score at a time, and these, filled up with empty ones."""
        count = max(len(index) for index in indices if index is not None)
        size = min(count, most)
        steps = -(-count // size)
        filled = torch.full((len(indices), steps * size), self.columns.empty)
        for row, index in zip(filled, indices, strict=True):
            if index is not None:
                row[: len(index)] = index
        return size, filled.view(self.runs, steps, size).transpose(0, 1).reshape(steps, -1)

    def _score(self, batch: GraphBatch, step: Tensor) -> None:
        scores = self.stack(batch, self.runs).logits
        self.out.index_copy_(0, step, scores.unsqueeze(0))

    def rooms(self) -> Rooms:
        """The rooms of all shapes: where numbers are drawn, they depend on these."""
        return {
            trains: {size: dict(one.feed.rooms) for size, one in known.items()}
            for trains, known in ((True, self.training), (False, self.scoring))
        }

    def close(self) -> None:
        """Free all graphs and their memory."""
        for replayed in (*self.training.values(), *self.scoring.values()):
            replayed.close()


@contextmanager
def refused_waits(device: torch.device) -> Iterator[None]:
    """An error where the host would wait for a GPU."""
    if device.type != "cuda":
        yield
        return
    mode = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that this mode does not see everything
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(mode)


def columns_of(graphs: GraphSet) -> Columns:
    """The columns of a set, made once for all its trainings, and freed with it."""
    if graphs not in _columns:
        _columns[graphs] = Columns(copy.copy(graphs))  # with the set itself it would not be freed
    return _columns[graphs]


def equal_parts(counts: Sequence[int]) -> list[tuple[int, int, int]]:
    """Neighbours that are equal: the number, and where its part begins and ends.

    >>> equal_parts([32, 32, 17])
    [(32, 0, 2), (17, 2, 3)]
    """
    begins = [i for i, count in enumerate(counts) if i == 0 or counts[i - 1] != count]
    return [(counts[a], a, b) for a, b in zip(begins, [*begins[1:], len(counts)], strict=True)]
