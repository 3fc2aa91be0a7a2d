"""The page as text; ``test_browser`` looks at it in a browser."""

import re
from collections.abc import Callable
from functools import partial
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from runs import HOSTILE, POOLS, make_results
from said import numbers

from lcpool.models import Architecture
from lcpool.report import Report
from lcpool.report.findings import findings
from lcpool.report.page import page
from lcpool.report.plots import WIDTH, Scale, diagram, learning, room, spread, tag
from lcpool.sweep.results import Results

VOID = {"meta", "input", "br", "img"}


class Page(HTMLParser):
    """Tags and text of a page, and whether every tag is closed where it should be."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.attributes, self.text, self.open = [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.text.append(data)


def words(report: Report) -> str:
    return " ".join(" ".join(Page(page(report)).text).split())


def without(results: Results, gone) -> Results:
    runs = results.runs[~gone(results.runs)].reset_index(drop=True)
    return Results(runs, results.curves)


def test_well_formed_and_whole():
    report = Report.of(make_results(runs=10, epochs=100))
    whole = page(report)
    assert len(whole.encode()) < 1_000_000
    found = Page(whole)
    assert found.tags.count("script") == found.tags.count("style") == 1
    panels = 7 + 1 + 24 + 1 + 24 + 6 + 6  # Verdicts, spread, ranks, curves, time, memory.
    assert found.tags.count("svg") == panels
    text = " ".join(found.text)
    for cell in report.cells.to_dict("records"):
        assert f"{cell['mean']:.2f} ± {cell['std']:.2f}" in text


def test_nothing_is_fetched():
    text = page(Report.of(make_results(datasets=("DD",))))
    assert not re.search(r"https?:|//cdn|@import|url\(", text)
    addresses = [value for name, value in Page(text).attributes if name in ("src", "href")]
    assert all(address.startswith("#") for address in addresses)


def test_what_a_thing_is_called_cannot_become_markup():
    results = make_results(HOSTILE, HOSTILE[:2], HOSTILE[2:3], ("lcpool", *HOSTILE))
    for column in ("device", "commit", "torch"):
        results.runs[column] = HOSTILE[0]
    hostile = Page(page(Report.of(results)))
    tame = Page(page(Report.of(make_results("abcde", "rs", "t", ("lcpool", *"vwxyz")))))
    assert set(hostile.tags) == set(tame.tags)
    assert hostile.tags.count("script") == 1
    assert {name for name, _ in hostile.attributes} == {name for name, _ in tame.attributes}
    assert all(name in " ".join(hostile.text) for name in HOSTILE)


def test_only_the_pages_own_script_may_run():
    text = page(Report.of(make_results(datasets=("DD",))))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text).group(1)
    assert policy.startswith("default-src &#39;none&#39;;")
    assert "unsafe" not in policy
    assert not any(name == "style" or name.startswith("on") for name, _ in Page(text).attributes)


SMALL = {"datasets": ("MINE",), "backbones": ("plain",), "convs": ("gcn",)}


def all_lost() -> Results:
    results = make_results(**SMALL, pools=("nopool", "lcpool"))
    results.runs[["test_accuracy", "test_accuracy_by_loss"]] = np.nan
    results.runs["diverged"] = 1.0
    return results


def no_costs() -> Results:
    results = make_results(**SMALL, pools=("nopool", "lcpool"))
    results.runs[["peak_memory", "seconds"]] = None
    return results


def all_equal() -> Results:
    results = make_results(convs=("gcn",), pools=("nopool", "sagpool", "lcpool"))
    results.runs["test_accuracy"] = 70.0
    return results


def on_a_cpu() -> Results:
    results = make_results(**SMALL)
    results.runs["device"] = "CPU"
    return results


def no_spread() -> Results:
    results = make_results(**SMALL, pools=("nopool", "lcpool"), runs=6)
    results.runs["test_accuracy"] = 60.0 + results.runs["run"] + (results.runs["pool"] == "lcpool")
    return results


def never_met() -> Results:
    return without(
        make_results(datasets=("DD", "NCI1"), pools=("nopool", "lcpool")),
        lambda runs: (runs["dataset"] == "DD") == (runs["pool"] == "lcpool"),
    )


def with_a_hole() -> Results:
    return without(
        make_results(datasets=("DD", "NCI1", "COX2")),
        lambda runs: (runs["dataset"] == "DD") & (runs["pool"] == "asapool"),
    )


# Sweeps that are not what the paper did, or not done: whether poolings are ranked, the number of
# pictures and curves, and the numbers in the last sentence of a finding.
FEW = {"ranks": False, "panels": 4}
SEVEN = {"ranks": False, "panels": 4 + 7 + 1}  # and a verdict per rival, and accuracy against time
PARTIAL = {
    "one run": (
        partial(make_results, **SMALL, pools=("lcpool",), runs=1),
        {**FEW, "answer": [], "missing": [1, 1, 5]},
    ),
    "one pooling": (
        partial(make_results, convs=("gcn",), pools=("mine:Pool",)),
        {"ranks": False, "answer": [], "missing": [12, 12, 5]},
    ),
    "two poolings": (
        partial(make_results, convs=("gcn",), pools=("nopool", "mine:Pool")),
        {"ranks": True, "panels": 1 + 1 + 12 + 1 + 12 + 6 + 6},
    ),
    "one dataset": (partial(make_results, **SMALL), {**SEVEN, "answer": [3, 5]}),
    "a shared split": (partial(make_results, **SMALL, split="shared"), {**SEVEN, "answer": []}),
    "a CPU": (on_a_cpu, {"panels": 11, "curves": 9}),
    "no spread": (no_spread, {"ranks": False, "panels": 6, "answer": []}),
    "no curves": (lambda: Results(make_results(**SMALL).runs), {"panels": 11, "curves": 1}),
    "no accuracies": (all_lost, {"panels": 1, "curves": 2, "answer": [], "missing": [2, 2, 5]}),
    "no costs": (no_costs, {"panels": 3, "curves": 2}),
    "never met": (never_met, {"ranks": False, "left_out": {"DD", "NCI1"}, "answer": []}),
    "a hole": (with_a_hole, {"ranks": True, "left_out": {"DD"}}),
    "no difference": (
        all_equal,
        {"ranks": True, "left_out": set(), "ranking": [0, 1, 1, 6, 3, 1.35, 0.05]},
    ),
}


@pytest.mark.parametrize(("make", "expected"), PARTIAL.values(), ids=PARTIAL)
def test_what_is_missing_is_said(make: Callable[[], Results], expected: dict):
    report = Report.of(make())
    found, said = Page(page(report)), findings(report)
    facts = {
        "ranks": ("id", "ranks") in found.attributes,
        "panels": found.tags.count("svg"),
        "curves": found.tags.count("polyline"),
        "left_out": {group[0] for group in report.ranked.left_out.groups},
        **{key: numbers(sentences[-1]) for key, sentences in said.items() if sentences},
    }
    assert {name: facts.get(name) for name in expected} == expected
    text = " ".join(" ".join(found.text).split())
    assert all(sentence in text for sentences in said.values() for sentence in sentences)
    values = [
        *found.text,
        *(value for name, value in found.attributes if value and name != "content"),
    ]
    assert not re.search(r"\b(nan|NaN|None|inf|NA)\b", " ".join(values))


def test_what_these_datasets_could_show_is_computed():
    """How far apart ranks must be, and the differences that would be found."""
    one = {"backbones": ("plain",), "convs": ("gcn",), "pools": POOLS[:7]}
    report = Report.of(make_results(**one))
    (ranks,) = findings(report)["ranking"]
    assert numbers(ranks)[-4:] == [6, 7, 3.68, 0.05]
    found = report.verdicts.table["detectable"]
    ends = [found.min(), found.max()]
    assert numbers(findings(report)["power"][0])[:2] == pytest.approx(ends, abs=0.051)


def test_nothing_is_said_of_figures_that_were_not_given():
    text = words(Report.of(make_results(runs=10)))
    assert "paper" not in text.lower()
    for empty in ("tolerance", "agrees", "published"):
        assert empty not in text


def certain(lead: float, **options) -> Report:
    """LCPool leads by so many points on every split, more or less."""
    results = make_results(**{**SMALL, "runs": 10, **options})
    random = np.random.default_rng(0)
    splits = results.runs["run"].map(dict(enumerate(random.normal(60, 5, 10))))
    ours = results.runs["pool"] == "lcpool"
    results.runs["test_accuracy"] = splits + random.normal(0, 1, len(ours)) + lead * ours
    return Report.of(results)


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (certain(8.0), {"better"}),
        (certain(0.0, datasets="ABCDEFGHIJKL"), {"equal", "not worse"}),
        (certain(8.0, datasets="ABC"), {"better", "not worse"}),
        (certain(8.0, datasets="ABCDEFGHIJKL"), {"better"}),
    ],
)
def test_the_first_card_answers(report: Report, words: set[str]):
    """Which pooling to take, and what is decided."""
    said = findings(report)["answer"]
    assert {verdict.word for verdict in report.verdicts.rivals} <= words
    if words == {"better"}:
        assert report.verdicts.reference == "lcpool"
        assert "lcpool" in said[0].split(":")[0]
    card = re.search(r'<article class="answer">.*?</article>', page(report), re.S)[0]
    assert all(sentence in " ".join(Page(card).text) for sentence in said)


def test_runs_that_share_a_split_are_not_tested():
    *_, last = findings(certain(8.0, split="shared"))["answer"]
    assert numbers(last) == []
    assert "--split" in last


def test_the_first_card_in_figures():
    report = certain(8.0)
    mean = report.cells.set_index("pool")["mean"]
    std = report.cells.set_index("pool")["std"]
    second = mean.drop("lcpool").idxmax()
    best = findings(report)["answer"][0]
    assert all(name in best for name in ("lcpool", "MINE", second))
    expected = [mean["lcpool"], std["lcpool"], mean["lcpool"] - mean[second]]
    assert numbers(best)[:3] == pytest.approx(expected, abs=0.006)
    assert best in words(report)


def test_marks_lie_within_their_picture():
    """Of few runs that differ much, mean ± std reaches beyond them."""
    results = make_results(**SMALL, pools=("lcpool",), runs=2)
    results.runs["test_accuracy"] = [60.0, 90.0]
    drawn = spread(Report.of(results))[0].svg
    places = re.findall(r' (?:x1|x2|cx)="([-\d.]+)"', drawn)
    assert len(places) > 5
    assert all(room(["lcpool"]) <= float(place) <= WIDTH for place in places)


def test_labels_keep_what_tells_them_apart():
    usual = make_results(**SMALL, pools=("topkpool",))
    others = [
        make_results(**SMALL, pools=("topkpool",), architecture=Architecture(ratio=r))
        for r in (0.25, 0.75)
    ]
    runs = pd.concat([usual.runs, *(other.runs for other in others)], ignore_index=True)
    drawn = spread(Report.of(Results(runs)))[0].svg
    labels = re.findall(r'class="end label">([^<]*)<', drawn)
    assert labels == ["topkpool", "topkpool (ratio=0.25)", "topkpool (ratio=0.75)"]
    long = make_results(
        datasets=("A", "B"),
        pools=("nopool", "my_package.my_poolings:A", "my_package.my_poolings:B"),
    )
    drawn = diagram(Report.of(long))
    assert len(set(re.findall(r">([^<>]*…[^<>]*) [\d.]+</text>", drawn))) == 2


def test_epochs_are_whole():
    drawn = learning(Report.of(make_results(**SMALL, epochs=2)))[0].svg
    assert "0.5" not in re.findall(r'class="tick middle">([^<]*)<', drawn)


def test_ticks_do_not_collide():
    for top in (2.0, 9.0, 80.0, 3e3, 1e6):
        scale = Scale.over([1.0, top], 34, 286, log=True)
        places = [scale(tick) for tick in scale.ticks()]
        assert min(np.diff(places)) > 24


def test_elements_are_escaped():
    assert tag("text", "<b>", data_tip='"&') == '<text data-tip="&#34;&amp;">&lt;b&gt;</text>'


@pytest.mark.parametrize("values", [[1.0], [0.0, 0.0], [1e-3, 2e-3], [74.1, 75.9], [3.0, 4e5]])
def test_scales_have_ticks_within(values: list[float]):
    for log in (False, True):
        if log and min(values) <= 0:
            continue
        scale = Scale.over(values, 10, 90, log)
        assert all(10 <= scale(value) <= 90 for value in values)
        assert 1 <= len(scale.ticks()) <= 20
        assert all(10 - 1e-6 <= scale(tick) <= 90 + 1e-6 for tick in scale.ticks())
