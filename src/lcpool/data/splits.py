"""Training, validation and test graphs of each run, by one of several schemes.

| scheme | the graphs of a run |
|---|---|
| ``fresh`` | a new random split 8:1:1 for each run |
| ``shared`` | one random split 8:1:1 for all runs |
| ``stratified`` | as fresh, each part with the proportions of the classes |
| ``K-fold`` | run r tests on fold r of K; of the other folds, 90 % train and 10 % validate |
| ``repeated-K-fold`` | the same; every K runs the graphs are dealt into folds anew |
| ``predefined`` | splits that came with the data or were passed, one after the other |

A split follows from the scheme, the seed and the run alone: it is the same for every network.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lcpool.settings import SETTINGS, SPLIT_NAMES

if TYPE_CHECKING:
    from lcpool.data.graphset import GraphSet

# Fewer graphs leave the validation part empty.
MIN_GRAPHS = 6
# What the parts are called in files and by libraries: OGB has "valid".
NAMES = {
    "train": "train", "training": "train", "val": "val", "valid": "val", "validation": "val",
    "test": "test",
}  # fmt: skip


class Split(NamedTuple):
    """Numbers of graphs, ``[part]`` each, int64, in the order in which they were drawn."""

    train: Tensor
    val: Tensor
    test: Tensor

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of training, validation and test graphs."""
        return tuple(map(len, self))


@dataclass(frozen=True)
class Scheme:
    """What the setting ``split`` says.

    Attributes:
        name: the setting, as in a table of runs.
        kind: "fresh", "shared", "stratified", "fold" or "predefined".
        folds: K of K-fold, else 0.
        repeated: whether there may be more runs than folds.
        given: the number of predefined splits; 0 before the data is known, and for other kinds.

    Example:
        >>> Scheme.of("repeated-5-fold")
        Scheme(name='repeated-5-fold', kind='fold', folds=5, repeated=True, given=0)
    """

    name: str
    kind: str
    folds: int = 0
    repeated: bool = False
    given: int = 0

    @classmethod
    def of(cls, name: str) -> Scheme:
        """Read the name of a scheme; an error if there is none of that name."""
        found = re.fullmatch(SPLIT_NAMES, SETTINGS["split"].checked(name))
        assert found is not None
        kind = "fold" if found["folds"] else found["kind"]
        numbers = int(found["folds"] or 0), bool(found["repeated"]), int(found["given"] or 0)
        return cls(name, kind, *numbers)

    @property
    def family(self) -> str:
        """The name without what belongs to one dataset: "predefined" for all predefined splits."""
        return "predefined" if self.kind == "predefined" else self.name

    @property
    def varies(self) -> bool:
        """Whether the runs have different splits, so that their spread is also that of the data."""
        return self.kind != "shared" and not (self.kind == "predefined" and self.given < 2)


