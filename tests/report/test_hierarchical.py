"""The hierarchical model: each formula beside its literal version, the sampler by calibration."""

import numpy as np
import pytest
from scipy import integrate, special, stats

from lcpool.report.hierarchical import (
    ETA,
    Differences,
    Draws,
    Priors,
    Sampler,
    effective,
    posterior,
    rhat,
)

FAMILIES = ["a", "b", "a", "c", "b", "a"]
COARSE = Priors(points=12, tails=(2, 4, 32))


def made_up(datasets: int = 6, runs: int = 10, seed: int = 0, mean: float = 1.0) -> Differences:
    random = np.random.default_rng(seed)
    values = [random.normal(mean + random.normal(), 2, runs) for _ in range(datasets)]
    return Differences.of(values, [0.125] * datasets, FAMILIES[:datasets])


def test_what_is_kept_of_the_runs():
    values = [np.array([1.0, 2.0, 6.0]), np.array([4.0])]
    data = Differences.of(values, [0.125, 0.0], ["x", "x"])
    assert data.mean.tolist() == [3.0, 4.0]
    assert data.squares.tolist() == [14.0, 0.0]
    assert data.factor == pytest.approx([1 / 3 + 0.125, 1.0])
    assert data.members.tolist() == [[1.0], [1.0]]
    assert Differences.of(values, [0, 0]).members.tolist() == [[1, 0], [0, 1]]


def test_the_factor_is_the_variance_of_a_mean_of_correlated_runs():
    """Of runs with variance σ² and correlation ρ, v² = σ²(1 − ρ), and the mean's is k·v²."""
    n, rho, sigma2 = 7, 0.1, 3.0
    covariance = sigma2 * ((1 - rho) * np.eye(n) + rho)
    (k,) = Differences.of([np.arange(7.0)], [rho / (1 - rho)]).factor
    assert k * sigma2 * (1 - rho) == pytest.approx(covariance.mean())


def test_the_likelihood_is_that_of_the_dense_normal():
    data = made_up()
    sampler = Sampler(data, COARSE, chains=3)
    sampler.lam = np.random.default_rng(1).gamma(2, size=(3, 3))[:, data.families]
    error2 = sampler.v2 * data.factor
    for tau, kappa in ((COARSE.tau[:, None], sampler.kappa[..., None]),
                       (sampler.tau[..., None], COARSE.kappa[:, None])):  # fmt: skip
        found = sampler._likelihood(error2, tau, kappa)
        wanted = np.empty_like(found)
        for chain in range(3):
            for at in range(found.shape[1]):
                t, k = (np.broadcast_to(a, (3, found.shape[1], 1))[chain, at, 0]
                        for a in (tau, kappa))  # fmt: skip
                same = data.families[:, None] == data.families
                scale = t**2 / sampler.lam[chain]
                between = np.where(same, k, 0.0) + (1 - k) * np.eye(6)
                covariance = np.diag(error2[chain]) + scale * between + COARSE.mean**2
                wanted[chain, at] = stats.multivariate_normal.logpdf(
                    data.mean, np.zeros(6), covariance
                )
        off = wanted - found
        assert off == pytest.approx(np.full_like(off, off[0, 0]), abs=1e-8)


def test_the_tails_are_those_of_the_multivariate_t():
    data = made_up()
    sampler = Sampler(data, COARSE, chains=2)
    off = np.random.default_rng(2).normal(0, 3, (2, 6))
    density, _ = sampler._tail_likelihood(off)
    for chain in range(2):
        tau, kappa, wanted = sampler.tau[chain, 0], sampler.kappa[chain, 0], []
        for nu in COARSE.tails:
            total = 0.0
            for family in range(3):
                at = data.families == family
                shape = tau**2 * ((1 - kappa) * np.eye(at.sum()) + kappa)
                total += stats.multivariate_t.logpdf(off[chain, at], shape=shape, df=nu)
            wanted.append(total)
        assert np.diff(density[chain]) == pytest.approx(np.diff(wanted))


def test_the_scale_of_the_noise():
    sampler = Sampler(made_up(), COARSE, chains=2)
    for s_logits, v2 in zip(sampler._scale_likelihood(), sampler.v2, strict=True):
        wanted = [stats.invgamma.logpdf(v2, ETA / 2, scale=ETA / 2 * s**2).sum() for s in COARSE.s]
        assert np.diff(s_logits) == pytest.approx(np.diff(wanted))


