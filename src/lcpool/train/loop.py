"""The training loop: all runs of a stack, epoch by epoch, to their end."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from lcpool.data import GraphBatch, GraphSet, Split
from lcpool.graph.capture import NotCapturableError
from lcpool.models import Architecture, Backbone, Output, network_class
from lcpool.train.checkpoint import Checkpoint
from lcpool.train.faults import is_fault, is_out_of_memory
from lcpool.train.model import EVAL_BATCH
from lcpool.train.protocol import EpochChoice, Protocol, seeded
from lcpool.train.result import Predictions, Run
from lcpool.train.stack import Stack, as_one, foreign_parts
from lcpool.train.tasks import LOSS, TASKS, Task

if TYPE_CHECKING:
    from lcpool.train.stack.captured import Rooms, Steps


class Evaluation(NamedTuple):
    """Networks of several runs, on graphs of each."""

    loss: Tensor  # the mean of each run, [runs], float64
    outputs: Tensor  # as :meth:`Task.outputs` gives them: [runs, graphs, columns]
    target: Tensor  # [runs, graphs], or [runs, graphs, columns]


class Trainer:
    """Trains several runs as one network; they may differ in split and backbone.

    Args:
        graphs: the data, on the device to train on.
        architecture: the network.
        protocol: how to train it.
        numbers: the numbers of the runs.
        splits: the split of each run, if it is not the protocol's for its number.
        backbones: the backbone of each run, if it is not the architecture's.
        capture: on a GPU, capture steps and replay them, where that is possible; ``notes`` say why
            where it is not.

    Raises:
        CannotStackError: for several runs of a network that cannot be stacked.
    """

    def __init__(
        self,
        graphs: GraphSet,
        architecture: Architecture,
        protocol: Protocol,
        numbers: Sequence[int],
        splits: Sequence[Split] | None = None,
        backbones: Sequence[str] | None = None,
        capture: bool = True,
    ) -> None:
        self.graphs, self.protocol = graphs, protocol
        self.task = TASKS[graphs.task]
        self.metric = self.task.metric(protocol.metric)
        self.rules = (self.metric.name, LOSS)
        self.runs = [Run(number, metric=self.metric.name) for number in numbers]
        for run in self.runs:
            run.choices = {r: EpochChoice(r, higher=self.metric.higher) for r in self.rules}
        self.active = list(range(len(numbers)))
        self.places = self.active.copy()  # the run at each place of the stack; it may have ended
        self.seconds = self.pace = 0.0  # of all epochs, and of the last
        self.splits = splits or [protocol.split_of(graphs, number) for number in numbers]
        backbones = backbones or [architecture.backbone] * len(numbers)
        models = [
            initial_model(graphs, replace(architecture, backbone=backbone), protocol, number)
            for number, backbone in zip(numbers, backbones, strict=True)
        ]
        self.stack = as_one(models, graphs)
        # On a CPU the fused step rounds depending on a number's place, and so on the other runs.
        self.optimizer = torch.optim.Adam(
            self.stack.model.parameters(), lr=protocol.lr, weight_decay=protocol.weight_decay,
            fused=graphs.x.is_cuda, capturable=graphs.x.is_cuda,
        )  # fmt: skip
        # Torch would advise against ``capturable`` in the steps before the first capture.
        self.optimizer._warned_capturable_if_run_uncaptured = True
        # Parameters and buffers that each rule chose, of all runs, also of those that have ended.
        self.best = {rule: _copy(self.stack.tensors()) for rule in self.rules}
        # By which the targets of each run are scaled.
        self.scale = self.task.scale(graphs.targets, [split.train for split in self.splits])
        self.capture = capture and graphs.x.is_cuda
        self.notes: list[str] = []  # for the user
        self._steps: Steps | None = None
        self._rooms: Rooms = {}  # with which captured steps begin

    @property
    def epoch(self) -> int:
        """Epochs finished."""
        return max(run.epochs for run in self.runs)

    @property
    def ended(self) -> bool:
        """Whether every run has ended."""
        return not self.active

    @property
    def tested(self) -> bool:
        """Whether every run was tested: there is nothing more to do."""
        return all(run.test for run in self.runs)

    def train_epoch(self) -> None:
        """One epoch of every run that has not ended: train, validate, choose, drop the ended."""
        started = time.perf_counter()
        with self._random(self.epoch + 1):
            train_loss = self._train()
            total = self.protocol.selection_loss == "total"
            val = self._evaluate([self.splits[a].val for a in self.active], total)
        value = self.task.measure(self.metric, val.outputs, val.target)
        self._choose(torch.stack([train_loss, val.loss, value], dim=1).tolist())
        self._drop_ended()
        self.pace = time.perf_counter() - started
        self.seconds += self.pace

    def _random(self, epoch: int) -> AbstractContextManager[None]:
        """Random numbers inside the networks follow from the seed, the runs and the epoch."""
        numbers = [self.runs[a].number for a in self.active]
        return seeded(self.protocol.network_seed(numbers, epoch), self.graphs.x.device)

    def _prepared(self, orders: dict[int, list[Tensor]]) -> Steps | None:
        """The captured steps, ready for an epoch; None if there are none."""
        if not self.capture:
            return None
        scored = self.protocol.selection_loss != "total"
        val = {a: self.splits[a].val for a in self.active}
        try:
            if self._steps is None:
                self._steps = self._make_steps()
            with self._random(epoch=0):
                self._steps.prepare(
                    [orders.get(a) for a in self.places],
                    [val.get(a) for a in self.places] if scored else None, EVAL_BATCH,
                )  # fmt: skip
        except Exception as error:
            if is_fault(error):
                raise
            self._launch(error)
            self.capture = False
            self._drop_steps()
        return self._steps

    def _launch(self, error: Exception) -> None:
        """Note why steps are launched one by one; raise where a smaller stack would be better."""
        no_room = is_out_of_memory(error)
        # Later it would have to begin again.
        if no_room and len(self.places) > 1 and not self.epoch:
            raise error
        why = str(error) if isinstance(error, NotCapturableError) else repr(error)
        if no_room:
            why = "the GPU has too little memory for it; fewer runs as one (stack) need less"
        self.notes.append(f"training steps are not captured, which takes longer: {why}.")

    def _make_steps(self) -> Steps:
        from lcpool.train.stack.captured import Steps, columns_of

        if not isinstance(self.stack, Stack):
            raise NotCapturableError("the network cannot be stacked")
        network: Any = self.stack.model
        if theirs := foreign_parts(network):
            raise NotCapturableError(f"{theirs} may read what is no node")
        if network.edge_dims[0] is not None:
            raise NotCapturableError("the convolutions read edge attributes")
        runs, scale = len(self.places), None if self.scale is None else self.scale[self.places]

        def losses(out: Output, batch: GraphBatch) -> Tensor:
            return run_losses(out, batch, runs, self.task, scale)

        columns = columns_of(self.graphs)
        return Steps(self.stack, columns, losses, self.optimizer, self._launch, self._rooms)

    def _drop_steps(self) -> None:
        """Forget captured steps: the stack changes."""
        self._rooms = {}
        if self._steps is not None:
            self._steps.close()
            self._steps = None

    def _train(self) -> Tensor:
        """The mean training loss of each run over one epoch."""
        orders = {
            a: self.protocol.batches(self.splits[a].train, self.runs[a].number, self.epoch + 1)
            for a in self.active
        }
        if (steps := self._prepared(orders)) is not None:
            total = steps.train()[self._places_of(self.active)]
        else:
            self._take_out_ended()
            total = self._train_eagerly(list(orders.values()))
        return total / len(orders[self.active[0]])

    def _places_of(self, runs: Sequence[int]) -> list[int]:
        """Where runs are in the stack."""
        return [self.places.index(run) for run in runs]

    def _train_eagerly(self, orders: Sequence[Sequence[Tensor]]) -> Tensor:
        """The sum of the losses of each run over its batches."""
        self.stack.model.train()
        scale = self._active_scale()
        total = torch.zeros(len(self.active), dtype=torch.float64, device=self.graphs.x.device)
        steps, runs = list(map(torch.cat, zip(*orders, strict=True))), len(orders)
        for batch in self.graphs.batches(steps):
            loss = run_losses(self.stack(batch, runs), batch, runs, self.task, scale)
            self.optimizer.zero_grad(set_to_none=True)
            torch.autograd.backward(loss.sum())
            self.optimizer.step()
            total += loss.detach()
        return total

    def _active_scale(self) -> Tensor | None:
        return None if self.scale is None else self.scale[self.active]

    @torch.no_grad()
    def _evaluate(self, indices: Sequence[Tensor], total: bool = False) -> Evaluation:
        """Evaluate the active runs, each on its own graphs.

        The loss is the task's, mean over graphs; if ``total``, that of training, mean over batches.
        """
        runs, scale = len(indices), self._active_scale()
        if self._steps is not None and not total:
            scores = self._steps.scores()  # of the validation graphs
            scores = scores[self._places_of(self.active)].flatten(0, 1)
            target = self.graphs.targets[torch.cat(list(indices)).to(scores.device)]
            losses, count = self.task.losses(scores, target, scale, runs)
            return Evaluation(
                losses.double().sum(-1) / count.clamp(min=1),
                self.task.outputs(scores, scale, runs),
                target.view(runs, -1, *target.shape[1:]),
            )
        self._take_out_ended()
        self.stack.model.eval()
        size = self.protocol.batch_size if total else EVAL_BATCH
        sums, known, outputs, targets = [], [], [], []
        steps = zip(*(torch.split(index, size) for index in indices), strict=True)
        for batch in self.graphs.batches(list(map(torch.cat, steps))):
            out = self.stack(batch, runs)
            scores = out.logits
            losses, count = self.task.losses(scores, batch.target, scale, runs)
            if total:
                losses = run_losses(out, batch, runs, self.task, scale).unsqueeze(-1)
                count = torch.ones_like(count)
            sums.append(losses.double().sum(-1))
            known.append(count)
            outputs.append(self.task.outputs(scores, scale, runs))
            targets.append(batch.target.view(runs, -1, *batch.target.shape[1:]))
        loss = torch.stack(sums).sum(0) / torch.stack(known).sum(0).clamp(min=1)
        return Evaluation(loss, torch.cat(outputs, dim=1), torch.cat(targets, dim=1))

    def _choose(self, rows: Sequence[Sequence[float]]) -> None:
        """Record an epoch's figures, and keep the parameters of runs for which it is the best."""
        better: dict[str, list[int]] = {rule: [] for rule in self.rules}
        for position, (train, val, value) in enumerate(rows):
            run = self.runs[self.active[position]]
            run.curves.append((train, val, value))
            if not (math.isfinite(train) and math.isfinite(val)):
                run.diverged = run.epochs
                continue
            for rule, choice in run.choices.items():
                if not choice.closed(run.epochs - 1, self.protocol.patience) and choice.offer(
                    run.epochs, value, val
                ):
                    better[rule].append(position)
        for rule, positions in better.items():
            if positions:
                to = torch.tensor([self.active[p] for p in positions], device=self.graphs.x.device)
                of = torch.tensor(
                    self._places_of([self.active[p] for p in positions]), device=to.device
                )
                for name, tensor in self.stack.tensors().items():
                    self.best[rule][name].index_copy_(0, to, tensor.detach().index_select(0, of))

    def _drop_ended(self) -> None:
        """Give ended runs nothing to do, or take them out of the stack.

        In captured steps they get empty graphs until half of the runs have ended: a smaller stack
        must be captured anew.
        """
        self.active = [a for a in self.active if not self.runs[a].ended(self.protocol)]
        if self._steps is None or 2 * len(self.active) <= len(self.places):
            self._take_out_ended()

    def _take_out_ended(self) -> None:
        stay = [place for place, a in enumerate(self.places) if a in self.active]
        if 0 < len(stay) < len(self.places):
            self._drop_steps()
            self.stack.keep(torch.tensor(stay, device=self.graphs.x.device), self.optimizer)
            self.places = self.active.copy()

    def test(self) -> None:
        """Evaluate the test graphs, once for each rule, with the parameters it chose."""
        self._drop_steps()
        self.active = list(range(len(self.runs)))
        for run, split in zip(self.runs, self.splits, strict=True):
            run.num_test = len(split.test)
            run.largest_class = self.task.largest_class(self.graphs.targets.cpu()[split.test])
        for rule in self.rules:
            self.stack.restore(self.best[rule])
            with self._random(epoch=0):
                found = self._evaluate([split.test for split in self.splits])
            self._record(rule, found)
        self.active = []

    def _record(self, rule: str, found: Evaluation) -> None:
        """Keep the figures and the predictions of the test graphs in each run."""
        constant = self.task.constant(found.outputs)
        outputs, targets = found.outputs.float().cpu(), found.target.cpu()
        for position, loss in enumerate(found.loss.tolist()):
            run, test = self.runs[position], self.splits[position].test
            given, target = outputs[position], targets[position]
            measured = {m.name: self.task.final(m, given, target) for m in self.task.metrics}
            run.measured[rule] = measured
            run.test[rule] = (measured[self.metric.name], loss)
            if constant is not None:
                run.constant[rule] = constant[position]
            run.predictions[rule] = Predictions(
                test.numpy().astype("uint32"), target.numpy(), given.numpy()
            )

    def state(self) -> dict[str, Any]:
        """Everything that is needed to continue, as plain values and tensors."""
        return {
            "runs": [asdict(run) for run in self.runs],
            "active": self.active,
            "places": self.places,
            "rooms": self._rooms if self._steps is None else self._steps.rooms(),
            "seconds": self.seconds,
            "tensors": _copy(self.stack.tensors()),
            "optimizer": self.optimizer.state_dict(),
            "best": self.best,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Continue from the result of :meth:`state`."""
        self.runs = [Run.from_state(values) for values in state["runs"]]
        self.active, self.seconds = list(state["active"]), state["seconds"]
        self._drop_steps()
        self.places, self._rooms = list(state["places"]), state["rooms"]
        self.stack.restore(state["tensors"])
        # The state may be from another device.
        on_gpu = {"fused": self.graphs.x.is_cuda, "capturable": self.graphs.x.is_cuda}
        groups = [{**group, **on_gpu} for group in state["optimizer"]["param_groups"]]
        self.optimizer.load_state_dict({**state["optimizer"], "param_groups": groups})
        device = self.graphs.x.device
        self.best = {rule: _copy(tensors, device) for rule, tensors in state["best"].items()}


def training(
    trainer: Trainer,
    checkpoint: Checkpoint,
    note: Callable[[str], None],
    asked_to_stop: Callable[[], bool] = lambda: False,
    deadline: float = math.inf,
) -> Iterator[Trainer]:
    """Train until every run has ended, and test; continue from the checkpoint if there is one.

    Yields the trainer after each epoch. At the end it has ``tested``, unless it was stopped: then a
    checkpoint was written. ``note`` is called with messages for the user: those of the trainer, and
    once if no checkpoint can be written, after which training goes on. An epoch that would end
    after ``deadline`` (in seconds since 1970), if it took as long as the one before, is not begun.
    """
    if (state := checkpoint.load(trainer.graphs.x.device)) is not None:
        trainer.load_state(state)
    noted = False
    while not trainer.ended:
        stop = asked_to_stop() or time.time() + trainer.pace > deadline
        if not stop:
            trainer.train_epoch()
        while trainer.notes:
            note(trainer.notes.pop(0))
        try:
            if trainer.epoch:
                checkpoint.save(trainer.state, now=stop or trainer.ended)
        except OSError as error:
            if not noted:
                note(f"no checkpoint can be written to {checkpoint.path}: {error}")
            noted = True
        if stop:
            return
        yield trainer
    trainer.test()


def initial_model(
    graphs: GraphSet, architecture: Architecture, protocol: Protocol, number: int
) -> Backbone:
    """The network with which a run begins."""
    with seeded(protocol.init_seed(number)):
        return network_class(architecture.backbone).of(graphs, architecture)


def run_losses(
    out: Output,
    batch: GraphBatch,
    runs: int,
    task: Task = TASKS["classes"],
    scale: Tensor | None = None,
) -> Tensor:
    """The training loss of each run: its task's and auxiliary losses, means over graphs."""
    loss = task.run_losses(out.logits, batch.target, scale, runs)
    if out.graph_loss is None:
        return loss
    # Empty graphs have no auxiliary loss and do not count in its mean.
    counts = (batch.graph.node_counts().view(runs, -1) > 0).sum(1).clamp(min=1)
    return loss + out.graph_loss.view(runs, -1).sum(1) / counts


def _copy(tensors: dict[str, Tensor], device: torch.device | None = None) -> dict[str, Tensor]:
    return {name: value.detach().to(device=device, copy=True) for name, value in tensors.items()}
