"""The page of a comparison in a real browser: it draws, switches between runs and moments, and keeps silent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browsing import opened, settled
from generation_builder import Inference, build_inference
from run_builder import Shape, build_run

from energyscope.reporting.comparison.page import write_comparison

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of three runs, one of them without a generation."""
    folder = tmp_path_factory.mktemp("runs")
    runs = [build_inference(folder / f"run-{at}", Inference(layers=2 + at, contexts=(1024,))) for at in range(2)]
    return write_comparison([*runs, build_run(folder / "prefill", Shape(scale=0.5))], folder / "page.html")


def test_switches_show_one_run_and_one_moment(browser: Browser, page_file: Path) -> None:
    """GIVEN three runs, WHEN another is chosen, THEN its sentence and charts stand there, and no other's."""
    page, wrong = opened(browser, page_file, viewport={"width": 1440, "height": 900})
    settled(page)
    first = page.locator(".answer:visible").inner_text()
    assert page.locator(".answer:visible").count() == 1
    page.locator('fieldset[data-dimension="other"] label').nth(1).click()
    settled(page)
    assert page.locator(".answer:visible").count() == 1
    assert page.locator(".answer:visible").inner_text() != first
    for chart in page.locator("#compare-parts:visible, #compare-whole:visible").all():
        assert chart.locator("svg").count() == 1
    assert not wrong


def test_the_first_screen_has_the_answer_and_its_charts(browser: Browser, page_file: Path) -> None:
    """GIVEN 1440x900, THEN sentence, figures, both charts and the line of trust end on the first screen."""
    page, _ = opened(browser, page_file, viewport={"width": 1440, "height": 900})
    settled(page)
    for place in (".answer:visible", ".stats:visible", "#compare-parts", "#compare-whole", ".trust:visible"):
        box = page.locator(place).first.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= 900, place


@pytest.mark.parametrize("width", [390, 1440])
def test_nothing_is_wider_than_the_window(browser: Browser, page_file: Path, width: int) -> None:
    """GIVEN a phone or a desk, THEN the page does not scroll sideways."""
    page, _ = opened(browser, page_file, viewport={"width": width, "height": 844})
    settled(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
