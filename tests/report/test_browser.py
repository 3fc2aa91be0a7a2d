"""The page in Chromium."""

import itertools
from pathlib import Path

import pytest
from runs import DATASETS, HOSTILE, POOLS, make_results

from lcpool.report import Reference, Report
from lcpool.report.page import page

PHONE = {"width": 360, "height": 740}


@pytest.fixture(scope="module")
def whole_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    networks = itertools.product(DATASETS, ("plain",), ("gcn", "graphconv"), POOLS)
    published = Reference("paper", dict.fromkeys(networks, (71.0, 3.0)), runs=10)
    report = Report.of(make_results(runs=5), reference=published)
    return written(report, tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def hostile_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = make_results(datasets=HOSTILE, pools=("lcpool", *HOSTILE), convs=("gcn",))
    return written(Report.of(results), tmp_path_factory.mktemp("hostile"))


def written(report: Report, folder: Path) -> Path:
    path = folder / "report.html"
    path.write_text(page(report), encoding="utf-8")
    return path


def column(tab, table: str, heading: str) -> list[str]:
    """The texts of a column that are seen, from the top."""
    place = tab.locator(f"#{table} th").all_inner_texts()
    index = [text.rstrip(" ▲▼") for text in place].index(heading) + 1
    return tab.locator(f"#{table} tbody tr:not(.off) td:nth-child({index})").all_inner_texts()


def test_sorting(visit, whole_page: Path):
    tab = visit(whole_page)
    button = tab.locator("#all-cells").get_by_role("button", name="difference")

    def numbers() -> list[float]:
        texts = column(tab, "all-cells", "difference")
        return [float(text.replace("−", "-")) for text in texts if text != "–"]

    before = numbers()
    button.click()
    assert numbers() == sorted(before) != before
    button.click()
    assert numbers() == sorted(before, reverse=True)
    assert column(tab, "all-cells", "difference")[-1] == "–"  # Unknown stays last.
    assert tab.locator("#all-cells th[aria-sort=descending]").inner_text().startswith("difference")
    tab.locator("#all-cells").get_by_role("button", name="pooling").press("Enter")
    pools = column(tab, "all-cells", "pooling")
    assert pools == sorted(pools)
    assert tab.locator("#all-cells th[aria-sort]").count() == 1


def test_filtering(visit, whole_page: Path):
    tab = visit(whole_page)
    tab.get_by_text("Filter what is shown").click()
    for name in ("lcpool", "ENZYMES", "plain"):
        tab.get_by_role("checkbox", name=name, exact=True).uncheck()
    assert set(column(tab, "all-cells", "pooling")) == {
        "nopool", "topkpool", "sagpool", "asapool", "diffpool", "mincutpool", "lcpool*",
    }  # fmt: skip
    assert "ENZYMES" not in column(tab, "all-cells", "dataset")
    assert set(column(tab, "all-cells", "backbone")) == {"hierarchical"}
    assert len(column(tab, "all-cells", "dataset")) == 5 * 2 * 7
    seen = [text for text in tab.locator("#accuracy figcaption").all() if text.is_visible()]
    assert len(seen) == 5 * 2
    assert not tab.locator("#accuracy th", has_text="ENZYMES").first.is_visible()
    tab.get_by_role("button", name="Show all").click()
    assert tab.locator(".off").count() == 0
    assert len(column(tab, "all-cells", "dataset")) == 192


def test_explanations(visit, whole_page: Path):
    tab = visit(whole_page)
    tip = tab.locator("#tip")
    assert not tip.is_visible()
    heading = tab.locator("#all-cells").get_by_role("button", name="tolerance")
    heading.hover()
    assert tip.inner_text().split() == heading.get_attribute("data-tip").split()
    assert tip.is_visible()
    tab.keyboard.press("Escape")
    assert not tip.is_visible()
    tab.mouse.move(0, 0)  # Away from what scrolls under it.
    tab.locator("#all-cells").get_by_role("button", name="memory").focus()
    assert "memory" in tip.inner_text()
    tab.locator("#accuracy svg [data-tip]").first.hover()
    assert "nopool" in tip.inner_text()
    for heading in tab.locator(".sheet th button").all():
        assert len(heading.get_attribute("data-tip")) > 10


def test_light_and_dark(visit, whole_page: Path):
    def brightness(element: str, part: str) -> float:
        colour = tab.locator(element).first.evaluate(f"e => getComputedStyle(e).{part}")
        return sum(float(c) for c in colour.strip("rgb()").split(",")[:3]) / (3 * 255)

    for scheme in ("light", "dark"):
        tab = visit(whole_page, color_scheme=scheme)
        ground = brightness("body", "backgroundColor")
        assert ground > 0.9 if scheme == "light" else ground < 0.15
        for element, part in (("p", "color"), ("svg text", "fill"), ("#all-cells td", "color")):
            assert abs(brightness(element, part) - ground) > 0.35, (scheme, element)


@pytest.mark.parametrize("which", ["whole_page", "hostile_page"])
def test_a_phone_does_not_scroll_sideways(visit, which: str, request: pytest.FixtureRequest):
    tab = visit(request.getfixturevalue(which), viewport=PHONE)
    assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert tab.locator(".scrolls:has(#all-cells)").count() == 1
    tab.locator("#all-cells").get_by_role("button", name="memory").focus()
    box = tab.locator("#tip").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= PHONE["width"]


def test_one_picture_is_large_enough(visit, tmp_path: Path):
    one = make_results(datasets=("MINE",), backbones=("plain",), convs=("gcn",))
    tab = visit(written(Report.of(one), tmp_path), viewport={"width": 1280, "height": 900})
    assert tab.locator("#accuracy svg").bounding_box()["width"] > 500
    assert tab.locator(".scrolls").count() == 0


def test_print(visit, whole_page: Path):
    tab = visit(whole_page, color_scheme="dark")
    tab.emulate_media(media="print")
    assert not tab.locator("nav").is_visible()
    assert not tab.locator(".filters").is_visible()
    ground = tab.locator("body").evaluate("e => getComputedStyle(e).backgroundColor")
    assert ground == "rgb(255, 255, 255)"
    # All of a long table is there, not what a window shows of it.
    height = tab.locator(".wide:has(#all-cells)").evaluate("e => [e.clientHeight, e.scrollHeight]")
    assert height[0] == height[1]


def test_hostile_names_are_names(visit, hostile_page: Path):
    tab = visit(hostile_page)
    assert set(HOSTILE) <= set(column(tab, "all-cells", "dataset"))
    assert set(HOSTILE) <= set(column(tab, "all-cells", "pooling"))
    assert tab.locator("script").count() == 1
    assert tab.locator("img").count() == 0
    tab.get_by_text("Filter what is shown").click()
    tab.locator("[data-filter=pool] label", has_text="</script>").last.locator("input").uncheck()
    assert len(set(column(tab, "all-cells", "pooling"))) == len(HOSTILE)
    tab.locator("#accuracy svg [data-tip]").last.hover()
    assert HOSTILE[-1] in tab.locator("#tip").inner_text()


def test_without_scripts_everything_can_be_read(visit, whole_page: Path):
    tab = visit(whole_page, java_script_enabled=False)
    assert tab.get_by_role("heading", name="Which pooling?").first.is_visible()
    assert tab.locator("#all-cells tbody tr").count() == 192