def by_quadrature(data: Differences, priors: Priors) -> tuple[np.ndarray, np.ndarray]:
    """A grid of μ and its posterior density, all else summed or integrated; families of one."""
    mu = np.linspace(-16, 16, 321)
    delta = np.linspace(-80, 80, 3201)
    log = np.full(mu.shape, -np.inf)
    each = zip(data.mean, data.squares, data.runs, data.factor, strict=True)
    likelihood = [  # of δ, v integrated out, by s
        [ETA * np.log(s) - (ETA + n) / 2 * np.log(ETA * s**2 + q + (x - delta) ** 2 / k)
         for s in priors.s]
        for x, q, n, k in each
    ]  # fmt: skip
    for tau in priors.tau:
        for nu in priors.tails:
            prior = stats.t.pdf((delta - mu[:, None]) / tau, nu) / tau
            of_s = sum(np.log(prior @ np.exp(np.array(of)).T) for of in likelihood)
            log = np.logaddexp(log, special.logsumexp(of_s, axis=1))
    log += stats.norm.logpdf(mu, 0, priors.mean)
    density = np.exp(log - log.max())
    return mu, density / integrate.simpson(density, x=mu)


@pytest.mark.parametrize(("runs", "datasets"), [(10, 2), (3, 4)])
def test_the_posterior_is_that_of_quadrature(runs: int, datasets: int):
    priors = Priors(mean=3.0, between=4.0, points=6, tails=(2, 8))
    made = made_up(datasets, runs, seed=3)
    data = Differences(made.mean, made.squares, made.runs, made.share, np.arange(datasets))
    draws = Sampler(data, priors, chains=64, seed=1).run(300, 30)
    mu, density = by_quadrature(data, priors)
    mean = integrate.simpson(mu * density, x=mu)
    spread = integrate.simpson((mu - mean) ** 2 * density, x=mu) ** 0.5
    assert draws.mu.mean() == pytest.approx(mean, abs=0.03 * spread)
    assert draws.mu.std() == pytest.approx(spread, rel=0.03)
    for end in (-1.0, 1.0):
        below = np.interp(end, mu, integrate.cumulative_simpson(density, x=mu, initial=0))
        assert draws.below(end).mean() == pytest.approx(below, abs=0.01)
        assert (draws.mu < end).mean() == pytest.approx(below, abs=0.015)


def test_a_new_dataset_is_students():
    draws = posterior(made_up())
    random = np.random.default_rng(0)
    new = draws.mu + draws.tau * random.standard_t(draws.nu)
    assert draws.new_below(1.0).mean() == pytest.approx((new < 1).mean(), abs=0.02)


def test_simulation_based_calibration():
    """Of worlds drawn from the prior, the truth has a uniform rank among draws given its data."""
    worlds, kept, thin = 800, 15, 10
    priors, random = Priors(points=20), np.random.default_rng(5)
    families = np.array([0, 1, 0, 2, 1])
    runs, share = np.array([10.0, 3.0, 10.0, 1.0, 5.0]), np.array([0.125, 0.125, 0.0, 0.1, 0.25])
    tau, s, kappa, nu = (random.choice(of, (worlds, 1))
                         for of in (priors.tau, priors.s, priors.kappa, priors.tails))  # fmt: skip
    mu = random.normal(0, priors.mean, (worlds, 1))
    scale = tau / np.sqrt(random.gamma(nu / 2, 2 / nu, (worlds, 3)))[:, families]
    common = random.normal(size=(worlds, 3))[:, families]
    own = random.normal(size=(worlds, 5))
    delta = mu + scale * (np.sqrt(kappa) * common + np.sqrt(1 - kappa) * own)
    v = s * np.sqrt(ETA / random.chisquare(ETA, (worlds, 5)))
    mean = random.normal(delta, v * np.sqrt(1 / runs + share))
    squares = v**2 * 2 * random.gamma((runs - 1) / 2, size=(worlds, 5))
    data = Differences(mean, squares, runs, share, families)
    draws = Sampler(data, priors, chains=worlds, seed=6).run(kept * thin, warmup=60)
    truth = {"mu": mu[:, 0], "tau": tau[:, 0], "kappa": kappa[:, 0], "nu": nu[:, 0], "s": s[:, 0],
             "delta": delta[:, 0], "v": v[:, 3]}  # fmt: skip
    for name, true in truth.items():
        found = getattr(draws, name)[thin - 1 :: thin]
        found = found[..., 3 if name == "v" else 0] if found.ndim > 2 else found
        # Grids have ties, which are broken by chance.
        ties = (found == true).sum(axis=0)
        ranks = (found < true).sum(axis=0) + random.integers(0, ties + 1)
        counts = np.bincount(ranks, minlength=kept + 1)
        assert len(counts) == kept + 1
        assert stats.chisquare(counts).pvalue > 0.01, name


