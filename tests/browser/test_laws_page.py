"""The page of scaling laws in a real browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browsing import opened
from laws_builder import ONE, SIX, Swept, build_laws, laws_document

from energyscope.reporting.laws_page import write_laws_page
from energyscope.runs.laws import write_laws

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

OPEN = "[...document.querySelectorAll('[data-chart]')].filter(one => !one.closest('details:not([open])'))"
MARKS = "svg .mark-rect path, svg .mark-symbol path, svg .mark-rule line"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("laws")
    evil = "</script><script>window.hacked=1</script><img src=x onerror='window.hacked=1'>"
    hostile = json.loads(json.dumps(laws_document(SIX[:2])).replace("llama-3.2-1b", evil))
    (folder / "hostile").mkdir()
    write_laws(folder / "hostile", hostile)
    one_cell = (Swept(batch_sizes=(1,), lengths=(128,)),)
    made = {
        "one": build_laws(folder / "one", ONE),
        "six": build_laws(folder / "six", SIX),
        "modelled": build_laws(folder / "modelled", (Swept(modelled=True),)),
        "one-cell": build_laws(folder / "one-cell", one_cell),
        "hostile": folder / "hostile",
    }
    return {name: write_laws_page(path) for name, path in made.items()}


def _open(browser: Browser, path: Path, **context: Any) -> tuple[Page, list[str]]:
    """Open a page with its charts drawn, and return it with what went wrong."""
    page, wrong = opened(browser, path, **context)
    _drawn(page)
    return page, wrong


def _drawn(page: Page) -> None:
    """Wait until all charts that stand open are drawn; the page forbids eval, so ask again and again."""
    for _ in range(3000):
        if not page.evaluate(f"{OPEN}.some(one => !one.dataset.drawn && !one.classList.contains('failed'))"):
            return
        page.wait_for_timeout(100)
    pytest.fail("charts were not drawn within five minutes")


@pytest.mark.parametrize("name", ["one", "six", "modelled", "one-cell", "hostile"])
def test_every_chart_draws_without_an_error_or_a_request(
    browser: Browser, pages: dict[str, Path], name: str
) -> None:
    """GIVEN any document, THEN each open chart holds marks, the console is silent and nothing leaves the page."""
    page, wrong = _open(browser, pages[name])
    empty = page.evaluate(f'{OPEN}.filter(one => !one.querySelector("{MARKS}")).map(one => one.dataset.chart)')
    assert empty == []
    assert page.evaluate(f"{OPEN}.length") >= (4 if name != "one-cell" else 1)
    assert page.evaluate("window.hacked") is None
    assert wrong == []
    page.close()


def test_a_folded_group_is_drawn_when_it_is_opened(browser: Browser, pages: dict[str, Path]) -> None:
    """GIVEN six groups, WHEN a folded one is opened, THEN its charts are drawn as wide as their place."""
    page, wrong = _open(browser, pages["six"])
    fold = page.query_selector("details.fold:has([data-chart])")
    assert fold is not None
    assert fold.query_selector("[data-drawn]") is None
    fold.query_selector("summary").click()
    _drawn(page)
    widths = fold.evaluate("fold => [...fold.querySelectorAll('[data-chart] svg')].map(one => one.clientWidth)")
    assert widths
    assert min(widths) > 200
    assert wrong == []
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_pages_fit_the_window(browser: Browser, pages: dict[str, Path], scheme: str, width: int) -> None:
    """GIVEN a phone or a desktop, THEN the page itself never scrolls sideways and follows the colour scheme."""
    for name in ("one", "six", "hostile"):
        page, _ = _open(browser, pages[name], viewport={"width": width, "height": 800}, color_scheme=scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.get_attribute("[data-chart]", "data-drawn") == scheme
        page.close()


def test_charts_have_a_text_alternative(browser: Browser, pages: dict[str, Path]) -> None:
    """Each chart is an image with a sentence, and the numbers are in a table beside it."""
    page, _ = _open(browser, pages["one"])
    for place in page.query_selector_all("[data-chart]"):
        assert place.get_attribute("role") == "img"
        assert len(place.get_attribute("aria-label") or "") > 30
        rows = "place => place.closest('figure').querySelectorAll('details table tbody tr').length"
        assert place.evaluate(rows) > 0
    page.close()


def test_it_prints(browser: Browser, pages: dict[str, Path]) -> None:
    """GIVEN a reader who prints, THEN a PDF of a few pages comes out."""
    page, wrong = _open(browser, pages["six"], color_scheme="dark")
    pdf = page.pdf(format="A4")
    assert 3 <= pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") <= 30
    assert wrong == []
    page.close()
