"""``python -m paper COMMAND``, from the root: the reports, the audit, and more runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from lcpool.sweep.results import Results
from paper import chain, dates, readme, two_readings
from paper.audit import Audit
from paper.reproduction import Reproduction


def main(arguments: list[str] | None = None) -> None:
    """Write the reports of the paper's runs, the audit, or the README's figures."""
    parser = argparse.ArgumentParser(prog="python -m paper", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    report = commands.add_parser("report", help="both splits beside the paper's figures")
    report.add_argument("runs", nargs="+", type=Path, help="CSV files of 'lcpool bench export'")
    report.add_argument("--out", type=Path, required=True, help="folder to write to")
    report.add_argument("--audit", help="address of the audit, as seen from a page")
    audit = commands.add_parser("audit", help="the paper's claims one by one")
    audit.add_argument("results", type=Path, help="folder with paper/runs-fresh.csv and the rest")
    audit.add_argument("--out", type=Path, required=True, help="the document; its picture beside")
    figures = commands.add_parser("readme", help="the figures of the README")
    figures.add_argument("results", type=Path, help="folder with paper/runs-fresh.csv and the rest")
    figures.add_argument("readme", type=Path, help="the file with the two marks")
    days = commands.add_parser("dates", help="the days on which git got the results")
    days.add_argument("results", type=Path, help="folder with costs.csv and the rest")
    chained = commands.add_parser("chain", help="train the harness's seed 0 ten times in a row")
    chained.add_argument("grid", type=Path, help="a file as for 'lcpool bench --file'")
    chained.add_argument("store", type=Path, help="the store that gets the runs")
    chained.add_argument("-d", "--datasets", nargs="+", help="these of the file's datasets alone")
    both = commands.add_parser("harness", help="both readings of the paper beside its figures")
    both.add_argument("results", type=Path, help="folder with harness/runs.csv and the rest")
    chosen = parser.parse_args(arguments)
    if chosen.command == "chain":
        chain.train(chosen.grid, chosen.store, chosen.datasets)
        return
    if chosen.command == "report":
        reproduced = Reproduction.of(Results.read(*chosen.runs), audit=chosen.audit)
        written = reproduced.write(chosen.out)
        for analysis in reproduced.analyses:
            print(analysis)
    elif chosen.command == "harness":
        written = [two_readings.write(chosen.results)]
    elif chosen.command == "dates":
        written = [dates.write(chosen.results)]
    elif chosen.command == "readme":
        written = [readme.write(chosen.results, chosen.readme)]
    else:
        written = Audit.read(chosen.results).write(chosen.out)
    for path in written:
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
