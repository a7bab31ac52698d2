"""What changes around the page: the window's size, the theme of the screen, paper. Charts follow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browsing import opened
from controlled_pages import all_drawn, open_drawn, parts_shown
from page_gallery import Gallery

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

THEMES = (
    "[...document.querySelectorAll('[data-chart]')]"
    ".filter(place => place.closest('details:not([open]), [hidden]') === null)"
    ".map(place => place.dataset.drawn || '')"
)


def fitted(page: Page) -> float:
    """Wait until every drawing in a moment that is shown is as wide as its place, and return that width."""
    widths = (
        "[...document.querySelectorAll('.moment:not([hidden]) [data-chart]')].flatMap(place =>"
        " [place.clientWidth, (place.querySelector('svg') || place).getBoundingClientRect().width])"
    )
    all_drawn(page)
    for _ in range(600):
        found = set(page.evaluate(widths))
        if len(found) == 1:
            return found.pop()
        page.wait_for_timeout(50)
    pytest.fail(f"drawings and their places are {sorted(found)} pixels wide")


def test_a_chart_hidden_while_it_is_drawn_is_drawn_again(browser: Browser, reports: dict[str, Path]) -> None:
    """GIVEN a moment that a reader leaves while a chart of it is being drawn, THEN it has its width on return."""
    page, wrong = open_drawn(browser, reports["executions"])
    width = fitted(page)
    page.evaluate(
        """() => {
          const embed = window.vegaEmbed;
          window.vegaEmbed = (canvas, ...rest) => {
            window.vegaEmbed = embed;
            document.querySelector("#moments input[value^=decode]").click();
            window.leftMoment = canvas.closest(".moment").dataset.moment;
            return embed(canvas, ...rest);
          };
        }"""
    )
    page.click("#executions label:has-text('CUDA graph')")
    assert fitted(page) == width
    assert parts_shown(page) == ["decode at 1,024/cuda-graph"]
    assert page.evaluate("window.leftMoment") == "prefill, 128 tokens"
    page.click("#moments label:has-text('Prefill')")
    assert fitted(page) == width
    assert wrong == []
    page.close()


def test_a_window_may_change_its_size_while_a_moment_is_hidden(browser: Browser, reports: dict[str, Path]) -> None:
    """GIVEN a phone that is turned while charts are hidden, WHEN they are shown, THEN they have the new width."""
    page, wrong = open_drawn(browser, reports["executions"])
    before = fitted(page)
    page.click("#executions label:has-text('CUDA graph')")
    assert fitted(page) == before
    page.set_viewport_size({"width": 600, "height": 800})
    after = fitted(page)
    assert 0 < after < before
    page.click("#executions label:has-text('Both')")
    assert len(parts_shown(page)) == 4
    assert fitted(page) == after
    assert wrong == []
    page.close()


def test_a_chart_whose_place_becomes_as_wide_as_its_plot_is_fitted(browser: Browser, gallery: Gallery) -> None:
    """GIVEN a window that shrinks by just what stands beside a chart's plot, THEN the chart shrinks with it."""
    page, wrong = opened(browser, gallery["six-laws"], viewport={"width": 700, "height": 900})
    page.wait_for_selector("[data-chart=law-0-energy] svg")
    place = "document.querySelector('[data-chart=law-0-energy]')"
    width = f"[{place}.clientWidth, {place}.querySelector('svg').getBoundingClientRect().width]"
    before, drawn = page.evaluate(width)
    assert before == drawn
    plot = page.evaluate(f"{place}.querySelector('svg .role-frame .background').getBBox().width")
    beside = drawn - plot
    assert beside > 0
    page.set_viewport_size({"width": round(700 - beside), "height": 900})
    for _ in range(600):
        after, drawn = page.evaluate(width)
        if after == pytest.approx(before - beside, abs=1) and drawn == after:
            break
        page.wait_for_timeout(50)
    assert (after, drawn) == (pytest.approx(before - beside, abs=1), after)
    assert wrong == []
    page.close()


def themes_of(page: Page, wanted: str) -> list[str]:
    """Wait until every chart that is shown is drawn in the theme, and return the themes that they have."""
    found: list[str] = []
    for _ in range(400):
        found = page.evaluate(THEMES)
        if set(found) == {wanted}:
            break
        page.wait_for_timeout(50)
    return found


def test_charts_follow_a_theme_that_changes_during_a_scroll(browser: Browser, reports: dict[str, Path]) -> None:
    """GIVEN a theme that changes in the very frame of a scroll, THEN every chart is drawn in it, each time."""
    page, wrong = open_drawn(browser, reports["eager-step"], viewport={"width": 1024, "height": 900})
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
        assert set(themes_of(page, wanted)) == {wanted}, turn
    assert wrong == []
    page.close()


def test_a_page_is_itself_again_after_paper(browser: Browser, reports: dict[str, Path]) -> None:
    """GIVEN a dark page that is printed while a switch is used, THEN paper is light and the page dark again."""
    page, wrong = open_drawn(browser, reports["inference"], color_scheme="dark")
    for view in ("dynamic", "", "static", ""):
        page.evaluate(f"document.querySelector('#energy-by-kind fieldset input[value=\"{view}\"]').click()")
        page.emulate_media(media="print", color_scheme="dark")
        assert set(themes_of(page, "light")) == {"light"}
        assert page.locator(".moment[hidden]").count() == 0
        page.emulate_media(media="screen", color_scheme="dark")
        assert set(themes_of(page, "dark")) == {"dark"}
    assert wrong == []
    page.close()
