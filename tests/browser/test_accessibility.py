"""Every sort of page, with its folds open: judged by axe-core, light and dark; contrasts; the keyboard."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from browsing import opened, unfold
from page_gallery import OTHERS, REPORTS, Gallery

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
PAGES = [name for name in (*REPORTS, *OTHERS) if not name.startswith("deep")]
SIX_LAWS = pytest.param("six-laws", marks=pytest.mark.ci)  # takes most of a minute; "laws" has the same parts
# axe cannot tell the contrast on a gradient; without the shadows of what scrolls it judges all text.
PLAIN = "*{background-image:none!important}"
# Of each text in a chart (the halos around some aside): its colour, how opaque it is, the colours and opacities of
# the marks that it stands on, the nearest first, and the chart.
LETTERS = """
const FILLED = ':not(.mark-symbol, .background) > path[fill]:not([fill=none], [fill=transparent], .background)';
[...document.querySelectorAll('[data-chart] svg')].flatMap(chart => {
  const letters = [...chart.querySelectorAll('text')].filter(one => {
    return one.textContent.trim() && ['none', 'transparent'].includes(getComputedStyle(one).stroke);
  });
  const ink = (one) => {
    const style = getComputedStyle(one);
    return [style.fill, Number(style.opacity) * Number(style.fillOpacity)];
  };
  return letters.map(one => {
    one.scrollIntoView({ block: 'center', inline: 'center', behavior: 'instant' });
    const box = one.getBoundingClientRect();
    const below = document.elementsFromPoint(box.x + box.width / 2, box.y + box.height / 2);
    const marks = below.filter(other => other.closest('svg') === chart && other.matches(FILLED));
    return [...ink(one), marks.map(ink), one.closest('[data-chart]').dataset.chart];
  });
})
"""
# The lines that show intervals: colour, opacity and chart of each.
RANGES = """
[...document.querySelectorAll('[data-chart] svg .mark-rule.role-mark line')].map(line => {
  const { stroke, opacity, strokeOpacity } = getComputedStyle(line);
  return [stroke, Number(opacity) * Number(strokeOpacity), line.closest('[data-chart]').dataset.chart];
}).filter(([stroke]) => stroke !== 'none')
"""
# What scrolls sideways but can neither have the focus nor be announced.
SILENT = """
[...document.querySelectorAll('body *')].filter(one => one.scrollWidth > one.clientWidth + 1
    && ['auto', 'scroll'].includes(getComputedStyle(one).overflowX)
    && !one.querySelector('a, button, [tabindex="0"]'))
  .filter(one => one.tabIndex !== 0 || !one.getAttribute('aria-label')).map(one => one.outerHTML.slice(0, 99))
"""
# What can be clicked: of a switch the choice that is on, of a table's rows the first.
CONTROLS = """
window.controls = [...document.querySelectorAll(
    'a[href]:not(.skip), button, summary, input:not([type=radio]), input:checked, tr[tabindex="0"]')]
  .filter(one => one.checkVisibility());
