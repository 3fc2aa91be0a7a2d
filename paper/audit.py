"""``Audit``: a folder of results in, a document about the paper's claims and its picture out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from lcpool.report.comparison import Comparison
from lcpool.settings import POOLS
from lcpool.sweep.results import Results
from lcpool.train import RULES
from paper import chapters, choosing, dates
from paper.ablation import Ablation
from paper.overview import overview
from paper.published import OURS
from paper.readings import Readings
from paper.report import PaperReport, as_paper
from paper.reproduction import SPLITS
from paper.shown import EARLIER


@dataclass(frozen=True)
class Audit:
    """What a folder of results says about the paper.

    Attributes:
        reports: by split, or ``EARLIER``, and rule; the first, of fresh splits by validation
            accuracy, is the one that the document speaks of.
        everyone: the paper's poolings, LCPool* included, on fresh splits.
        costs: of an epoch, by dataset and pooling; None where they were not measured.
        structure: of graphs before and after pooling, by dataset and pooling; likewise.
        ablation: settings of LCPool against the paper's reading; likewise.
        readings: a pooling that fails in some cells, with other settings there; likewise.
        measured: when its runs and their costs came, where that is known.
        looked_at: when the graphs of ``structure`` did.
    """

    reports: dict[tuple[str, str], PaperReport]
    everyone: Comparison
    costs: pd.DataFrame | None
    structure: pd.DataFrame | None
    ablation: Ablation | None
    readings: Readings | None
    measured: str = ""
    looked_at: str = ""

    @classmethod
    def read(cls, folder: str | Path) -> Audit:
        """Read ``paper/runs-fresh.csv``, and what else there is."""
        folder = Path(folder)
        fresh, shared = (folder / "paper" / f"runs-{split}.csv" for split in SPLITS)
        if not fresh.is_file():
            raise ValueError(f"{folder} is no folder of results: there is no {fresh}.")
        runs = {"fresh": Results.read(fresh)}
        for which, path in {"shared": shared, EARLIER: folder / chapters.EARLIER_RUNS}.items():
            if path.exists():
                runs[which] = Results.read(path)
        reports = {
            (which, rule): PaperReport.of(part, rule, "fresh" if which == EARLIER else which)
            for which, part in runs.items()
            for rule in RULES
        }
        main = next(iter(reports.values()))
        if OURS not in main.paper.pools or main.paper.empty or len(main.paper.datasets) < 2:
            raise ValueError(
                f"{fresh} must have {OURS} and another pooling, trained as in the paper, on two of "
                "its datasets at least."
            )
        others, readings = folder / chapters.ABLATION, folder / chapters.READINGS
        files = [path.relative_to(folder).as_posix() for path in (fresh, shared)]
        return cls(
            reports=reports,
            everyone=Comparison.of(as_paper(main.runs), list(POOLS)),
            costs=_table(folder / chapters.COSTS, [*choosing.COSTS, "device"]),
            structure=_table(folder / chapters.STRUCTURE, choosing.STRUCTURE),
            ablation=Ablation.of(runs["fresh"], Results.read(others)) if others.exists() else None,
            readings=Readings.of(main, Results.read(readings)) if readings.exists() else None,
            measured=dates.measured(folder, [*files, chapters.COSTS]),
            looked_at=dates.measured(folder, [chapters.STRUCTURE]),
        )

    @property
    def report(self) -> PaperReport:
        """Of fresh splits, by validation accuracy."""
        return next(iter(self.reports.values()))

    def write(self, path: str | Path) -> list[Path]:
        """Write the document and, beside it, its picture."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        drawn = overview(self.report, self.costs, self.structure)
        image = path.with_suffix(".svg")
        texts = {path: self.markdown(None if drawn is None else image.name)}
        if drawn is not None:
            texts[image] = drawn
        for file, text in texts.items():
            file.write_text(text, encoding="utf-8", newline="\n")
        return list(texts)

    def markdown(self, image: str | None = None) -> str:
        """The document; ``image`` is the address of its picture."""
        parts = (
            chapters.opening(self, image), chapters.claims(self), chapters.analyses(self),
            chapters.paper(), chapters.accuracy(self), chapters.wins(self),
            chapters.connectivity(self), chapters.ablation(self),
        )  # fmt: skip
        return "\n\n".join(text for part in parts for text in part) + "\n"


def _table(path: Path, columns: Iterable[str]) -> pd.DataFrame | None:
    """What was measured by dataset and pooling; None where nothing was."""
    if not path.exists():
        return None
    table = pd.read_csv(path)
    missing = [name for name in ("dataset", "pool", *columns) if name not in table]
    if missing:
        raise ValueError(f"{path} lacks {', '.join(missing)}: {chapters.COMMANDS[path.name]}")
    return table
