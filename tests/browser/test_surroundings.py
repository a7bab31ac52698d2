"""What changes around a page: the window's size, the theme of the screen, paper. Charts follow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from browsing import opened, settled, until
from page_gallery import Gallery

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

SHOWN = (
    "[...document.querySelectorAll('[data-chart]')]"
    ".filter(place => place.closest('details:not([open]), [hidden]') === null)"
)


def themes(page: Page, wanted: str) -> set[str]:
    """Wait until every chart that is shown is drawn in a theme, and return the themes that they have."""
    until(page, lambda: set(page.evaluate(f"{SHOWN}.map(place => place.dataset.drawn)")) == {wanted})
    return set(page.evaluate(f"{SHOWN}.map(place => place.dataset.drawn)"))


def misfits(page: Page) -> list[str]:
    """Return the charts that are not as wide as their places."""
    charts: list[str] = page.evaluate(
        f"{SHOWN}.filter(place => Math.abs(place.clientWidth"
        " - place.querySelector('svg').getBoundingClientRect().width) > 1).map(place => place.dataset.chart)"
    )
    return charts


def fitted(page: Page) -> None:
    """Assert that every chart becomes as wide as its place."""
    settled(page)
    until(page, lambda: misfits(page) == [])
    assert misfits(page) == []


def test_charts_are_as_wide_as_their_places_whatever_the_window_does(browser: Browser, gallery: Gallery) -> None:
    """GIVEN a window that changes its size while parts are hidden, THEN each chart fits when it is shown."""
    page, wrong = opened(browser, gallery["executions"], viewport={"width": 1200, "height": 900})
    fitted(page)
    page.set_viewport_size({"width": 600, "height": 800})
    fitted(page)
    page.locator("fieldset[data-dimension=phase] label").nth(2).click()
    fitted(page)
    page.set_viewport_size({"width": 1000, "height": 800})
    page.locator("fieldset[data-dimension=phase] label").nth(0).click()
    fitted(page)
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    fitted(page)
    assert wrong == []
    page.close()


def test_charts_follow_a_theme_that_changes_during_a_scroll(browser: Browser, gallery: Gallery) -> None:
    """GIVEN a theme that changes in the very frame of a scroll, THEN every chart is drawn in it, each time."""
    page, wrong = opened(browser, gallery["fine"], viewport={"width": 1024, "height": 900})
    settled(page)
    page.evaluate(
        """() => {
          let place = 0;
          const jump = () => {
            place = (place + 2500) % 10000;
            scrollTo({ top: place, behavior: "instant" });
            if (window.restless) requestAnimationFrame(jump);
          };
          window.startJumping = () => { window.restless = true; jump(); };
        }"""
    )
    for turn in range(6):
        wanted = "light" if turn % 2 else "dark"
        page.evaluate("startJumping()")
        page.emulate_media(color_scheme=wanted)
        page.evaluate("restless = false")
        assert themes(page, wanted) == {wanted}, turn
    assert wrong == []
    page.close()


def test_a_page_is_itself_again_after_paper(browser: Browser, gallery: Gallery) -> None:
    """GIVEN a dark page that is printed while a switch is used, THEN paper is light and the page dark again."""
    page, wrong = opened(browser, gallery["inference"], color_scheme="dark")
    settled(page)
    for part in ("work", "energy", "idle", "energy"):
        page.evaluate(f"document.querySelector('fieldset[data-dimension=part] input[value={part}]').click()")
        page.emulate_media(media="print", color_scheme="dark")
        assert themes(page, "light") == {"light"}
        page.emulate_media(media="screen", color_scheme="dark")
        assert themes(page, "dark") == {"dark"}
    assert wrong == []
    page.close()
