"""The report's sampler beside an outside one: NUTS, from numpyro, on the same model.

    pip install numpyro    # in an environment of its own; no part of `make test`
    python benchmarks/posterior.py draws paper/results/paper/runs-fresh.csv build/draws.csv
    python benchmarks/posterior.py nuts build/draws.csv docs/report.md

The first command judges LCPool against every other pooling of a table of runs, and writes what the
model was given beside what was found, by as many draws as the report has and by many more. The
second needs numpyro and pandas alone: it samples the model of :mod:`lcpool.report.hierarchical`
again, written as one density with τ, κ and s continuous where ours has grids, and writes all three
into a page, between two marks. A last contrast is made up: eight datasets in four families, one of
them strange.
"""

from __future__ import annotations

import argparse
import json
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd

MARGIN = 1.0
SHOWN = ["mean", "sd", "tau", "worse", "equal", "better"]
REPORT, LONG = "the report's", "the same, longer"
COMMAND = "python benchmarks/posterior.py nuts"
BEGIN, END = f"<!-- begin: {COMMAND} -->", f"<!-- end: {COMMAND} -->"


def ours(runs: Path, out: Path) -> None:
    """What the model is given, and what the report's sampler finds, as a table."""
    from lcpool.report import Report
    from lcpool.report.hierarchical import Differences, Sampler, posterior
    from lcpool.report.verdict import FAMILIES, paired
    from lcpool.sweep.results import Results

    c = Report.of(Results.read(runs)).ranked
    contrasts = {}
    for other in c.pools:
        if other != "lcpool":
            found = paired(c, "lcpool", other).runs
            shares = [c.shares[name] for name in found]
            families = [FAMILIES.get(name, name) for name in found]
            contrasts[other] = Differences.of(list(found.values()), shares, families)
    random = np.random.default_rng(0)
    means = [*random.normal(1.5, 1, 7), -15.0]
    made_up = [random.normal(mean, 3, 10) for mean in means]
    contrasts["made up"] = Differences.of(made_up, [0.125] * 8, list("aabbbcdd"))
    rows = []
    for other, data in contrasts.items():
        given = (data.mean, data.squares, data.runs, data.factor, data.families)
        longer = Sampler(data, chains=400, seed=1).run(400, warmup=50)
        for name, draws in ((REPORT, posterior(data)), (LONG, longer)):
            rows.append({
                "pool": other, "sampler": name, "draws": draws.mu.size, "worth": draws.ess,
                "mean": draws.mu.mean(), "sd": draws.mu.std(), "tau": np.median(draws.tau),
                **draws.regions(MARGIN)._asdict(),
                "data": json.dumps([of.tolist() for of in given]),
            })  # fmt: skip
    out.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows).to_csv(out, index=False)


def model(x, squares, runs, factor, families):
    """The model's density; ν, which has ten values, is summed over."""
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from jax.scipy.special import gammaln, logsumexp

    nu = jnp.array([2, 3, 4, 6, 8, 12, 16, 24, 32, 64.0])[:, None]
    members = np.eye(int(max(families)) + 1)[families]
    m = members.sum(axis=0)
    mu = numpyro.sample("mu", dist.Normal(0, 10))
    tau = numpyro.sample("tau", dist.HalfCauchy(2))
    s = numpyro.sample("s", dist.HalfCauchy(5))
    related = len(members) > members.shape[1]
    kappa = numpyro.sample("kappa", dist.Uniform(0, 1)) if related else 0.0
    v2 = numpyro.sample("v2", dist.InverseGamma(jnp.ones(len(x)), s**2))
    off = numpyro.sample("off", dist.ImproperUniform(dist.constraints.real, (), (len(x),)))
    # δ − μ = τ·off; a family is Student's t together.
    common = kappa / (1 - kappa + kappa * m) * (off @ members) ** 2
    q = (off**2 @ members - common) / (1 - kappa)
    logdet = (m - 1) * jnp.log1p(-kappa) + jnp.log1p(kappa * (m - 1))
    half = (nu + m) / 2
    density = gammaln(half) - gammaln(nu / 2) - m / 2 * jnp.log(nu) - half * jnp.log1p(q / nu)
    numpyro.factor("datasets", logsumexp((density - logdet / 2).sum(axis=1)))
    numpyro.sample("x", dist.Normal(mu + tau * off, jnp.sqrt(v2 * factor)), obs=x)
    degrees = jnp.array(runs) - 1
    numpyro.factor("squares", (-degrees / 2 * jnp.log(v2) - squares / 2 / v2).sum())


def theirs(table: Path, page: Path) -> None:
    """The same by NUTS, written beside ours."""
    import jax
    import numpyro
    from numpyro.diagnostics import summary
    from numpyro.infer import MCMC, NUTS

    jax.config.update("jax_enable_x64", True)
    header = ["LCPool against", "sampler", "draws", "worth", "mean of μ", "sd of μ", "median of τ",
              "worse", "equal", "better"]  # fmt: skip
    lines = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    ours, apart, rhat = pd.read_csv(table), [], []
    for pool, rows in ours.groupby("pool", sort=False):
        data = [np.array(of) for of in json.loads(rows["data"].iloc[0])]
        chains = MCMC(NUTS(model, target_accept_prob=0.97), num_warmup=1500, num_samples=5000,
                      num_chains=4, progress_bar=False, chain_method="sequential")  # fmt: skip
        chains.run(jax.random.key(0), *data)
        draws = chains.get_samples()
        mu = np.asarray(draws["mu"])
        quality = summary(chains.get_samples(group_by_chain=True))["mu"]
        rhat.append(float(quality["r_hat"]))
        found = {
            "sampler": "NUTS", "draws": mu.size, "worth": quality["n_eff"],
            "mean": mu.mean(), "sd": mu.std(), "tau": np.median(draws["tau"]),
            "worse": (mu < -MARGIN).mean(), "equal": (abs(mu) <= MARGIN).mean(),
            "better": (mu > MARGIN).mean(),
        }  # fmt: skip
        for of in (*rows.to_dict("records"), found):
            figures = [f"{of[name]:.0f}" for name in ("draws", "worth")]
            figures += [f"{of[name]:.3f}" for name in SHOWN]
            lines.append(f"| {pool.replace('*', chr(92) + '*')} | {of['sampler']} | "
                         f"{' | '.join(figures)} |")  # fmt: skip
        regions = ["worse", "equal", "better"]
        apart.append([abs(row[name] - found[name])
                      for row in rows.to_dict("records") for name in regions])  # fmt: skip
    of_report, of_long = np.array(apart).reshape(-1, 2, 3).max(axis=(0, 2))
    said = (
        "The probabilities of the report differ from those of NUTS (numpyro "
        f"{numpyro.__version__}, R̂ at most {max(rhat):.3f}) by at most {of_report:.3f}, those of "
        f"longer chains of the same sampler by at most {of_long:.3f}. "
        '"Worth" is the number of independent draws with the same error. Computed on a CPU, '
        f"{date.today().isoformat()}."
    )
    text = "\n".join([said, "", *lines])
    before, rest = page.read_text("utf-8").split(BEGIN)
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}", "utf-8")
    print(text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    first = commands.add_parser("draws")
    first.add_argument("runs", type=Path)
    first.add_argument("out", type=Path)
    second = commands.add_parser("nuts")
    second.add_argument("table", type=Path)
    second.add_argument("page", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "draws":
        ours(arguments.runs, arguments.out)
    else:
        theirs(arguments.table, arguments.page)
