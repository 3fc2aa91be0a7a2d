r"""How much better is one pooling than another, over datasets? A hierarchical model, its sampler.

Two poolings are trained on the same splits of several datasets. On dataset i, with family f, their
differences have the mean x̄ᵢ and the sum of squares Sᵢ over nᵢ runs. The model:

    x̄ᵢ ~ N(δᵢ, vᵢ²·kᵢ),   Sᵢ ~ vᵢ²·χ²(nᵢ − 1),   kᵢ = 1/nᵢ + ρ/(1 − ρ)
    δ of a family ~ N(μ, τ²/λ_f · R),   R = (1 − κ)·I + κ·11ᵀ,   λ_f ~ Gamma(ν/2, ν/2)
    vᵢ² ~ η·s²/χ²(η)

Runs on overlapping splits have the correlation ρ (Nadeau and Bengio's estimate, see
:mod:`lcpool.report.schemes`), so that their mean is less certain than that of independent runs: so
do Corani, Benavoli, Demšar, Mangili and Zaffalon (2017), whose model this is for families of one
dataset. μ is the difference on the average dataset. Datasets differ from it by Student's t with ν
degrees of freedom and scale τ, in which one strange dataset has little weight. κ is the correlation
of datasets of one family: two screens of the same compounds are less than two datasets.

The sampler is Gibbs'. τ, κ, ν and s live on grids of values that are equally probable beforehand,
and are drawn from their exact conditional on the grid; τ, κ and μ with every δ integrated out, ν
with every λ. All chains are one array.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from lcpool.report.statistics import Array

# Many short chains: a step of all of them costs little more than that of one.
CHAINS, WARMUP, DRAWS = 24, 30, 120
# The prior of a variance counts as much as so many runs.
ETA = 2.0
# Draws, or what weighted draws are worth, at least.
FEWEST = 100


@dataclass(frozen=True)
class Priors:
    """What is assumed beforehand; differences are in points.

    Attributes:
        mean: the standard deviation of μ, whose mean is 0.
        between: the median of τ, which is half-Cauchy.
        noise: the median of s, likewise.
        tails: the values of ν, from heavy tails to nearly normal.
        points: how many values τ and s have on their grids; κ has a quarter of them.
    """

    mean: float = 10.0
    between: float = 2.0
    noise: float = 5.0
    tails: tuple[float, ...] = (2, 3, 4, 6, 8, 12, 16, 24, 32, 64)
    points: int = 32

    @functools.cached_property
    def tau(self) -> Array:
        return half_cauchy(self.between, self.points)

    @functools.cached_property
    def s(self) -> Array:
        return half_cauchy(self.noise, self.points)

    @functools.cached_property
    def kappa(self) -> Array:
        n = self.points // 4
        return (np.arange(n) + 0.5) / n


def half_cauchy(median: float, points: int) -> Array:
    """Values that are equally probable under a half-Cauchy distribution.

    >>> half_cauchy(2.0, 3).round(3).tolist()
    [0.536, 2.0, 7.464]
    """
    return np.asarray(median * np.tan(np.pi / 2 * (np.arange(points) + 0.5) / points))


@dataclass(frozen=True)
class Differences:
    """Of two poolings on several datasets, in points.

    Attributes:
        mean: x̄, the mean over runs, ``[…, datasets]``. Leading dimensions are other contrasts.
        squares: S, the sum of squares around it, ``[…, datasets]``.
        runs: n, ``[datasets]``.
        share: ρ/(1 − ρ), ``[datasets]``.
        families: the number of each dataset's family, ``[datasets]``, from 0.
    """

    mean: Array
    squares: Array
    runs: Array
    share: Array
    families: NDArray[np.int64]

    @classmethod
    def of(
        cls, runs: Sequence[Array], share: Sequence[float], families: Sequence[str] | None = None
    ) -> Differences:
        """From the differences of the runs of each dataset; by default families are of one."""
        named = range(len(runs)) if families is None else families
        return cls(
            mean=np.array([values.mean() for values in runs]),
            squares=np.array([((values - values.mean()) ** 2).sum() for values in runs]),
            runs=np.array([float(len(values)) for values in runs]),
            share=np.array(share, dtype=np.float64),
            families=np.unique(np.array(named), return_inverse=True)[1],
        )

    @functools.cached_property
    def factor(self) -> Array:
        """K: the variance of a dataset's mean, in multiples of v²."""
        return 1 / self.runs + self.share

    @functools.cached_property
    def members(self) -> Array:
        """Which dataset is in which family, ``[datasets, families]``."""
        return np.eye(int(self.families.max()) + 1)[self.families]

    @functools.cached_property
    def first(self) -> NDArray[np.int64]:
        """A dataset of each family, ``[families]``."""
        return np.asarray(self.members.argmax(axis=0))


