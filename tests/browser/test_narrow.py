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
    for width in (360, 390, 768):
        page.set_viewport_size({"width": width, "height": 740})
        until(page, lambda: page.evaluate(BEYOND) == [])  # the charts follow
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(BEYOND) == []
    page.close()


@pytest.mark.parametrize("name", ["fine", "inference", "benchmark", "cell", "comparison", "laws"])
def test_wide_tables_keep_their_first_column(browser: Browser, gallery: Gallery, name: str) -> None:
    """GIVEN a table wider than a phone, scrolled to its end, THEN the first column still stands at the left."""
    page = _phone(browser, gallery, name)
    unfold(page)
    found = page.evaluate(FIRST_COLUMNS)
    assert found
    for share, left in found:
        assert 0.1 < share < 0.6
        assert -1 <= left <= 2
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_scrolls_shows_a_shadow_where_it_goes_on(browser: Browser, gallery: Gallery, scheme: Any) -> None:
    """GIVEN a table wider than a phone, THEN its right edge is shaded until its end is reached."""
    page = _phone(browser, gallery, "fine", color_scheme=scheme)
    place = page.locator("#efficiency .scroll").first
    place.scroll_into_view_if_needed()
    edge = page.evaluate("getComputedStyle(document.querySelector('.scroll')).backgroundAttachment")
    assert edge == "local, local, scroll, scroll"
    before = _edge(page, place)
    place.evaluate("one => { one.scrollLeft = 9999; }")
    after = _edge(page, place)
    assert before != after
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


def test_the_answer_is_on_the_first_two_screens_of_a_phone(browser: Browser, gallery: Gallery) -> None:
    """GIVEN a phone, THEN the joules of a pass are on its first screen, and the findings begin on its second."""
    page = _phone(browser, gallery, "fine")
    top = "selector => document.querySelector(selector).getBoundingClientRect()"
    assert page.evaluate(top, ".metrics b")["bottom"] < 740
    assert page.evaluate(top, ".findings")["top"] < 2 * 740
    page.close()


# Words of a chart that reach beyond it, and so are cut off: a number would read as another one.
CUT = """
[...document.querySelectorAll('#launching svg')].flatMap(svg => [...svg.querySelectorAll('text')]
    .filter(one => one.getBoundingClientRect().right > svg.getBoundingClientRect().right + 1)
    .map(one => one.textContent))
"""


@pytest.mark.parametrize("width", [360, 390, 768])
def test_no_value_beside_a_bar_is_cut_off(browser: Browser, gallery: Gallery, width: int) -> None:
    """GIVEN bars of both executions as long as each other THEN their values and shares end within the chart."""
    page = _phone(browser, gallery, "executions")
    page.set_viewport_size({"width": width, "height": 740})
    page.locator("#launching").scroll_into_view_if_needed()
    settled(page)
    until(page, lambda: page.evaluate(CUT) == [])
    assert page.locator("#launching svg text").count() > 20
    assert page.evaluate(CUT) == []
    page.close()
