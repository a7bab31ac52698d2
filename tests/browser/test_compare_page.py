"""The page of a comparison in a real browser, as a reader would use it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from benchmark_builder import Bench
from browsing import opened
from generation_builder import Inference, build_inference
from run_builder import Shape, build_run

from energyscope.reporting.compare_page import write_comparison

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

NOT_DRAWN = "[data-chart]:not([data-drawn]):not(.failed)"
PAGES = ("plain", "several", "inference", "hostile", "benchmark", "deep")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    bad = Shape(rename=lambda name: name.replace("mlp", "</script><script>window.hacked=1</script>"))
    base = build_run(folder / "base", Shape(granularity="medium", benchmark=Bench()))
    bench = Shape(profile=False, benchmark=Bench())
    hostile = {"model": {"name": "<img src=x onerror='window.hacked=1'>"}}
    runs = {
        "plain": [
            base,
            build_run(folder / "less", Shape(scale=0.9, granularity="medium", benchmark=Bench(seed=5))),
        ],
        "several": [
            base,
            *(build_run(folder / f"x{at}", Shape(scale=1 + at / 10, layers=4 + at)) for at in range(4)),
        ],
        "inference": [build_inference(folder / f"i{at}", Inference(layers=4, seed=at)) for at in range(2)],
        "hostile": [build_run(folder / f"h{at}", bad, **hostile) for at in range(2)],
        "benchmark": [build_run(folder / f"b{at}", bench) for at in range(2)],
        "deep": [build_run(folder / f"d{at}", Shape(layers=80, reused=False, scale=1 + at)) for at in range(2)],
    }
    return {name: write_comparison(found, folder / f"{name}.html") for name, found in runs.items()}


def _open(browser: Browser, file: Path, **context: Any) -> tuple[Page, list[str]]:
    """Open a page with its charts drawn, and return it with what went wrong."""
    page, wrong = opened(browser, file, **context)
    for fold in page.query_selector_all("details.fold > summary"):
        fold.click()
    page.wait_for_selector(NOT_DRAWN, state="detached", timeout=300_000)
    return page, wrong


@pytest.mark.parametrize("name", PAGES)
def test_every_chart_draws_without_a_word_or_a_request(
    browser: Browser, pages: dict[str, Path], name: str
) -> None:
    """GIVEN any comparison, THEN each chart holds marks, the console is silent and nothing leaves the page."""
    page, wrong = _open(browser, pages[name])
    places = page.query_selector_all("[data-chart]")
    assert places
    for place in places:
        assert len(place.query_selector_all("svg .mark-rect path, svg .mark-symbol path")) > 0
    assert page.evaluate("window.hacked") is None
    assert wrong == []
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_pages_fit_the_window(browser: Browser, pages: dict[str, Path], scheme: str, width: int) -> None:
    """GIVEN a phone or a desktop, THEN the page itself never scrolls sideways, and charts follow the scheme."""
    for name in ("plain", "several", "hostile"):
        page, _ = _open(browser, pages[name], viewport={"width": width, "height": 800}, color_scheme=scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        assert page.get_attribute("[data-chart]", "data-drawn") == scheme
        page.close()


def test_the_table_sorts_and_filters(browser: Browser, pages: dict[str, Path]) -> None:
    """WHEN a reader filters for a kind and sorts by difference, THEN only its rows are left, in that order."""
    page, _ = _open(browser, pages["plain"])
    page.fill("#filter", "lm_head")
    assert page.inner_text("#filtered").startswith("1 of ")
    page.fill("#filter", "")
    page.click("#component-table thead button:has-text('Difference')")
    values = page.evaluate(
        "[...document.querySelectorAll('#component-table tbody tr')].map(row => Number(row.cells[3].dataset.n))"
    )
    assert values == sorted(values, reverse=True)
    page.close()
