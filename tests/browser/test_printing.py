"""Pages on paper: light, with what is folded but for the longest tables, and not many."""

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
PAGES = {  # and on how many sheets each fits
    "fine": 11, "one-layer": 6, "inference": 10, "executions": 10, "benchmark": 11, "bare": 4, "cell": 8,
    "deep": 12, "comparison": 6, "several": 6, "laws": 6, "six-laws": 11,
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
# Texts of charts that reach beyond their drawing by more than half a letter.
BEYOND = """
[...document.querySelectorAll('[data-chart] svg')].flatMap(chart => {
  const whole = chart.getBoundingClientRect();
  return [...chart.querySelectorAll('text')].filter(one => one.textContent.trim()).filter(one => {
    const box = one.getBoundingClientRect();
    return box.right > whole.right + 6 || box.left < whole.left - 6;
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
    charts = "[...document.querySelectorAll('[data-chart]')].filter(one => !one.closest('[hidden]'))"
    assert page.evaluate(f"{charts}.every(one => one.checkVisibility() && one.dataset.drawn === 'light')")
    page.close()


@pytest.mark.parametrize("name", PAGES)
def test_it_prints_on_a_few_sheets(browser: Browser, gallery: Gallery, name: str) -> None:
    """GIVEN a reader who prints as soon as the page is open, THEN a PDF of a sane length comes out, silently."""
    page, wrong = opened(browser, gallery[name], color_scheme="dark")
    pdf = page.pdf(format="A4")
    assert 1 <= _sheets(pdf) <= PAGES[name]
    assert wrong == []
    page.close()


def test_folds_are_open_on_paper_alone(browser: Browser, gallery: Gallery) -> None:
    """WHEN a page is printed, THEN all folds but those of long tables are open; afterwards they are as before."""
    page, _ = opened(browser, gallery["fine"])
    settled(page)
    first = page.locator("details.fold").first
    first.evaluate("one => { one.open = true; }")
    folds = "[...document.querySelectorAll('details.fold:not([open])')]"
    closed = f"{folds}.map(one => Boolean(one.querySelector('.tall')))"
    before = page.evaluate(closed)
    assert not all(before)
    page.emulate_media(media="print")
    until(page, lambda: page.evaluate(closed) == [True])
    assert page.evaluate(closed) == [True]
    assert page.locator("details.fold:not([open]) > summary").is_visible()
    page.emulate_media(media="screen")
    until(page, lambda: page.evaluate(closed) == before)
    assert page.evaluate(closed) == before
    page.close()


def test_controls_stay_on_the_screen(browser: Browser, gallery: Gallery) -> None:
    """Paper has no buttons, no fields and no links to sections; of a switch it names what is chosen."""
    page = _on_paper(browser, gallery, "inference")
    for useless in ("nav", "input", "select", "button:not(thead button)", ".skip"):
        assert page.locator(useless).filter(visible=True).count() == 0, useless
    choices = page.locator("fieldset[data-dimension=phase] label").filter(visible=True)
    assert choices.count() == page.locator("fieldset[data-dimension=phase]").count()
    page.close()
