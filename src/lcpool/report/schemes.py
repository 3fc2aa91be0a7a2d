"""What a scheme of splits means for a test over splits, and how it is called.

Splits of one dataset share graphs, so that the accuracies of runs on them are not independent. The
variance of a mean of n differences is then not s²/n but about s²·(1/n + ρ/(1 − ρ)), where ρ is the
correlation of two of them (Nadeau and Bengio, 2003). Their estimate of ρ is the share of the test
graphs, n_test/(n_test + n_train), which leads to s²·(1/n + n_test/n_train). Of K folds, each tests
1/K of the graphs: s²·(1/n + 1/(K − 1)), for one partition and for repeated ones (Bouckaert and
Frank, 2004).
"""

from __future__ import annotations

import pandas as pd

from lcpool.data.splits import Scheme


def share_of_tests(scheme: Scheme, num_test: float, num_train: float) -> float:
    """ρ/(1 − ρ) of the runs of one dataset; 0 if all have the same split.

    >>> share_of_tests(Scheme.of("5-fold"), 20, 72), share_of_tests(Scheme.of("fresh"), 10, 80)
    (0.25, 0.125)
    """
    if not scheme.varies:
        return 0.0
    return 1 / (scheme.folds - 1) if scheme.folds else num_test / num_train


def per_split(values: pd.Series, scheme: Scheme) -> pd.Series:
    """Of values by seed and run, the mean of those that have the same predefined split.

    Several runs on a split differ by their initial parameters: they are one observation of it.
    """
    if scheme.kind != "predefined" or not scheme.varies:
        return values
    return values.groupby(values.index.get_level_values("run") % scheme.given).mean()


def name_of_test(scheme: Scheme) -> str:
    """The test over splits, in a sentence."""
    if not scheme.folds:
        return "the corrected resampled t-test"
    return f"the corrected {'repeated ' if scheme.repeated else ''}{scheme.folds}-fold t-test"


def correction(scheme: Scheme) -> str:
    """How the test over splits is corrected, for the page."""
    if not scheme.folds:
        return (
            "Corrected resampled t-test (Nadeau and Bengio): splits of one dataset overlap, and "
            "the variance is taken as s²·(1/n + n_test/n_train)."
        )
    return (
        "Corrected t-test over folds (Nadeau and Bengio; Bouckaert and Frank): their training "
        f"graphs overlap, and the variance is taken as s²·(1/n + 1/{scheme.folds - 1})."
    )


def in_words(scheme: Scheme) -> str:
    """The scheme as the report states it."""
    words = {
        "fresh": "fresh: a new one for each run, the same for every pooling",
        "shared": "shared: one for all runs",
        "stratified": "stratified: a new one for each run, with the proportions of the classes, "
        "the same for every pooling",
        "fold": f"{scheme.name}: every graph is tested once in {scheme.folds} runs, the same for "
        "every pooling",
        "predefined": "predefined: those of the data, the same for every pooling",
    }
    return words[scheme.kind]


def no_test(scheme: Scheme) -> str:
    """Why runs that share a split are not tested."""
    if scheme.kind == "predefined":
        return (
            "There is no test on a single dataset: all runs have the one split that came with it, "
            "and say nothing about other graphs."
        )
    return (
        "Tests on a single dataset need fresh splits (lcpool bench … --split fresh): runs that "
        "share a split say nothing about other graphs."
    )
