"""Pages on a phone, and on what lies between: nothing but tables and charts scrolls sideways, and they show it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from browsing import opened, settled, unfold, until
from page_gallery import OTHERS, REPORTS, Gallery

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

PAGES = (*REPORTS, *OTHERS)
# What reaches beyond the window although nothing around it scrolls or cuts it.
BEYOND = """
[...document.querySelectorAll('body *')].filter(one => {
  if (!one.checkVisibility() || one.getBoundingClientRect().right <= document.documentElement.clientWidth + 1) {
    return false;
  }
  for (let up = one.parentElement; up; up = up.parentElement) {
    if (getComputedStyle(up).overflowX !== 'visible') return false;
  }
  return getComputedStyle(one).position !== 'absolute';
}).map(one => one.outerHTML.slice(0, 120))
"""
# Of each table that is wider than its place: how wide its first column is after all was scrolled to the right,
# and where it then begins, both against its place.
FIRST_COLUMNS = """
[...document.querySelectorAll('.scroll')].filter(one => one.querySelector('table')
    && one.checkVisibility() && one.scrollWidth > one.clientWidth + 1).map(one => {
  one.scrollLeft = 9999;
  const cell = one.querySelector('tbody tr > :first-child').getBoundingClientRect();
  const place = one.getBoundingClientRect();
  return [cell.width / place.width, cell.left - place.left];
})
"""


# Texts of charts that reach beyond their drawing; a little to the right its place scrolls to.
CUT = """
[...document.querySelectorAll('[data-chart] svg')].filter(svg => svg.checkVisibility()).flatMap(svg => {
  const whole = svg.getBoundingClientRect();
  return [...svg.querySelectorAll('text')].filter(one => one.textContent.trim()).filter(one => {
    const box = one.getBoundingClientRect();
    return box.top < whole.top - 2 || box.bottom > whole.bottom + 2
      || box.left < whole.left - 2 || box.right > whole.right + 10;
  }).map(one => `${svg.closest('[data-chart]').dataset.chart}: ${one.textContent}`);
})
"""


def _phone(browser: Browser, gallery: Gallery, name: str, **context: Any) -> Page:
    page, _ = opened(browser, gallery[name], viewport={"width": 360, "height": 740}, **context)
    settled(page)
    return page


@pytest.mark.parametrize("name", PAGES)
def test_the_page_itself_never_scrolls_sideways(browser: Browser, gallery: Gallery, name: str) -> None:
    """GIVEN a phone or a tablet, folded or not, THEN the page is as wide as the window and nothing sticks out."""
    page = _phone(browser, gallery, name)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    unfold(page)
    for width in (320, 360, 390, 768):
        page.set_viewport_size({"width": width, "height": 740})
        until(page, lambda: page.evaluate(BEYOND) == [])  # the charts follow
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(BEYOND) == []
    page.close()


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("name", ["fine", "executions", "benchmark", "comparison", "six-laws"])
def test_no_text_of_a_chart_is_cut_off(browser: Browser, gallery: Gallery, name: str, width: int) -> None:
    """GIVEN charts of any width, THEN names, values and legends end within them, so each number is whole."""
    page, _ = opened(browser, gallery[name], viewport={"width": width, "height": 900})
    unfold(page)
    until(page, lambda: page.evaluate(CUT) == [])
    assert page.evaluate(CUT) == []
    page.close()


@pytest.mark.parametrize("name", ["fine", "inference", "benchmark", "cell", "comparison", "laws"])
def test_wide_tables_keep_their_first_column(browser: Browser, gallery: Gallery, name: str) -> None:
    """GIVEN a table wider than a phone, scrolled to its end, THEN the first column still stands at the left."""
    page = _phone(browser, gallery, name)
    unfold(page)
    columns = page.evaluate(FIRST_COLUMNS)
    assert columns
    for share, left in columns:
        assert 0.1 < share < 0.6
        assert -1 <= left <= 2
    page.close()


@pytest.mark.parametrize("width", [360, 1440])
def test_long_tables_keep_their_head(browser: Browser, gallery: Gallery, width: int) -> None:
    """GIVEN the table of all components, WHEN it is scrolled, THEN its head stays at its top."""
    page, _ = opened(browser, gallery["fine"], viewport={"width": width, "height": 740})
    unfold(page)
    place = page.locator(".tall > .scroll")
    place.evaluate("one => { one.scrollTop = 300; }")
    assert place.evaluate("one => one.scrollTop") == 300
    head, top = place.locator("thead th").first.bounding_box(), place.bounding_box()
    assert head is not None
    assert top is not None
    assert head["y"] == pytest.approx(top["y"], abs=1)
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_scrolls_shows_a_shadow_where_it_goes_on(browser: Browser, gallery: Gallery, scheme: Any) -> None:
    """GIVEN a table wider than a phone, THEN its right edge is shaded until its end is reached."""
    page = _phone(browser, gallery, "fine", color_scheme=scheme)
    place = page.locator(".scroll:has(#table-changes)")
    place.scroll_into_view_if_needed()
    before = _edge(page, place)
    place.evaluate("one => { one.scrollLeft = 9999; }")
    assert before != _edge(page, place)
    page.close()


def _edge(page: Page, place: Any) -> bytes:
    """Return a picture of the right edge of a place, below its table's head."""
    box = place.bounding_box()
    return page.screenshot(
        clip={"x": box["x"] + box["width"] - 8, "y": box["y"] + box["height"] - 3, "width": 8, "height": 3}
    )


@pytest.mark.parametrize("name", ["fine", "inference", "comparison", "laws"])
def test_letters_are_large_enough(browser: Browser, gallery: Gallery, name: str) -> None:
    """GIVEN a phone, THEN no text is smaller than 12 CSS pixels, 10 in a chart."""
    page = _phone(browser, gallery, name)
    small = page.evaluate(
        "[...document.querySelectorAll('body *')].filter(one => one.checkVisibility() && [...one.childNodes].some("
        "child => child.nodeType === 3 && child.textContent.trim()))"
        ".map(one => [parseFloat(getComputedStyle(one).fontSize), Boolean(one.closest('svg')),"
        " one.outerHTML.slice(0, 80)])"
        ".filter(([size, drawn]) => size < (drawn ? 10 : 12))"
    )
    assert small == []
    page.close()