class Regions(NamedTuple):
    """How probable it is that a difference is below the margin of equality, within it, above it."""

    worse: float
    equal: float
    better: float

    @classmethod
    def of(cls, below: float, within: float) -> Regions:
        """From P(difference < −margin) and P(difference < margin)."""
        return cls(float(below), float(within - below), float(1 - within))


@dataclass(frozen=True)
class Draws:
    """From the posterior, ``[draws, chains]``, and with a last dimension for datasets."""

    mu: Array
    tau: Array
    kappa: Array
    nu: Array
    s: Array
    delta: Array
    v: Array
    centre: Array  # of μ given τ, κ, λ and v, which is normal,
    error: Array  # and its standard deviation

    @property
    def rhat(self) -> float:
        """The worse of μ's and τ's; see :func:`rhat`."""
        return max(rhat(self.mu), rhat(np.log(self.tau)))

    @property
    def ess(self) -> float:
        """How many independent draws of μ these are worth; the lesser of μ's and τ's."""
        return min(effective(self.mu), effective(np.log(self.tau)))

    @property
    def converged(self) -> bool:
        return self.rhat < 1.05 and self.ess > 400

    def followed_by(self, more: Draws) -> Draws:
        """These draws and further ones."""
        return Draws(*(
            np.concatenate([getattr(self, one.name), getattr(more, one.name)])
            for one in fields(self)
        ))  # fmt: skip

    def mirrored(self) -> Draws:
        """Of the opposite difference."""
        return replace(self, mu=-self.mu, delta=-self.delta, centre=-self.centre)

    def below(self, value: float) -> Array:
        """P(μ < value) given all else, of each draw: less noisy than counting draws of μ."""
        return np.asarray(special.ndtr((value - self.centre) / self.error))

    def new_below(self, value: float) -> Array:
        """P(δ < value) of a new dataset of a new family, of each draw."""
        return np.asarray(special.stdtr(self.nu, (value - self.mu) / self.tau))

    def regions(self, margin: float) -> Regions:
        """Where μ is: the difference on the average dataset."""
        return Regions.of(self.below(-margin).mean(), self.below(margin).mean())

    def new_regions(self, margin: float) -> Regions:
        """Where the difference on a new dataset is."""
        return Regions.of(self.new_below(-margin).mean(), self.new_below(margin).mean())

    def regions_under(self, margin: float, drawn: Priors, other: Priors) -> Regions:
        """Where μ would be under other priors than those that these were drawn with.

        Each draw is weighted by how much more probable the other priors make it. NaN where that
        leaves too few of them.
        """
        log = np.where(np.isin(self.nu, other.tails), 0.0, -np.inf)
        for prior, sign in ((other, 1.0), (drawn, -1.0)):
            log += sign * np.log(prior.between / (prior.between**2 + self.tau**2))
        # μ is normal given all else: without its prior, and then with the other one.
        precision = self.error**-2 - drawn.mean**-2
        mean = self.centre * self.error**-2 / precision
        for prior, sign in ((other, 1.0), (drawn, -1.0)):
            variance = 1 / precision + prior.mean**2
            log -= sign * (mean**2 / variance + np.log(variance)) / 2
        error = (precision + other.mean**-2) ** -0.5
        centre = mean * precision * error**2
        weight = np.exp(log - log.max()) if np.isfinite(log.max()) else np.zeros(log.shape)
        if weight.sum() ** 2 < FEWEST * (weight**2).sum() or not weight.any():
            return Regions(np.nan, np.nan, np.nan)
        ends = (special.ndtr((end - centre) / error) for end in (-margin, margin))
        return Regions.of(*(float(np.average(end, weights=weight)) for end in ends))


