import ast
import re
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from paper_runs import make_results
from said import numbers

from lcpool.models import Architecture
from lcpool.report.hierarchical import Regions
from lcpool.report.statistics import ALPHA, holm, over_splits
from lcpool.report.verdict import Verdict
from lcpool.settings import POOLS
from lcpool.sweep.grid import read_grids
from lcpool.sweep.results import Results
from lcpool.words import signed
from paper import chapters, choosing, theory
from paper.__main__ import main
from paper.ablation import Ablation
from paper.audit import Audit
from paper.oddities import oddities

ROOT = Path(__file__).parents[2]
DATASETS = ("PROTEINS", "ENZYMES", "NCI1")
HEADINGS = [
    "The answer", "The claims", "All analyses", "The propositions", "The paper's ranking",
    "Oddities", "Accuracy and cost", "Where LCPool wins, and where not",
    "Do pooled graphs stay connected?", "Other readings of the paper",
]  # fmt: skip


def costs() -> pd.DataFrame:
    rows = [(d, p, 0.1 * (1 + i), 100.0 * 2**i) for d in DATASETS for i, p in enumerate(POOLS)]
    made = pd.DataFrame(rows, columns=["dataset", "pool", "seconds_per_epoch", "peak_mib"])
    return made.assign(device="a GPU")


def structure() -> pd.DataFrame:
    after = {"topkpool": (20.0, 5.0), "lcpool": (90.0, 1.5)}
    rows = [
        {"dataset": d, "pool": pool, "networks": 3, "epochs": 20, "graphs": 100,
         "connected_before": 80.0, "stay_connected": stay, "least": stay - 10, "most": stay,
         "nodes": 20, "parts": parts, "density": 0.25, "degree": 3,
         "diameter": 6, "edges": 30}
        for d in DATASETS
        for pool, (stay, parts) in {"none": (100.0, 1.0), **after}.items()
    ]  # fmt: skip
    return pd.DataFrame(rows)


def alone(**options) -> Results:
    """LCPool in one network, with some options."""
    network = {"backbones": ("plain",), "convs": ("gcn",), "pools": ("lcpool",)}
    return make_results(datasets=DATASETS, **network, runs=10, architecture=Architecture(**options))