def test_related_datasets_count_less():
    """Ten copies of one finding are not ten findings, if they are known to be one family."""
    random = np.random.default_rng(0)
    values = [*(random.normal(3, 1, 10) for _ in range(6)), *(random.normal(-1, 1, 10),) * 2]
    one = ["same"] * 6 + ["p", "q"]
    apart, together = (posterior(Differences.of(values, [0.125] * 8, of)) for of in (None, one))
    assert apart.mu.mean() > together.mu.mean() + 0.3
    assert together.mu.std() > apart.mu.std()


def test_one_strange_dataset_has_little_weight():
    random = np.random.default_rng(0)
    values = [random.normal(2, 1, 10) for _ in range(7)]
    strange = posterior(Differences.of([*values, random.normal(-30, 1, 10)], [0.125] * 8))
    assert strange.below(0).mean() < 0.05
    assert np.mean([part.mean() for part in values]) == pytest.approx(strange.mu.mean(), abs=0.5)


def test_poolings_that_never_differ_are_equal():
    draws = posterior(Differences.of([np.zeros(10)] * 6, [0.125] * 6))
    assert (draws.below(1) - draws.below(-1)).mean() > 0.95
    assert draws.converged


def test_regions_are_shares_of_the_draws():
    draws = Sampler(made_up(), chains=32).run(200, 30)
    random = np.random.default_rng(0)
    new = draws.mu + draws.tau * random.standard_t(draws.nu)
    for regions, of in ((draws.regions(1.5), draws.mu), (draws.new_regions(1.5), new)):
        shares = [(of < -1.5).mean(), (abs(of) <= 1.5).mean(), (of > 1.5).mean()]
        assert regions == pytest.approx(shares, abs=0.015)
        assert sum(regions) == pytest.approx(1)


@pytest.mark.parametrize(
    "other", [Priors(between=0.5), Priors(between=6.0), Priors(mean=2.0), Priors(tails=(64,))]
)
def test_other_priors_by_weights_are_other_priors(other: Priors):
    data = made_up(4, mean=1.5)
    drawn = Sampler(data, chains=32).run(200, 30)
    direct = Sampler(data, other, chains=32, seed=1).run(200, 30).regions(1.0)
    assert drawn.regions_under(1.0, Priors(), other) == pytest.approx(direct, abs=0.02)
    assert drawn.regions_under(1.0, Priors(), Priors()) == pytest.approx(drawn.regions(1.0))


def test_the_same_seed_gives_the_same_draws():
    one, same, other = (posterior(made_up(), seed=seed) for seed in (0, 0, 1))
    assert (one.mu == same.mu).all()
    assert (one.mu != other.mu).any()
    assert one.mu.mean() == pytest.approx(other.mu.mean(), abs=0.1)


def test_chains_that_disagree_are_noticed():
    random = np.random.default_rng(0)
    agree = random.normal(size=(400, 8))
    assert rhat(agree) < 1.01
    assert rhat(agree + np.arange(8)) > 1.5
    assert rhat(agree + np.linspace(0, 3, 400)[:, None]) > 1.1
    assert rhat(np.ones((400, 8))) == 1.0


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9])
def test_effective_draws_of_an_autoregression(phi: float):
    random, n = np.random.default_rng(0), 4000
    draws = np.zeros((n, 8))
    for step in range(1, n):
        draws[step] = phi * draws[step - 1] + random.normal(size=8)
    assert effective(draws) == pytest.approx(8 * n * (1 - phi) / (1 + phi), rel=0.12)


def test_more_draws_where_chains_have_not_converged(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Draws, "ess", property(lambda self: 0.0))
    draws = posterior(made_up(3))
    assert len(draws.mu) == len(draws.delta) == 8 * 120
    assert not draws.converged