class Sampler:
    """Chains that draw from the posterior; each has its row, and they may have their own data."""

    def __init__(
        self, data: Differences, priors: Priors | None = None, chains: int = 1, seed: int = 0
    ):
        self.data, self.priors = data, priors or Priors()
        self.random = np.random.default_rng(seed)
        self.grouped = len(data.runs) > data.members.shape[1]
        shape = chains, len(data.runs)
        self.x = np.broadcast_to(data.mean, shape)
        self.squares = np.broadcast_to(data.squares, shape)
        # Chains start far apart, at draws from the prior.
        p = self.priors
        self.tau, self.s = (self.random.choice(grid, (chains, 1)) for grid in (p.tau, p.s))
        self.kappa = self.random.choice(p.kappa, (chains, 1)) if self.grouped else np.zeros((1, 1))
        self.lam = np.ones(shape)
        self.v2 = self._variance(self.x)

    def run(self, draws: int, warmup: int = 0) -> Draws:
        """Draw ``warmup`` times for nothing and ``draws`` times for good."""
        kept: list[tuple[Array, ...]] = []
        for step in range(warmup + draws):
            drawn = self._step()
            if step >= warmup:
                kept.append(drawn)
        return Draws(*(np.stack(column) for column in zip(*kept, strict=True)))

    def _step(self) -> tuple[Array, ...]:
        p, random = self.priors, self.random
        error2 = self.v2 * self.data.factor
        # τ, κ and μ, every δ integrated out.
        at = self._choose(self._likelihood(error2, p.tau[:, None], self.kappa[..., None]))
        self.tau = p.tau[at][:, None]
        if self.grouped:
            at = self._choose(self._likelihood(error2, self.tau[..., None], p.kappa[:, None]))
            self.kappa = p.kappa[at][:, None]
        between, of_family, weight, sums = self._family_sums(error2, self.tau, self.kappa)
        precision = p.mean**-2 + (sums[0] / weight).sum(axis=-1)
        centre = (sums[1] / weight).sum(axis=-1) / precision
        mu = random.normal(centre, precision**-0.5)[:, None]
        # The mean of each family, then of each dataset: δ.
        mean = (mu + of_family * sums[1]) / weight
        family = random.normal(mean, np.sqrt(of_family / weight))[:, self.data.families]
        mean = (error2 * family + between * self.x) / (error2 + between)
        delta = random.normal(mean, np.sqrt(error2 * between / (error2 + between)))
        self.v2 = self._variance(delta)
        self.s = p.s[self._choose(self._scale_likelihood())][:, None]
        nu = self._tails(delta - mu)
        return (
            mu[:, 0], self.tau[:, 0], np.broadcast_to(self.kappa[:, 0], len(mu)), nu, self.s[:, 0],
            delta, np.sqrt(self.v2), centre, precision**-0.5,
        )  # fmt: skip

    def _family_sums(
        self, error2: Array, tau: Array, kappa: Array
    ) -> tuple[Array, Array, Array, tuple[Array, Array, Array]]:
        """Of a family's x̄ with the covariance diag(D) + c·11ᵀ: D − v²k, c, 1 + c·Σ1/D and sums.

        The sums over the datasets of the family are of 1/D, x̄/D and x̄²/D.
        """
        lam = self.lam if tau.ndim < 3 else self.lam[:, None]
        x = self.x if tau.ndim < 3 else self.x[:, None]
        between = tau**2 * (1 - kappa) / lam
        of_family = tau**2 * kappa / lam[..., self.data.first]
        inverse = 1 / (error2 + between)
        members = self.data.members
        sums = (inverse @ members, (inverse * x) @ members, (inverse * x**2) @ members)
        return between, of_family, 1 + of_family * sums[0], sums

    def _likelihood(self, error2: Array, tau: Array, kappa: Array) -> Array:
        """The log density of all x̄ on a grid, ``[chains, points]``; μ and every δ integrated out.

        By Sherman and Morrison (diag(D) + c·11ᵀ)⁻¹ = diag(1/D) − c·(1/D)(1/D)ᵀ/(1 + c·Σ1/D).
        """
        error2 = error2[:, None]
        shape = np.broadcast_shapes(tau.shape, kappa.shape, (1, 1, 1))
        tau, kappa = np.broadcast_to(tau, shape), np.broadcast_to(kappa, shape)
        between, of_family, weight, (ones, xs, squares) = self._family_sums(error2, tau, kappa)
        a, b = (ones / weight).sum(axis=-1), (xs / weight).sum(axis=-1)
        q = (squares - of_family * xs**2 / weight).sum(axis=-1)
        logdet = np.log(error2 + between).sum(axis=-1)
        if self.grouped:
            logdet += np.log(weight).sum(axis=-1)
        precision = self.priors.mean**-2 + a
        return np.asarray(-0.5 * (logdet + np.log(precision) + q - b**2 / precision))

    def _variance(self, delta: Array) -> Array:
        """v² given δ and s."""
        d = self.data
        squares = ETA * self.s**2 + self.squares + (self.x - delta) ** 2 / d.factor
        return np.asarray(squares / self.random.chisquare(ETA + d.runs, squares.shape))

    def _scale_likelihood(self) -> Array:
        """The log density of all v² given s, on its grid."""
        s2, n = self.priors.s**2, self.v2.shape[-1]
        total = (1 / self.v2).sum(axis=-1, keepdims=True)
        return np.asarray(ETA / 2 * (n * np.log(s2) - s2 * total))

    def _tails(self, off: Array) -> Array:
        """ν, every λ integrated out, and then λ, given δ − μ."""
        density, distance = self._tail_likelihood(off)
        nu = np.array(self.priors.tails)[self._choose(density)]
        half = (nu[:, None] + self.data.members.sum(axis=0)) / 2
        lam = self.random.gamma(half) / ((nu[:, None] + distance) / 2)
        self.lam = lam[:, self.data.families]
        return np.asarray(nu)

    def _tail_likelihood(self, off: Array) -> tuple[Array, Array]:
        """The log density of δ − μ by ν, up to a constant, and (δ − μ)ᵀR⁻¹(δ − μ)/τ² by family.

        The m datasets of a family are Student's t together.
        """
        nu, members, kappa = np.array(self.priors.tails)[:, None], self.data.members, self.kappa
        m = members.sum(axis=0)
        common = kappa / (1 - kappa + kappa * m) * (off @ members) ** 2
        distance = (off**2 @ members - common) / (1 - kappa) / self.tau**2
        half = (nu + m) / 2
        constant = special.gammaln(half) - special.gammaln(nu / 2) - m / 2 * np.log(nu)
        density = constant - half * np.log1p(distance[:, None] / nu)
        return np.asarray(density.sum(axis=-1)), np.asarray(distance)

    def _choose(self, logits: Array) -> NDArray[np.int64]:
        """A place per row, with the probabilities exp(logits) / Σ exp(logits)."""
        total = np.exp(logits - logits.max(axis=-1, keepdims=True)).cumsum(axis=-1)
        drawn = self.random.random((len(logits), 1)) * total[:, -1:]
        return np.asarray((total <= drawn).sum(axis=-1))


