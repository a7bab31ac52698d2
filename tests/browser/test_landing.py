"""Links into a report, followed while its charts are still being drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from browsing import opened, settled, until
from page_gallery import Gallery

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

WINDOW = {"width": 1280, "height": 700}
CLOSE_PX = 4
LEGEND_PX = 34  # two lines of a legend, whose length follows from the chart's width
KEPT = "[...document.querySelectorAll('[data-chart]')].map(one => [one.dataset.chart, one.offsetHeight])"
# Charts are taller than the room that is kept for them: any that is kept well must not hide that the link holds.
GROWN = "document.querySelectorAll('[data-chart] svg').forEach(one => { one.style.paddingBottom = '90px'; })"


def _top(page: Page, section: str) -> float:
    top: float = page.evaluate("name => document.getElementById(name).getBoundingClientRect().top", section)
    return top


def _stands(page: Page, section: str) -> bool:
    return abs(_top(page, section)) <= CLOSE_PX


def _grown(page: Page) -> None:
    """Make every chart higher, as a late drawing does."""
    settled(page)
    page.evaluate(GROWN)


@pytest.mark.parametrize("section", ["energy", "quality"])
def test_a_link_leads_to_its_section_whatever_is_drawn_above(
    browser: Browser, gallery: Gallery, section: str
) -> None:
    """WHEN the navigation is clicked before charts are drawn, THEN the section stands at the top when they are."""
    page, wrong = opened(browser, gallery["fine"], viewport=WINDOW)
    page.click(f"nav a[href='#{section}']")
    _grown(page)
    until(page, lambda: _stands(page, section))
    assert _top(page, section) == pytest.approx(0, abs=CLOSE_PX)
    assert wrong == []
    page.close()


def test_an_address_leads_to_its_section(browser: Browser, gallery: Gallery) -> None:
    """WHEN a page is opened at a section, THEN it stands at the top after all charts are drawn."""
    page = browser.new_page(viewport=WINDOW)
    page.goto(gallery["fine"].as_uri() + "#energy")
    _grown(page)
    until(page, lambda: _stands(page, "energy"))
    assert _top(page, "energy") == pytest.approx(0, abs=CLOSE_PX)
    page.close()


def test_a_reader_who_moves_on_is_left_alone(browser: Browser, gallery: Gallery) -> None:
    """WHEN the reader turns the wheel after a link, THEN nothing leads back, whatever grows."""
    page = browser.new_page(viewport=WINDOW)
    page.goto(gallery["fine"].as_uri() + "#energy")
    settled(page)
    until(page, lambda: _stands(page, "energy"))
    page.mouse.move(4, 400)  # beside the table, which would scroll in itself
    page.mouse.wheel(0, 500)
    until(page, lambda: _top(page, "energy") < -300)
    page.evaluate(GROWN)
    page.wait_for_timeout(300)
    assert _top(page, "energy") < -300
    page.close()


def test_room_is_kept_for_what_is_not_drawn_yet(browser: Browser, gallery: Gallery) -> None:
    """GIVEN no chart is drawn yet, THEN its place is about as high as it will be, so that little moves."""
    page = browser.new_page(viewport=WINDOW)
    page.add_init_script(
        "window.requestIdleCallback = () => 0; window.IntersectionObserver = class { observe() {} };"
    )
    page.goto(gallery["fine"].as_uri())
    kept = dict(page.evaluate(KEPT))
    assert page.locator("[data-drawn]").count() == 0
    page.close()
    page, _ = opened(browser, gallery["fine"], viewport=WINDOW)
    settled(page)
    drawn = dict(page.evaluate(KEPT))
    page.close()
    assert len(kept) > 8
    apart = {name: drawn[name] - kept[name] for name in kept if abs(drawn[name] - kept[name]) > LEGEND_PX}
    assert apart == {}
