"""Names and texts from models, data and users are data: nothing of them runs, and none breaks a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from browsing import opened, unfold, until
from page_gallery import HOSTILE, Gallery

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

KINDS = ("report", "comparison", "laws")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("which", HOSTILE)
def test_nothing_runs_and_nothing_breaks(browser: Browser, gallery: Gallery, kind: str, which: str) -> None:
    """GIVEN hostile names, THEN each chart draws silently, nothing runs, and all fits phone and desktop."""
    page, wrong = opened(browser, gallery[f"hostile-{kind}-{which}"], viewport={"width": 1280, "height": 900})
    unfold(page)
    for width in (1280, 360):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("window.hacked") is None
    assert page.locator("[data-chart].failed").count() == 0
    assert page.locator("main img, main script, main b:text-is('</b>')").count() == 0
    assert wrong == []
    page.close()


@pytest.mark.parametrize("which", ["ends-script", "ends-attribute", "markup", "long"])
def test_what_the_script_shows_is_text(browser: Browser, gallery: Gallery, which: str) -> None:
    """GIVEN hostile names, WHEN a row is chosen and a mark is pointed at, THEN the tooltip has no markup."""
    page, wrong = opened(browser, gallery[f"hostile-report-{which}"], viewport={"width": 1280, "height": 900})
    unfold(page)
    page.locator("#table-energy tbody tr", has_text=HOSTILE[which][:9]).first.click()
    assert page.locator("tr.lit").count() > 0
    page.locator("[data-chart=energy-heatmap] svg .mark-rect path[aria-label*='Kind: MLP;']").first.hover()
    page.locator("#vg-tooltip-element.visible", has_text=HOSTILE[which][:9]).wait_for()
    assert page.locator("#vg-tooltip-element :is(img, script, b)").count() == 0
    assert page.evaluate("window.hacked") is None
    assert wrong == []
    page.close()


@pytest.mark.parametrize("name", ["fine", "comparison", "laws"])
def test_the_policy_lets_nothing_in_or_out(browser: Browser, gallery: Gallery, name: str) -> None:
    """GIVEN a script that had got into a page, THEN it would not run, and nothing could be fetched or sent."""
    page, _ = opened(browser, gallery[name])
    page.evaluate(
        "window.blocked = []; document.addEventListener('securitypolicyviolation',"
        " (event) => window.blocked.push(event.effectiveDirective));"
        "const script = document.createElement('script'); script.textContent = 'window.hacked = 1';"
        "document.body.append(script); document.body.insertAdjacentHTML('beforeend',"
        " '<img src=https://example.org/1.png><button onclick=window.hacked=1>x</button>');"
        "document.querySelector('body > button').click(); fetch('https://example.org').catch(() => 0)"
    )
    wanted = {"script-src-elem", "script-src-attr", "img-src", "connect-src"}
    until(page, lambda: wanted <= set(page.evaluate("window.blocked")))
    assert wanted <= set(page.evaluate("window.blocked"))
    assert page.evaluate("window.hacked") is None
    page.close()


@pytest.mark.parametrize("which", ["ends-script", "ends-attribute", "markup", "template", "emoji"])
def test_a_name_is_read_as_it_is(browser: Browser, gallery: Gallery, which: str) -> None:
    """GIVEN a model with a name of markup, THEN the heading and the title show that name letter by letter."""
    page, _ = opened(browser, gallery[f"hostile-report-{which}"])
    assert page.text_content("h1") == HOSTILE[which]
    assert HOSTILE[which] in (page.text_content("#table-energy") or "").replace("\n", "")
    page.close()


def test_a_name_from_right_to_left_turns_nothing_around_it(browser: Browser, gallery: Gallery) -> None:
    """GIVEN a name that turns the direction of writing, THEN the text after it still runs from left to right."""
    page, _ = opened(browser, gallery["hostile-report-right-to-left"])
    turned = page.evaluate(
        """() => {
          const cell = [...document.querySelectorAll('#table-energy tbody tr')].find(
            row => row.cells[0].textContent.includes('\\u202e')).cells[3];
          const range = document.createRange();
          const text = cell.firstChild;
          range.setStart(text, 0); range.setEnd(text, 1);
          const first = range.getBoundingClientRect().left;
          range.setStart(text, text.length - 1); range.setEnd(text, text.length);
          return first < range.getBoundingClientRect().left;
        }"""
    )
    assert turned
    page.close()