window.controls.length
"""
# Whether something shows that it has the focus: a ring around it, or around the words beside a hidden button.
RING = """() => {
  const one = document.activeElement;
  const shown = one.matches('.switch input') ? one.nextElementSibling : one;
  return [window.controls.indexOf(one), getComputedStyle(shown).outlineStyle !== 'none'];
}"""


def _judged(page: Page) -> list[str]:
    """Return what axe-core finds, a line for each sort of finding."""
    from axe_playwright_python.sync_playwright import Axe

    response = Axe().run(page, options={"runOnly": RULES, "resultTypes": ["violations"]}).response
    return [
        f"{finding['impact']} {finding['id']}: {finding['nodes'][0]['html'][:200]} (of {len(finding['nodes'])})"
        for finding in response["violations"]
    ]


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.ci)])
@pytest.mark.parametrize("name", [*(name for name in PAGES if name != "six-laws"), SIX_LAWS])
def test_axe_finds_nothing(browser: Browser, gallery: Gallery, name: str, scheme: Any) -> None:
    """GIVEN any page, everything opened, THEN axe-core has nothing to say of it, light or dark."""
    page, _ = opened(browser, gallery[name], color_scheme=scheme, bypass_csp=True)
    page.add_style_tag(content=PLAIN)
    unfold(page)
    assert _judged(page) == []
    page.close()


def test_axe_would_find_something(browser: Browser, gallery: Gallery) -> None:
    """GIVEN a page that was made worse, THEN the pass fails: what it says is not empty by accident."""
    page, _ = opened(browser, gallery["bare"], bypass_csp=True)
    page.evaluate("document.querySelector('h1').outerHTML = '<h1></h1><img src=\"data:,\"><button></button>'")
    page.add_style_tag(content=".answer{color:#ccc!important;background:#fff;font-size:12px}")
    violations = " ".join(_judged(page))
    assert all(rule in violations for rule in ("color-contrast", "image-alt", "button-name"))
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["fine", "executions", "benchmark", "comparison", "six-laws"])
def test_charts_stand_out(browser: Browser, gallery: Gallery, name: str, scheme: Any) -> None:
    """Texts of charts have a contrast of 4.5 to what they stand on, lines of intervals one of 3 (WCAG 2.2)."""
    page, _ = opened(browser, gallery[name], color_scheme=scheme)
    unfold(page)
    paper = _colour(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    letters, ranges = page.evaluate(LETTERS), page.evaluate(RANGES)
    assert letters
    assert ranges
    weak = {
        (chart, fill)
        for fill, opacity, marks, chart in letters
        if _contrast(_colour(fill), opacity, _beneath(marks, paper)) < 4.5
    }
    weak |= {
        (chart, stroke) for stroke, opacity, chart in ranges if _contrast(_colour(stroke), opacity, paper) < 3
    }
    assert weak == set()
    page.close()


def _beneath(marks: list[tuple[str, float]], paper: tuple[float, ...]) -> tuple[float, ...]:
    """Return the colour that the marks make on paper; the last mark lies lowest."""
    seen = paper
    for fill, opacity in reversed(marks):
        seen = _over(_colour(fill), opacity, seen)
    return seen


def _over(ink: tuple[float, ...], opacity: float, paper: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(opacity * above + (1 - opacity) * below for above, below in zip(ink, paper, strict=True))


def _colour(written: str) -> tuple[float, ...]:
    """Read ``rgb(1, 2, 3)``."""
    return tuple(float(part) for part in written[written.index("(") + 1 : -1].split(",")[:3])


def _contrast(ink: tuple[float, ...], opacity: float, paper: tuple[float, ...]) -> float:
    """Return the contrast ratio of ink on paper (WCAG 2.2)."""
    light, dark = sorted((_luminance(_over(ink, opacity, paper)), _luminance(paper)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: tuple[float, ...]) -> float:
    """Return the relative luminance of a colour (WCAG 2.2)."""
    shares = [part / 255 for part in colour]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("name", ["inference", "comparison", "laws", SIX_LAWS])
def test_the_keyboard_reaches_everything(browser: Browser, gallery: Gallery, name: str) -> None:
    """GIVEN a phone, THEN Tab leads to every control, which shows the focus, and what scrolls can have it."""
    page, _ = opened(browser, gallery[name], viewport={"width": 360, "height": 800})
    unfold(page)
    assert page.evaluate(SILENT) == []
    wanted = set(range(page.evaluate(CONTROLS)))
    reached = set()
    for _ in range(page.evaluate("document.querySelectorAll('a, button, summary, input, [tabindex]').length")):
        page.keyboard.press("Tab")
        control, ringed = page.evaluate(RING)
        reached |= {control} if ringed else set()
    assert wanted - reached == set()
    page.close()


def test_arrows_switch(browser: Browser, gallery: Gallery) -> None:
    """GIVEN the focus on a switch, WHEN an arrow is pressed, THEN the next choice is shown and has the focus."""
    page, wrong = opened(browser, gallery["inference"])
    page.locator("fieldset[data-dimension=phase] input:checked").first.focus()
    page.keyboard.press("ArrowRight")
    shown = (
        "[...document.querySelectorAll('[data-when=phase]')].filter(one => !one.hidden).map(one => one.dataset.is)"
    )
    assert set(page.evaluate(shown)) == {page.evaluate("document.activeElement.value")}
    assert wrong == []
    page.close()


@pytest.mark.parametrize("name", ["fine", "inference", "comparison", "laws", "bare"])
def test_headings_make_an_outline(browser: Browser, gallery: Gallery, name: str) -> None:
    """A page has one first heading, leaves out no level, and each section is named by its heading."""
    page, _ = opened(browser, gallery[name])
    levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3,h4')].map(one => Number(one.tagName[1]))")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    named = page.evaluate(
        "[...document.querySelectorAll('section')].map(one => document.getElementById("
        "one.getAttribute('aria-labelledby') || '')?.tagName)"
    )
    assert set(named) <= {"H2"}
    page.close()