def ablation(shift: float, default: Results) -> Results:
    """Three settings; one of them about ``shift`` points from the default in every run."""
    random, parts = np.random.default_rng(1), []
    for options in ({"rescale": True}, {"ratio": 0.25}, {"hops": 1}):
        made = alone(**options).runs
        off = random.normal(shift if "rescale" in options else 0.0, 0.5, len(made))
        made["test_accuracy"] = default.runs["test_accuracy"].to_numpy() + off
        parts.append(made)
    return Results(pd.concat(parts, ignore_index=True))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything that an audit reads."""
    folder = tmp_path_factory.mktemp("results")
    for split in ("fresh", "shared"):
        made = make_results(datasets=DATASETS, convs=("gcn",), runs=10, split=split)
        made.write(folder / "paper" / f"runs-{split}.csv")
        if split == "fresh":
            made.write(folder / "earlier" / "runs.csv")
            default = made.where(backbone="plain", pool="lcpool")
            ablation(4.0, default).write(folder / "ablation" / "runs.csv")
    costs().to_csv(folder / "costs.csv", index=False)
    structure().to_csv(folder / "structure.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def audit(folder: Path) -> Audit:
    return Audit.read(folder)


@pytest.fixture(scope="module")
def text(audit: Audit) -> str:
    return audit.markdown("picture.svg")


def chapter(text: str, heading: str) -> str:
    return text.split(f"## {heading}\n\n")[1].split("\n\n## ")[0]


def table(text: str, nth: int = 0) -> list[list[str]]:
    """The cells of a table, without its head."""
    found = [part for part in text.split("\n\n") if part.startswith("|")][nth]
    return [[cell.strip() for cell in line.split(" | ")] for line in _inside(found)]


def _inside(table: str) -> list[str]:
    return [line.removeprefix("| ").removesuffix(" |") for line in table.split("\n")[2:]]


def bullets(text: str, point: str) -> list[str]:
    """The list below a bold heading of the answer."""
    part = chapter(text, "The answer").split(f"**{point}.**")[1].split("\n\n")[0]
    return re.findall(r"^- (.*)$", part, re.M)


def test_the_answer_comes_first(audit: Audit, text: str):
    assert re.findall(r"^## (.*)$", text, re.M) == HEADINGS
    assert "](picture.svg)" in chapter(text, "The answer")
    rivals = audit.report.verdicts.rivals
    judged = bullets(text, "Which pooling to take")
    # The difference, its interval, and how many of the three other analyses agree.
    for line, rival in zip(judged, reversed(rivals), strict=True):
        for number in (rival.mean, rival.low, rival.high):
            assert signed(number, 1) in line
    agree = [int(re.search(r"in (\d) of 3 ", line)[1]) for line in judged]
    words = [
        {r.pool: r.word for r in report.verdicts.rivals}
        for (runs, _), report in audit.reports.items()
        if runs != "earlier"
    ]
    assert agree == [
        sum(other[rival.pool] == rival.word for other in words[1:]) for rival in reversed(rivals)
    ]


def test_what_the_papers_own_figures_refute(audit: Audit, text: str):
    """By its own accuracies three claims about its tables are false."""
    false = bullets(text, "False by the paper's own tables")
    known = [claim for claim in audit.report.claims if claim.of_paper is False]
    assert len(false) == len(known) > 0
    assert all(claim.says in line for claim, line in zip(known, false, strict=True))


def test_every_claim_is_in_the_answer(audit: Audit, text: str):
    points = ("Supported by our runs", "True of our means, without a test", "Not decided")
    shown, true, undecided = (
        bullets(text, point) if f"**{point}.**" in text else [] for point in points
    )
    verdicts = [claim.verdict for claim in audit.report.claims]
    assert len(shown) == verdicts.count("supported") + 1  # and the propositions
    assert len(true) == verdicts.count("true of our means")
    assert len(undecided) == verdicts.count("undecided")


def test_all_analyses(text: str):
    part = chapter(text, "All analyses")
    rows = table(part)
    names = [f"{runs}, by {rule}" for runs in ("fresh", "shared", "earlier")
             for rule in ("accuracy", "loss")]  # fmt: skip
    assert [row[0] for row in rows[:-1]] == names
    assert re.search(r"\b48\b[^.]*\b192\b", part)  # cells that have runs


def test_a_verdict_at_its_limit_is_a_limit():
    near, far = (
        Verdict(
            None, 1.0, 1.0, 0.0, 2.0, 1.0, Regions(0, 1 - better, better), None, 1.0, None, draws=()
        )
        for better in (0.945, 0.9)
    )
    assert near.close
    assert not far.close


def test_claims_are_those_of_the_report(audit: Audit, text: str):
    rows = table(chapter(text, "The claims"))
    assert [row[2] for row in rows] == [f"**{claim.verdict}**" for claim in audit.report.claims]
    for row, claim in zip(rows, audit.report.claims, strict=True):
        assert row[3].replace("\\", "") == claim.because
        verdicts = [
            r.claims[audit.report.claims.index(claim)].verdict
            for (runs, _), r in list(audit.reports.items())[1:]
            if runs != "earlier"
        ]
        same, *others = row[4].split("<br>")
        assert numbers(same) == [verdicts.count(claim.verdict), 3]
        assert [other.split(": ")[1] for other in others] == [
            verdict for verdict in verdicts if verdict != claim.verdict
        ]
    assert re.search(r"LCPool\\\*[^.\n]*\b6\b", text)


def test_every_named_test_exists():
    for shown in theory.STATEMENTS:
        for name in shown.tests:
            path, function = name.split("::")
            body = ast.parse((ROOT / path).read_text("utf-8")).body
            assert function in {node.name for node in body if isinstance(node, ast.FunctionDef)}
    numbered = {shown.name.split()[-1] for shown in theory.STATEMENTS if " " in shown.name}
    assert numbered == {"1", "2", "3", "4", "5", "6", "7", "8"}


def test_oddities_are_those_that_are_known():
    said = oddities()
    for known in (
        r"\b12\b.*\b14\b.*\b28\b.*\b0\.34\b",
        r"nopool 2\.33 .*hierarchical graphconv.*lcpool 3\.50.*sagpool.*lcpool 3\.17.*plain",
        r"nopool, sagpool, asapool, diffpool\b.*lcpool\b.*\b4\b",
        r"\b1\b.*ENZYMES hierarchical gcn asapool",
        r"85\.69\b.*COX2 hierarchical gcn lcpool\b.*1/470",
        r"\b2\b.*\b191\b",
        r"PROTEINS 2\.0 .*\b4\.2\b",
    ):
        assert any(re.search(known, text) for text in said), known


def test_ranks_as_printed_and_as_recomputed(text: str):
    rows = table(chapter(text, "The paper's ranking"))
    assert rows[1][0] == "hierarchical, graphconv"
    assert rows[1][1] == "2.33 / 2.33"
    assert rows[1][-1] == "**3.50 / 3.33**"
    assert sum(cell.startswith("**") for row in rows for cell in row) == 14


def test_costs_are_multiples_of_no_pooling(text: str):
    written = chapter(text, "Accuracy and cost")
    rows = {row[0]: row[-2:] for row in table(written)}
    assert rows["nopool"] == ["1.0<br><sub>1.0 to 1.0</sub>"] * 2
    assert rows["asapool"] == ["4.0<br><sub>4.0 to 4.0</sub>", "8.0<br><sub>8.0 to 8.0</sub>"]
    assert table(written, 1)[3][1] == "0.4 s<br><sub>800 MiB</sub>"
    assert rows.keys() == {pool.replace("*", "\\*") for pool in POOLS}


def test_a_pooling_without_a_cost_on_some_dataset_has_no_multiple():
    some = costs()
    some = some[~((some["pool"] == "lcpool") & (some["dataset"] == "NCI1"))]
    assert "lcpool" not in choosing.relative(some, "seconds_per_epoch")
    assert choosing.relative(some, "seconds_per_epoch")["topkpool"].mean == pytest.approx(2.0)
    assert choosing.relative(some[some["pool"] != "nopool"], "seconds_per_epoch") == {}


def test_where_lcpool_wins(audit: Audit, text: str):
    rows = table(chapter(text, "Where LCPool wins, and where not"))
    *groups, significant, _ = rows
    assert len(groups) == 6
    bold = [cell for row in groups for cell in row if cell.startswith("**")]
    better, worse = (sum(cell.startswith(f"**{sign}") for cell in bold) for sign in "+−")
    counts = [list(map(int, re.findall(r"\d+", cell))) for cell in significant[2:]]
    assert [better, worse] == np.sum(counts, axis=0).tolist()
    sentences = re.split(r"(?<=\.)\s", text)
    counted = [sentence for sentence in sentences if numbers(sentence)[-2:] == [better, worse]]
    assert any("significantly" in sentence for sentence in counted)
    assert better > 0


def test_who_can_be_the_best_on_a_dataset(tmp_path: Path):
    made = make_results(datasets=DATASETS, convs=("gcn",), runs=10, pools=("nopool", "lcpool"))
    for dataset, pool in (("NCI1", "nopool"), ("ENZYMES", "lcpool")):
        low = made.runs["pool"].eq(pool) & made.runs["dataset"].eq(dataset)
        made.runs.loc[low, "test_accuracy"] -= 30
    made.write(tmp_path / "paper/runs-fresh.csv")
    c = Audit.read(tmp_path).report.paper
    assert choosing.tops(c)["NCI1"][:2] == ("lcpool", ["nopool"])
    assert choosing.tops(c)["ENZYMES"][:2] == ("nopool", ["lcpool"])
    said = choosing.advice(c, {"nopool": 1.0, "lcpool": 2.0})
    assert numbers(said) == [2, 3]  # Both are the best, or may be, on 2 of 3 datasets.
    # These two; the faster of them; who is below whom on which dataset.
    assert re.findall(r"nopool|lcpool|ENZYMES|NCI1", said) == [
        "nopool", "lcpool", "nopool", "lcpool", "ENZYMES", "nopool", "nopool", "NCI1", "lcpool",
    ]  # fmt: skip


def test_structure_before_and_after(text: str):
    rows = table(chapter(text, "Do pooled graphs stay connected?"))
    assert [row[0] for row in rows] == ["as they are", "topkpool", "lcpool"]
    # Connected graphs, and of several trainings their range; parts, density, diameter.
    assert numbers(rows[0][1]) == [80, 1, 0.25, 6]
    assert numbers(rows[1][1]) == [20, 10, 20, 5, 0.25, 6]
    assert re.search(r"LCPool 90 % .*TopK 20 % ", text)
    assert re.search(r"\b20 epochs\b.*\b3\b", text)


def test_the_ablation_is_paired_by_run_and_corrected(folder: Path, audit: Audit):
    default = Results.read(folder / "paper/runs-fresh.csv")
    others = Results.read(folder / "ablation/runs.csv")
    shuffled = Results(others.runs.sample(frac=1, random_state=0).reset_index(drop=True))
    again = Ablation.of(default, shuffled)
    assert audit.ablation is not None
    assert again.table() == audit.ablation.table()
    pairs, p = again.pairs, []
    for pair in pairs.to_dict("records"):
        option = pair["pool"].removeprefix("lcpool (").removesuffix(")")
        name, value = option.split("=")
        here = others.runs[others.runs["dataset"] == pair["dataset"]]
        here = here[here["config"].str.contains(f'"{name}": {value.lower()}')]
        base = default.where(dataset=pair["dataset"], backbone="plain", conv="gcn", pool="lcpool")
        both = here.merge(base.runs, on="run")
        off = (both["test_accuracy_x"] - both["test_accuracy_y"]).to_numpy()
        share = base.runs["num_test"].mean() / base.runs["num_train"].mean()
        tested = over_splits(off, share)
        assert tested is not None
        assert pair["difference"] == pytest.approx(tested.mean)
        assert (pair["low"], pair["high"]) == pytest.approx((tested.low, tested.high))
        p.append(tested.p)
    assert len(p) == 9
    np.testing.assert_allclose(pairs["p_holm"], holm(np.array(p)))


@pytest.mark.parametrize(
    ("shift", "better"), [(4.0, True), (0.0, False), (-4.0, False), (0.9, False)]
)
def test_clearly_better_is_a_rule(shift: float, better: bool):
    default = alone()
    found = Ablation.of(default, ablation(shift, default))
    assert found.clearly_better("lcpool (rescale=True)") == better
    assert not found.clearly_better("lcpool (hops=1)")
    sentences = re.split(r"(?<=\.)\s", found.verdict()[0])
    assert any("clearly" in s and "`rescale=True`" in s for s in sentences) == better
    small = found.pairs[found.pairs["pool"] == "lcpool (rescale=True)"]
    assert (small["p_holm"] < ALPHA).any() == (shift != 0)


def test_what_is_sure_of_a_setting_is_said():
    default = alone()
    cells, datasets = Ablation.of(default, ablation(-4.0, default)).verdict()
    for text, tests in ((cells, 9), (datasets, 9)):
        assert tests in numbers(text)
        assert re.findall(r"`rescale=True` \(.*?([+−])[\d.]+\)", text) == ["−"] * 3
        low, high = map(float, re.search(r"([\d.]+) to ([\d.]+) points", text).groups())
        assert 0 < low <= high < 4


def test_a_setting_that_is_worse_somewhere_is_not_clearly_better():
    default = alone()
    others = ablation(6.0, default)
    changed = others.runs["config"].str.contains('"rescale": true')
    others.runs.loc[changed & others.runs["dataset"].eq("NCI1"), "test_accuracy"] -= 10
    found = Ablation.of(default, others)
    assert found.mean("lcpool (rescale=True)") > 1
    assert not found.clearly_better("lcpool (rescale=True)")


def test_cells_that_the_ablation_lacks_are_said():
    default = alone()
    others = ablation(0.0, default).runs
    lacks = others["config"].str.contains('"hops": 1') & others["dataset"].eq("NCI1")
    found = Ablation.of(default, Results(others[~lacks].reset_index(drop=True)))
    assert len(found.pairs) == 8  # Only what is missing is left out.
    cells = {row[0].split("`")[1]: row[1:-2] for row in table(found.table()) if "`" in row[0]}
    assert [cell == "–" for cell in cells["hops=1"]] == [d == "NCI1" for d in DATASETS]
    assert all(cell != "–" for cell in cells["ratio=0.25"])
    lead = found.pairs["difference"][found.pairs["pool"] == "lcpool (hops=1)"].mean()
    (said,) = found.hops()
    assert re.search(rf"{re.escape(signed(lead))} .*`hops=1`.*\b0\b.*\b2\b", said)
    with pytest.raises(ValueError, match="default"):
        Ablation.of(make_results(datasets=("DD",), runs=10), Results(others))


def test_the_grid_of_the_ablation():
    cells = [
        (grid.runs, cell)
        for grid in read_grids(ROOT / "paper/results/ablation/grid.toml", {})
        for cell in grid.cells({name: name for name in grid.datasets})
    ]
    networks = {(c.architecture.backbone, c.architecture.conv, c.dataset) for _, c in cells}
    assert len(cells) == len({c for _, c in cells}) == 60
    assert len(networks) == 6
    assert {runs for runs, _ in cells} == {10}
    assert {c.protocol.split for _, c in cells} == {"fresh"}


def test_what_is_missing_is_said_with_the_command(folder: Path, tmp_path: Path):
    fresh = Results.read(folder / "paper/runs-fresh.csv")
    fresh.write(tmp_path / "paper/runs-fresh.csv")
    text = Audit.read(tmp_path).markdown()
    assert re.findall(r"^## (.*)$", text, re.M) == HEADINGS
    for name, command in chapters.COMMANDS.items():
        missing = rf"`paper/results/{re.escape(name)}`[^`]*```sh\n{re.escape(command)}\n```"
        assert re.search(missing, text)
    assert "nan" not in text


def test_the_picture(audit: Audit, folder: Path, tmp_path: Path):
    written = audit.write(tmp_path / "some" / "audit.md")
    assert [path.name for path in written] == ["audit.md", "audit.svg"]
    drawing = ET.fromstring(written[1].read_text("utf-8"))
    texts = ["".join(node.itertext()) for node in drawing.iter() if node.tag.endswith("text")]
    rivals = [verdict.pool for verdict in audit.report.verdicts.rivals]
    assert [text for text in texts if text in POOLS][: len(rivals)] == rivals
    assert [text for text in texts if text.endswith("(90 %)")] == ["lcpool (90 %)"]
    assert sum(text == "average dataset" for text in texts) == len(rivals)
    again = [path.read_bytes() for path in Audit.read(folder).write(tmp_path / "audit.md")]
    assert again == [path.read_bytes() for path in written]


def test_the_command(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "audit.md"
    main(["audit", str(folder), "--out", str(out)])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines] == [str(out), str(out.with_suffix(".svg"))]


def test_a_table_that_is_none(folder: Path, tmp_path: Path):
    shutil.copytree(folder / "paper", tmp_path / "paper")
    costs().drop(columns="peak_mib").to_csv(tmp_path / "costs.csv", index=False)
    with pytest.raises(ValueError, match=r"costs\.csv .*peak_mib.*benchmarks/training"):
        Audit.read(tmp_path)


def test_too_little_to_audit(tmp_path: Path):
    make_results(datasets=("DD",), runs=5).write(tmp_path / "paper/runs-fresh.csv")
    with pytest.raises(ValueError, match="datasets"):
        Audit.read(tmp_path)