def posterior(data: Differences, priors: Priors | None = None, seed: int = 0) -> Draws:
    """Draws of several chains; up to eight times as many if they have not converged before."""
    sampler = Sampler(data, priors, CHAINS, seed)
    draws = sampler.run(DRAWS, WARMUP)
    for _ in range(3):
        if draws.converged:
            break
        draws = draws.followed_by(sampler.run(len(draws.mu)))
    return draws


def rhat(draws: Array) -> float:
    """Gelman and Rubin's R̂ of half chains, ``[draws, chains]``: near 1 once all agree.

    >>> rhat(np.random.default_rng(0).normal(size=(500, 8))) < 1.01
    True
    """
    n = len(draws) // 2
    halves = np.concatenate([draws[:n], draws[-n:]], axis=1)
    within = halves.var(axis=0, ddof=1).mean()
    between = halves.mean(axis=0).var(ddof=1)
    return float(np.sqrt((n - 1) / n + between / within)) if within > 0 else 1.0


def effective(draws: Array) -> float:
    """The effective number of draws, ``[draws, chains]``, by Geyer's initial positive sequence.

    >>> 3000 < effective(np.random.default_rng(0).normal(size=(500, 8))) < 5000
    True
    """
    n, chains = draws.shape
    off = draws - draws.mean(axis=0)
    spectrum = np.abs(np.fft.rfft(off, 2 * n, axis=0)) ** 2
    covariance = np.fft.irfft(spectrum, axis=0)[:n].mean(axis=1) / n
    within = covariance[0] * n / (n - 1)
    total = covariance[0] + draws.mean(axis=0).var(ddof=1)
    if not total > 0:
        return float(n * chains)
    correlation = 1 - (within - covariance) / total
    pairs = correlation[: n // 2 * 2].reshape(-1, 2).sum(axis=1)
    end = int(np.argmax(pairs < 0)) if (pairs < 0).any() else len(pairs)
    positive = np.minimum.accumulate(pairs[:end])
    return float(n * chains / max(2 * positive.sum() - 1, 1 / np.log10(n * chains)))