def split(
    n: int, run: int, protocol: str = "shared", seed: int = 0, classes: Tensor | None = None
) -> Split:
    """The split of ``n`` graphs in one run, by any scheme but "predefined".

    Args:
        n: the number of graphs.
        run: the number of the run, from 0.
        protocol: the scheme: "shared", "fresh", "stratified", "10-fold", "repeated-10-fold" or
            with another number of folds. None depends on the pooling.
        seed: another seed gives other splits.
        classes: the class of each graph, ``[n]``, int64. "stratified" needs them; folds have the
            proportions of the classes where they are given.

    Example:
        >>> [len(part) for part in split(1113, run=0)]
        [890, 111, 112]
        >>> [len(part) for part in split(1113, run=0, protocol="10-fold")]
        [900, 101, 112]
    """
    scheme = Scheme.of(protocol)
    if n < MIN_GRAPHS:
        raise ValueError(f"a split needs at least {MIN_GRAPHS} graphs, not {n}.")
    if scheme.kind == "predefined":
        raise ValueError("predefined splits are in GraphSet.splits; none is drawn.")
    # RandomState's streams are frozen for good. Seeded with a list it starts differently from
    # any single number and from lists of other lengths, so no scheme repeats a split of another.
    if scheme.kind in ("shared", "fresh"):
        random = np.random.RandomState(seed if scheme.kind == "shared" else [seed, run])
        order = torch.from_numpy(random.permutation(n))
        return Split(*order.tensor_split([n * 8 // 10, n * 9 // 10]))
    if scheme.kind == "stratified":
        if classes is None:
            raise ValueError("a stratified split needs the class of each graph: pass 'classes'.")
        return _stratified(np.random.RandomState([seed, run, 0]), classes)
    _check_folds(scheme, run + 1, n, classes)
    repeat, fold = divmod(run, scheme.folds)
    random = np.random.RandomState([seed, repeat, scheme.folds])
    return _fold(random, torch.zeros(n) if classes is None else classes, fold, scheme.folds)


def hold_out(n: int, share: float, seed: int = 0, classes: Tensor | None = None) -> Split:
    """Training and validation graphs, and no test graphs: for a network that is tested elsewhere.

    Args:
        n: the number of graphs, at least three: two train, one validates.
        share: the share of graphs that validate, at most a half; at least one does.
        seed: another seed gives another split.
        classes: the class of each graph, ``[n]``, int64. Then both parts have the proportions of
            the classes, and each class of two graphs or more has one that trains.

    Example:
        >>> [len(part) for part in hold_out(40, 0.1)]
        [36, 4, 0]
    """
    if n < 3:
        raise ValueError(f"three graphs are needed, two to train and one to validate, not {n}.")
    # No other scheme has a list of three that ends in 1 (see `split`).
    random = np.random.RandomState([seed, 0, 1])
    order = _by_class(random, torch.zeros(n) if classes is None else classes)
    validates = _evenly(n, max(1, int(n * share)))
    return Split(order[~validates], order[validates], order[:0])


def _stratified(random: np.random.RandomState, classes: Tensor) -> Split:
    """8:1:1 with the proportions of the classes.

    In the order of the classes, every tenth graph tests and the fifth after it validates: of L
    graphs in a row, ⌊L/10⌋ or ⌈L/10⌉ do each. The parts are as large as unstratified ones.
    """
    order = _by_class(random, classes)
    place = torch.arange(len(order)) % 10
    return Split(order[(place != 0) & (place != 5)], order[place == 5], order[place == 0])


def _fold(random: np.random.RandomState, classes: Tensor, fold: int, folds: int) -> Split:
    """Test on one of ``folds`` folds; of the others, a tenth validates.

    In the order of the classes, graphs are dealt to the folds in turn: of L graphs in a row each
    fold gets ⌊L/K⌋ or ⌈L/K⌉. Folds differ by one graph at most, which validation makes up for: all
    runs train on equally many graphs.
    """
    order = _by_class(random, classes)
    dealt = torch.arange(len(order)) % folds
    rest = order[dealt != fold]
    smallest = len(order) - math.ceil(len(order) / folds)  # the rest of the largest fold
    validates = _evenly(len(rest), len(rest) - smallest * 9 // 10)
    return Split(rest[~validates], rest[validates], order[dealt == fold])


def _by_class(random: np.random.RandomState, classes: Tensor) -> Tensor:
    """The graphs in random order, sorted by class; the classes are in random order, too.

    Otherwise it would always be the same classes that have the graph which does not divide evenly.
    """
    number = np.unique(classes.numpy(), return_inverse=True)[1]
    order = random.permutation(len(number))
    rank = random.permutation(int(number.max()) + 1)
    return torch.from_numpy(order[np.argsort(rank[number[order]], kind="stable")])


def _evenly(n: int, chosen: int) -> Tensor:
    """``chosen`` of ``n`` places, spread so that L in a row have ⌊L·chosen/n⌋ or one more."""
    return (torch.arange(n + 1) * chosen // n).diff() > 0


def _check_folds(
    scheme: Scheme, runs: int, n: int, classes: Tensor | None, names: Sequence[object] = ()
) -> None:
    """Refuse more runs than folds, and more folds than graphs of a class.

    ``names`` are what the classes 0, 1, … are called, if they have other names.
    """
    k = scheme.folds
    if runs > k and not scheme.repeated:
        raise ValueError(
            f"'{scheme.name}' has {k} runs, one per fold, not {runs}: pass runs={k}, or "
            f"split='repeated-{k}-fold', which deals the graphs anew every {k} runs."
        )
    every = np.zeros(n) if classes is None else classes.numpy()
    labels, counts = np.unique(every, return_counts=True)
    fewest = int(counts.min())
    if k > fewest:
        rarest = int(labels[counts.argmin()])
        of = f" of class {names[rarest] if names else rarest}" if len(counts) > 1 else ""
        fewer = f"split='{fewest}-fold' and runs={fewest}, or " if fewest > 1 else ""
        raise ValueError(
            f"'{scheme.name}' needs {k} graphs of each class, but there are {fewest}{of}: pass "
            f"{fewer}split='fresh'."
        )


def split_graphs(graphs: GraphSet, run: int, name: str, seed: int = 0) -> Split:
    """The split of a set of graphs in one run, by any scheme."""
    scheme = Scheme.of(name)
    if scheme.kind == "predefined":
        resolved(graphs, name)
        return graphs.splits[run % len(graphs.splits)]
    return split(len(graphs), run, name, seed, graphs.targets.cpu() if graphs.classes else None)


def resolved(graphs: GraphSet, name: str, runs: int = 1) -> str:
    """The name of a scheme on these graphs: predefined splits get their number and a digest.

    So other predefined splits are another setting, and the runs on them other runs. Raises an
    error if the graphs cannot be split like this, or not for so many runs.
    """
    scheme = Scheme.of(name)
    if scheme.kind == "stratified" and not graphs.classes:
        raise ValueError(
            f"{graphs.name}: a stratified split needs one class per graph, which these graphs do "
            f"not have: pass split='fresh' or '10-fold', whose folds are then random."
        )
    if scheme.kind == "fold":
        try:
            classes = graphs.targets.cpu() if graphs.classes else None
            _check_folds(scheme, runs, len(graphs), classes, graphs.classes)
        except ValueError as error:
            raise ValueError(f"{graphs.name}: {error}") from None
    if scheme.kind != "predefined":
        return name
    if not graphs.splits:
        raise ValueError(
            f"{graphs.name} came without splits: pass splits= (on the command line --splits-file), "
            f"or another 'split'."
        )
    own = f"predefined-{len(graphs.splits)}-{digest(graphs.splits)}"
    if name not in ("predefined", own):
        raise ValueError(f"{graphs.name} has other splits ('{own}') than '{name}': pass those.")
    return own


def of_family(names: Iterable[str], wanted: str) -> list[str]:
    """Of the names of schemes, ``wanted``; for "predefined" those of all predefined splits."""
    return [name for name in dict.fromkeys(names) if wanted in (name, Scheme.of(name).family)]


def digest(splits: tuple[Split, ...]) -> str:
    """Eight digits that tell splits from others, "" for none; order in a part does not matter."""
    if not splits:
        return ""
    total = hashlib.sha256()
    for one in splits:
        for part in one:
            total.update(np.sort(part.numpy()).astype("<i8").tobytes() + b"|")
    return total.hexdigest()[:8]
