"""The report's switches and moments in a real browser, and on paper."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browsing import opened
from controlled_pages import (
    all_drawn,
    choose_view,
    drawn_again,
    open_drawn,
    parts_shown,
    table_behind,
    views_of,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser


def test_a_switch_changes_chart_words_and_table_and_back(browser: Browser, reports: dict[str, Path]) -> None:
    """WHEN a reader chooses dynamic energy, THEN the whole figure is of it; total brings all back."""
    page, wrong = open_drawn(browser, reports["fine"])
    name = "energy-by-kind"
    view = views_of(page)[name]["dynamic"]
    own = (
        table_behind(page, name),
        page.inner_text(f"#{name} .caption"),
        page.get_attribute(f"#{name} [role=img]", "aria-label"),
    )
    before = page.inner_html(f"#{name} [data-chart]")
    choose_view(page, name, "dynamic")
    drawn_again(page, name, before)
    assert page.get_attribute(f"#{name} [role=img]", "aria-label") == view["summary"]
    assert page.inner_text(f"#{name} .caption") == view["caption"]
    assert table_behind(page, name) == [view["table"]["columns"], *view["table"]["rows"]]
    assert page.locator(f"#{name} .notes strong").all_text_contents() == view["notes"]
    after = page.inner_html(f"#{name} [data-chart]")
    choose_view(page, name, "")
    drawn_again(page, name, after)
    assert (
        table_behind(page, name),
        page.inner_text(f"#{name} .caption"),
        page.get_attribute(f"#{name} [role=img]", "aria-label"),
    ) == own
    assert wrong == []
    page.close()


def test_a_switch_changes_what_a_figure_is_called(browser: Browser, reports: dict[str, Path]) -> None:
    """WHEN power is chosen, THEN heading, switch, regions and table are called so; energy takes it back."""
    page, _ = open_drawn(browser, reports["fine"])
    name = "energy-heatmap"
    called = (
        "name => ['h3', 'legend', '.scroll', 'caption']"
        ".flatMap(part => [...document.querySelectorAll(`#${name} ${part}`)])"
        ".map(one => (one.getAttribute('aria-label') || one.textContent).split(': ').at(-1))"
    )
    own = page.evaluate(called, name)
    choose_view(page, name, "power")
    assert page.evaluate(called, name) == ["Power by layer and component"] * 5
    choose_view(page, name, "")
    assert page.evaluate(called, name) == own == ["Energy by layer and component"] * 5
    page.close()


def test_figures_of_one_switch_change_together(browser: Browser, reports: dict[str, Path]) -> None:
    """WHEN static energy is chosen at one figure, THEN each that has it shows it, and the heatmap stays."""
    page, _ = open_drawn(browser, reports["fine"])
    choose_view(page, "energy-by-kind", "static")
    chosen = {
        name: page.locator(f"#{name} fieldset input:checked").get_attribute("value") for name in views_of(page)
    }
    assert {name for name, views in views_of(page).items() if "static" in views} == {
        name for name, value in chosen.items() if value == "static"
    }
    assert chosen["energy-flow"] == "static"
    assert chosen["energy-heatmap"] == ""
    page.close()


@pytest.mark.parametrize("name", ["fine", "inference"])
def test_every_view_draws(browser: Browser, reports: dict[str, Path], name: str) -> None:
    """Each view of each figure holds marks, and neither the console nor the network hears of it."""
    page, wrong = open_drawn(browser, reports[name])
    if page.query_selector("#moments"):
        page.click("#moments label:has-text('All')")
    for figure, views in views_of(page).items():
        for key in views:
            choose_view(page, figure, key)
            page.locator(f"#{figure}").scroll_into_view_if_needed()
            drawn = f"#{figure} [data-chart][data-shown='{figure}--{key}']"  # and not the view before it
            page.wait_for_selector(f"{drawn} svg .mark-rect path")
            assert page.query_selector(f"#{figure} .failed") is None
    assert wrong == []
    page.close()


def test_a_switch_works_from_the_keyboard(browser: Browser, reports: dict[str, Path]) -> None:
    """WHEN the switch has the focus and an arrow key is pressed, THEN the next view is shown."""
    page, _ = open_drawn(browser, reports["fine"])
    page.focus("#energy-by-kind fieldset input:checked")
    page.keyboard.press("ArrowRight")
    assert page.locator("#energy-by-kind fieldset input:checked").get_attribute("value") == "dynamic"
    assert page.inner_text("#energy-by-kind .caption") == views_of(page)["energy-by-kind"]["dynamic"]["caption"]
    page.close()


def test_without_javascript_the_numbers_stand(browser: Browser, reports: dict[str, Path]) -> None:
    """GIVEN no JavaScript, THEN tables are there, and no control that would do nothing."""
    page, _ = opened(browser, reports["fine"], java_script_enabled=False)
    assert page.locator("#component-table tbody tr").count() == 48
    assert page.locator("#energy-by-kind details table tbody tr").count() > 3
    for control in ("#picker", "fieldset.switch", ".controls", "#downloads", "button.save-table"):
        assert not page.locator(control).first.is_visible(), control
    page.close()


def test_moments_are_shown_one_by_one(browser: Browser, reports: dict[str, Path]) -> None:
    """GIVEN several moments, THEN the first stands open, each can be chosen, and all; charts follow."""
    page, wrong = open_drawn(browser, reports["inference"])
    parts = (
        "[...document.querySelectorAll('.moment')].filter(part => !part.hidden).map(part => part.dataset.moment)"
    )
    every = page.evaluate("[...document.querySelectorAll('.moment')].map(part => part.dataset.moment)")
    assert len(every) > 2
    assert page.evaluate(parts) == every[:1]
    page.click("#moments label:has-text('Decode at 1,024')")
    assert page.evaluate(parts) == ["decode at 1,024"]
    page.wait_for_selector("#scene-decode-1024-energy-by-kind [data-drawn]")
    page.click("#moments label:has-text('All')")
    assert page.evaluate(parts) == every
    all_drawn(page)
    assert wrong == []
    page.close()


def test_executions_are_shown_one_by_one(browser: Browser, reports: dict[str, Path]) -> None:
    """GIVEN two moments in two executions, THEN both moments stand open eagerly, and each switch does its part."""
    page, wrong = open_drawn(browser, reports["executions"])
    prefill, decode = "prefill, 128 tokens", "decode at 1,024"
    assert parts_shown(page) == [f"{prefill}/eager", f"{decode}/eager"]
    page.click("#executions label:has-text('CUDA graph')")
    assert parts_shown(page) == [f"{prefill}/cuda-graph", f"{decode}/cuda-graph"]
    page.wait_for_selector("#scene-prefill-cuda-graph-energy-by-kind [data-drawn]")
    page.click("#moments label:has-text('Decode')")
    assert parts_shown(page) == [f"{decode}/cuda-graph"]
    page.click("#executions label:has-text('Both')")
    assert parts_shown(page) == [f"{decode}/eager", f"{decode}/cuda-graph"]
    all_drawn(page)
    assert wrong == []
    page.close()


def test_what_was_measured_in_one_execution_is_shown_whatever_the_other_switch_says(
    browser: Browser, reports: dict[str, Path]
) -> None:
    """GIVEN a step that was measured eagerly alone, WHEN it is chosen among graphs, THEN that one is shown."""
    page, _ = open_drawn(browser, reports["eager-step"])
    page.click("#executions label:has-text('CUDA graph')")
    assert parts_shown(page) == ["prefill, 128 tokens/cuda-graph"]
    page.click("#moments label:has-text('Decode')")
    assert parts_shown(page) == ["decode at 1,024/eager"]
    assert page.locator("#executions input:checked").get_attribute("value") == ""
    page.close()


def test_a_link_to_a_hidden_moment_shows_it(browser: Browser, reports: dict[str, Path]) -> None:
    """WHEN a reader follows a link into a hidden moment, or opens the page with one, THEN it is in sight."""
    page, _ = open_drawn(browser, reports["inference"])
    page.emulate_media(reduced_motion="reduce")
    page.click("#profile .scenes a:has-text('1,024 tokens')")
    assert page.is_visible("#scene-decode-1024")
    assert -5 <= page.evaluate("document.getElementById('scene-decode-1024').getBoundingClientRect().top") < 400
    assert page.locator("#moments input:checked").get_attribute("value") == "decode at 1,024"
    page.close()
    page, _ = open_drawn(browser, reports["inference"], "#scene-decode-1024-energy-flow")
    assert page.is_visible("#scene-decode-1024-energy-flow")
    page.close()


def test_paper_has_every_moment(browser: Browser, reports: dict[str, Path]) -> None:
    """WHEN the page is printed, THEN each moment and each chart is on it, light; afterwards as before."""
    page, wrong = open_drawn(browser, reports["inference"], color_scheme="dark")
    hidden = page.locator(".moment[hidden]").count()
    assert hidden > 0
    page.emulate_media(media="print")
    page.wait_for_selector("[data-chart]:not([data-drawn=light]):not(details *)", state="detached")
    assert page.locator(".moment[hidden]").count() == 0
    page.emulate_media(media="screen", color_scheme="dark")
    page.wait_for_selector(".moment:not([hidden]) [data-chart]:not([data-drawn=dark])", state="detached")
    assert page.locator(".moment[hidden]").count() == hidden
    assert wrong == []
    page.close()


def test_a_page_printed_at_once_is_complete(browser: Browser, reports: dict[str, Path]) -> None:
    """GIVEN a page that is printed before its charts were drawn, THEN the paper is that of one drawn in full."""
    early, _ = opened(browser, reports["fine"], color_scheme="dark")
    at_once = early.pdf(format="A4")
    early.close()
    late, _ = open_drawn(browser, reports["fine"], color_scheme="dark")
    assert len(at_once) == pytest.approx(len(late.pdf(format="A4")), rel=0.01)
    late.close()
