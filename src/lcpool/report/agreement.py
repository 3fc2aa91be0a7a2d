"""Does a cell agree with the paper's figure?

A cell agrees when |ours − paper| ≤ 2·sqrt(100²·p(1 − p)/n_test + s_ours²/runs + s_paper²/10), in
percent, with p our mean as a fraction and s the standard deviations over runs. The first term is
the luck of the test graphs, the others that of the runs.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from lcpool.report.words import count

PAPER_RUNS = 10


def agreement(cells: pd.DataFrame) -> pd.DataFrame:
    """``difference`` and ``tolerance`` in points and ``agrees``, empty where nothing can be judged.

    That is, where the paper reports no figure, where a cell was not trained as the paper's, or
    where a single run shows no spread.
    """
    p = cells["mean"] / 100
    sampling = 100**2 * p * (1 - p) / cells["num_test"]
    runs = cells["std"] ** 2 / cells["runs"] + cells["paper_std"].astype(float) ** 2 / PAPER_RUNS
    judged = pd.DataFrame(index=cells.index)
    judged["difference"] = cells["mean"] - cells["paper_mean"].astype(float)
    judged["tolerance"] = 2 * np.sqrt(sampling + runs)  # NaN without a figure of the paper's.
    agrees = (judged["difference"].abs() <= judged["tolerance"]).astype("boolean")
    judged["agrees"] = agrees.mask(judged.isna().any(axis=1))
    return judged


def agreeing(cells: pd.DataFrame) -> tuple[int, int]:
    """How many cells agree with the paper, of how many that can be judged."""
    judged = cells["agrees"].dropna()
    return int(judged.sum()), len(judged)


def in_words(cells: pd.DataFrame) -> str:
    """The same as a sentence; only where there is a cell that can be judged."""
    agree, judged = agreeing(cells)
    share = f"{100 * agree / judged:.1f} %"
    return f"{agree} of {count(judged, 'published cell')} agree with the paper ({share})."
