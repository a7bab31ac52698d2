"""The page of laws in a real browser: the answer first, short, one group at a time, drawn without an error."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browsing import WORDS, opened, settled, unfold, until
from page_gallery import Gallery

from energyscope.reporting.scaling.laws import Laws
from energyscope.reporting.scaling.page import laws_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

DESK, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
MEASURED = sorted((Path(__file__).parents[2] / "reports" / "scaling-h200").glob("*/laws.json"))
BOTTOM = "selector => document.querySelector(selector).getBoundingClientRect().bottom + scrollY"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The pages of measured laws."""
    folder = tmp_path_factory.mktemp("measured")
    for file in MEASURED:
        (folder / f"{file.parent.name}.html").write_text(laws_page(Laws.load(file.parent)), encoding="utf-8")
    return {file.parent.name: folder / f"{file.parent.name}.html" for file in MEASURED}


@pytest.mark.parametrize("name", [file.parent.name for file in MEASURED])
def test_measured_laws_are_short_and_begin_with_the_answer(
    browser: Browser, measured: dict[str, Path], name: str
) -> None:
    """GIVEN measured laws, THEN charts and trust line end in the first screen, the page in 6 and 900 words."""
    page, wrong = opened(browser, measured[name], viewport=DESK)
    settled(page)
    for part in (".answer", ".stats", ".trust", "main [data-chart]"):
        assert page.evaluate(BOTTOM, part) <= DESK["height"], part
    assert page.evaluate("document.documentElement.scrollHeight") <= 6 * DESK["height"]
    assert page.evaluate(WORDS) <= 900
    page.set_viewport_size(PHONE)
    settled(page)
    until(page, lambda: page.evaluate(BOTTOM, "main [data-chart]") <= 2 * PHONE["height"])
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert wrong == []
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["laws", "six-laws"])
def test_every_chart_is_drawn(browser: Browser, gallery: Gallery, name: str, scheme: str) -> None:
    """GIVEN any groups, WHEN all is unfolded, THEN each chart has marks and follows the colour scheme."""
    page, wrong = opened(browser, gallery[name], viewport=DESK, color_scheme=scheme)
    unfold(page)
    settled(page)
    marks = "svg .mark-rect path, svg .mark-symbol path, svg .mark-rule line"
    places = "[...document.querySelectorAll('[data-chart]')].filter(one => one.checkVisibility())"
    assert page.evaluate(f"{places}.length") >= 4
    assert (
        page.evaluate(f'{places}.filter(one => !one.querySelector("{marks}")).map(one => one.dataset.chart)') == []
    )
    assert page.get_attribute("[data-chart]", "data-drawn") == scheme
    assert wrong == []
    page.close()


def test_one_group_is_shown_at_a_time(browser: Browser, gallery: Gallery) -> None:
    """GIVEN six groups, WHEN one is chosen, THEN laws, charts and efficiency are its own, in every section."""
    page, wrong = opened(browser, gallery["six-laws"], viewport=DESK)
    settled(page)
    shown = (
        "[...document.querySelectorAll('[data-when=group]')].filter(one => !one.hidden).map(one => one.dataset.is)"
    )
    assert set(page.evaluate(shown)) == {"0"}
    page.locator("fieldset[data-dimension=group]").last.locator("label").nth(3).click()
    settled(page)
    assert set(page.evaluate(shown)) == {"3"}
    drawn = "document.querySelector('[data-chart=energy-by-kind]').dataset.shown"
    until(page, lambda: page.evaluate(drawn) == "3")
    assert wrong == []
    page.close()
