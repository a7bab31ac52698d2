"""Pages on paper: light, whole, and not many."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from browsing import opened, settled, until
from page_gallery import Gallery

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

A4 = 794 - 2 * 45  # CSS pixels between margins of 12 mm
PAGES = {
    "fine": 16, "one-layer": 9, "inference": 24, "benchmark": 14, "bare": 3, "cell": 14,
    "comparison": 14, "laws": 12, "six-laws": 20,
}  # fmt: skip
# What is wider than a sheet, or cut by its surroundings, where nobody can scroll.
CUT = """
[...document.querySelectorAll('main *, header *, aside *')].filter(one => one.checkVisibility()
    && !one.closest('.hidden, svg')
    && (one.getBoundingClientRect().right > document.documentElement.clientWidth + 1
    || (one.clientWidth && one.scrollWidth > one.clientWidth + 1
        && getComputedStyle(one).overflowX !== 'visible')))
  .map(one => one.outerHTML.slice(0, 120))
"""
# Texts of charts that reach beyond their drawing.
BEYOND = """
[...document.querySelectorAll('[data-chart] svg')].flatMap(chart => {
  const whole = chart.getBoundingClientRect();
  return [...chart.querySelectorAll('text')].filter(one => one.textContent.trim()).filter(one => {
    const box = one.getBoundingClientRect();
    return box.right > whole.right + 2 || box.left < whole.left - 2;
  }).map(one => `${chart.closest('[data-chart]').dataset.chart}: ${one.textContent}`);
})
"""
# Charts that can be seen, drawn or to be drawn.
DRAWN = "[...document.querySelectorAll('[data-chart]')].filter(one => one.checkVisibility())"


def _on_paper(browser: Browser, gallery: Gallery, name: str, scheme: str = "dark") -> Page:
    """Open a page as it is laid out for printing on A4."""
    page, _ = opened(browser, gallery[name], viewport={"width": A4, "height": 1000}, color_scheme=scheme)
    page.emulate_media(media="print", color_scheme=scheme)
    settled(page)
    until(page, lambda: page.evaluate(f"{DRAWN}.every(one => one.dataset.drawn === 'light')"))
    until(page, lambda: page.evaluate(BEYOND) == [])
    settled(page)
    return page


def _sheets(pdf: bytes) -> int:
    return len(re.findall(rb"/Type\s*/Page\b", pdf))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_on_paper(browser: Browser, gallery: Gallery, name: str) -> None:
    """GIVEN a reader in the dark who prints, THEN it is light, nothing is cut, and each chart is there."""
    page = _on_paper(browser, gallery, name)
    assert page.evaluate(CUT) == []
    assert page.evaluate(BEYOND) == []
    ink, paper = page.evaluate(
        "(({ color, backgroundColor }) => [color, backgroundColor])(getComputedStyle(document.body))"
    )
    assert (ink, paper) == ("rgb(29, 39, 51)", "rgb(255, 255, 255)")
    seen = page.evaluate(
        "[...document.querySelectorAll('[data-chart]')].filter(one => one.checkVisibility())"
        ".map(one => one.dataset.drawn)"
    )
    assert set(seen) <= {"light"}
    assert len(seen) == page.evaluate(
        "[...document.querySelectorAll('[data-chart]')].filter(one => !one.closest('details:not([open])')).length"
    )
    page.close()


@pytest.mark.parametrize("name", PAGES)
def test_it_prints_on_a_few_sheets(browser: Browser, gallery: Gallery, name: str) -> None:
    """GIVEN a reader who prints as soon as the page is open, THEN a PDF of a sane length comes out, silently."""
    page, wrong = opened(browser, gallery[name], color_scheme="dark")
    pdf = page.pdf(format="A4")
    assert 1 <= _sheets(pdf) <= PAGES[name]
    assert wrong == []
    page.close()


def test_what_is_folded_is_named_on_paper(browser: Browser, gallery: Gallery) -> None:
    """GIVEN folded groups of laws, THEN paper names them and says that they were folded."""
    page = _on_paper(browser, gallery, "six-laws")
    folds = page.locator("details.fold:not([open]) > summary")
    assert folds.count() > 0
    assert folds.first.is_visible()
    said = page.evaluate(
        "getComputedStyle(document.querySelector('details.fold:not([open]) > summary'), '::after').content"
    )
    assert "folded when this was printed" in said
    page.close()


def test_controls_stay_on_the_screen(browser: Browser, gallery: Gallery) -> None:
    """Paper has no buttons, no fields and no links to sections."""
    page = _on_paper(browser, gallery, "fine")
    for useless in ("nav", "input", "select", "button:not(thead button, tbody button)", ".skip"):
        assert page.locator(useless).filter(visible=True).count() == 0, useless
    page.close()
