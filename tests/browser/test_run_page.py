"""What a reader does with the page of a run: read the first screen, switch, highlight, zoom, search, save."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browsing import WORDS, opened, settled, unfold, until
from page_gallery import Gallery

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

DESK, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
EXAMPLES = sorted(Path(__file__).parents[2].glob("reports/*/report.html"))


def drawn(browser: Browser, file: Path, **context: Any) -> tuple[Page, list[str]]:
    """Open a page and wait until its charts are drawn."""
    page, wrong = opened(browser, file, **{"viewport": DESK, **context})
    settled(page)
    return page, wrong


def bottom(page: Page, selector: str) -> float:
    """Return where something ends, in pixels from the top of the page."""
    place: float = page.evaluate(
        "selector => document.querySelector(selector).getBoundingClientRect().bottom + scrollY",
        selector,
    )
    return place


def fits(page: Page, screens: float, words: int) -> None:
    """Assert that a page is no longer than so many screens and visible words."""
    assert page.evaluate("document.documentElement.scrollHeight") <= screens * DESK["height"]
    assert page.evaluate(WORDS) <= words


@pytest.mark.parametrize(
    "name", ["fine", "modelled", "inference", "executions", "benchmark", "only-benchmark", "deep"]
)
def test_the_first_screen_has_the_answer(browser: Browser, gallery: Gallery, name: str) -> None:
    """GIVEN a desk, THEN sentence, numbers, charts and trust line end within the first screen, on a phone two."""
    page, wrong = drawn(browser, gallery[name])
    for part in (".answer", ".stats", ".trust"):
        assert bottom(page, part) <= DESK["height"], part
    assert bottom(page, "main [data-chart]") <= DESK["height"]
    page.set_viewport_size(PHONE)
    settled(page)
    until(page, lambda: bottom(page, "main [data-chart]") <= 2 * PHONE["height"])
    assert bottom(page, ".stats") <= PHONE["height"]
    assert bottom(page, "main [data-chart]") <= 2 * PHONE["height"]
    assert wrong == []
    page.close()


@pytest.mark.parametrize(
    "name", ["fine", "one-layer", "modelled", "executions", "benchmark", "only-benchmark", "cell", "deep"]
)
def test_a_page_of_one_moment_is_six_screens_at_most(browser: Browser, gallery: Gallery, name: str) -> None:
    """GIVEN a synthetic run, THEN its page has at most 6 screens, and 900 words outside folds and tables."""
    page, _ = drawn(browser, gallery[name])
    fits(page, 6, 900)
    page.close()


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.parent.name)
def test_the_committed_pages_are_short(browser: Browser, file: Path) -> None:
    """GIVEN a page of a measured run, THEN it has at most 6 screens and 900 words, of a generation 8 and 1,200."""
    page, wrong = drawn(browser, file)
    generation = (file.parent / "generation.json").is_file()
    fits(page, 8 if generation else 6, 1200 if generation else 900)
    assert wrong == []
    page.close()


@pytest.mark.parametrize("name", ["fine", "inference", "benchmark"])
def test_an_open_section_is_one_screen_at_most(browser: Browser, gallery: Gallery, name: str) -> None:
    """GIVEN sections with their details folded, THEN none is taller than a screen."""
    page, _ = drawn(browser, gallery[name])
    heights = page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('section')].map(one => [one.id, one.offsetHeight]))"
    )
    assert {name: height for name, height in heights.items() if height > DESK["height"]} == {}
    page.close()


def test_one_moment_is_shown_at_a_time(browser: Browser, gallery: Gallery) -> None:
    """GIVEN prefill and decode, WHEN one is chosen, THEN charts, numbers and sentences are its own, everywhere."""
    page, wrong = drawn(browser, gallery["inference"])
    numbers = "document.querySelector('#energy-blocks details table').textContent"
    before = page.evaluate(numbers)
    page.locator("fieldset[data-dimension=phase]").first.locator("label", has_text="Prefill").click()
    settled(page)
    assert page.evaluate(numbers) != before
    shown = page.evaluate(
        "[...document.querySelectorAll('[data-when=phase]')].filter(one => !one.hidden).map(one => one.dataset.is)"
    )
    assert set(shown) == {"prefill"}
    chosen = page.evaluate(
        "[...document.querySelectorAll('fieldset[data-dimension=phase] input:checked')].map(one => one.value)"
    )
    assert set(chosen) == {"prefill"}
    assert len(chosen) == 2  # the switch stands at the top and at the energy
    page.locator("fieldset[data-dimension=phase]").first.locator("label", has_text="Decode").first.click()
    assert page.evaluate(numbers) == before
    assert wrong == []
    page.close()


def views(page: Page) -> set[str]:
    """Return which of their views blocks, flow and layer show."""
    names = ("energy-blocks", "energy-flow", "energy-layer")
    return {page.locator(f"[data-chart={name}]").get_attribute("data-shown") for name in names}


def test_all_work_and_idle_are_three_views(browser: Browser, gallery: Gallery) -> None:
    """GIVEN a measured run, WHEN work or idle is chosen, THEN blocks, flow and layer show it."""
    page, wrong = drawn(browser, gallery["fine"])
    for label, at in (("work", "1"), ("idle", "2"), ("all", "0")):
        page.locator("fieldset[data-dimension=part]").first.locator("label", has_text=label).click()
        until(page, lambda at=at: views(page) == {at})
        assert views(page) == {at}
    assert wrong == []
    page.close()


FAINT = """name => [...document.querySelectorAll(`[data-chart=${name}] svg :is(.mark-rect, .mark-bar) path`)]
  .map(one => Number(one.getAttribute('opacity') ?? 1)).filter(one => one < 0.5).length"""


def test_a_row_highlights_its_component_and_what_it_is_part_of(browser: Browser, gallery: Gallery) -> None:
    """GIVEN a click on a row, THEN charts fade all but its kind, its parents and parts; Escape brings all back."""
    page, wrong = drawn(browser, gallery["fine"])
    unfold(page)
    assert page.evaluate(FAINT, "energy-layer") == 0
    row = page.locator("#table-energy tbody tr[data-kind='mlp.up']").first
    row.click()
    until(page, lambda: page.evaluate(FAINT, "energy-layer") > 0)
    lit = page.evaluate(
        "[...document.querySelectorAll('[data-chart=energy-layer] svg .mark-rect path')]"
        ".filter(one => Number(one.getAttribute('opacity') ?? 1) > 0.5).length"
    )
    assert lit == 3  # the layer, its MLP, and the projection
    assert page.locator("tr.lit").count() > 0
    page.keyboard.press("Escape")
    until(page, lambda: page.evaluate(FAINT, "energy-layer") == 0)
    assert page.locator("tr.lit").count() == 0
    assert wrong == []
    page.close()


def test_a_click_on_a_part_of_a_layer_zooms_into_it(browser: Browser, gallery: Gallery) -> None:
    """GIVEN the layer's strip, WHEN a block is clicked, THEN it takes the width; Escape shows the whole again."""
    page, wrong = drawn(browser, gallery["fine"])
    widths = (
        "[...document.querySelectorAll('[data-chart=energy-layer] svg .mark-rect path')]"
        ".map(one => one.getBoundingClientRect().width)"
    )
    before = page.evaluate(widths)
    page.locator("[data-chart=energy-layer] svg .mark-rect path").nth(1).click(position={"x": 12, "y": 12})
    until(page, lambda: page.evaluate(widths)[1] > 1.2 * before[1])
    assert page.evaluate(widths)[1] > 1.2 * before[1]
    page.keyboard.press("Escape")
    until(page, lambda: page.evaluate(widths) == before)
    assert page.evaluate(widths) == before
    assert wrong == []
    page.close()


def test_the_table_is_searched_sorted_and_walked_by_keys(browser: Browser, gallery: Gallery) -> None:
    """GIVEN the table of all components, THEN words filter it, a header sorts by number, arrows walk its rows."""
    page, wrong = drawn(browser, gallery["fine"])
    unfold(page)
    page.fill("input[data-searches]", "mlp.up")
    rows = page.locator("#table-energy tbody tr:visible")
    assert 0 < rows.count() < page.locator("#table-energy tbody tr").count()
    assert all("mlp.up" in text for text in rows.all_text_contents())
    page.fill("input[data-searches]", "")
    page.locator("#table-energy thead th.number button").first.click()
    column = page.evaluate(
        "[...document.querySelector('#table-energy thead tr').cells].findIndex(c => c.ariaSort === 'descending')"
    )
    values = page.evaluate(
        f"[...document.querySelectorAll('#table-energy tbody tr')].map(row => row.cells[{column}].dataset.n)"
        ".filter(Boolean).map(Number)"
    )
    assert values == sorted(values, reverse=True)
    page.locator("#table-energy tbody tr").first.focus()
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement === document.querySelectorAll('#table-energy tbody tr')[1]")
    page.keyboard.press("Enter")
    until(page, lambda: page.locator("tr.lit").count() > 0)
    assert page.locator("tr.lit").count() > 0
    assert wrong == []
    page.close()


def test_files_and_numbers_are_saved_from_the_page(browser: Browser, gallery: Gallery) -> None:
    """GIVEN the page alone, THEN the run's CSV comes out byte by byte, as JSON by rows, and a chart's numbers."""
    file = gallery["fine"]
    page, wrong = drawn(browser, file)
    original = (file.parent / "per_layer_energy.csv").read_text(encoding="utf-8")
    with page.expect_download() as waiting:
        page.click("button[data-file='per_layer_energy.csv'][data-format=csv]")
    assert Path(waiting.value.path()).read_text(encoding="utf-8") == original
    with page.expect_download() as waiting:
        page.click("button[data-file='per_layer_energy.csv'][data-format=json]")
    records = json.loads(Path(waiting.value.path()).read_text(encoding="utf-8"))
    rows = list(csv.DictReader(io.StringIO(original)))
    assert [record["component"] for record in records] == [row["component"] for row in rows]
    assert records[0]["energy_mj"] == pytest.approx(float(rows[0]["energy_mj"]))
    unfold(page)
    with page.expect_download() as waiting:
        page.locator("#energy-blocks button.save-table").click()
    lines = Path(waiting.value.path()).read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1 + page.locator("#energy-blocks details tbody tr").count()
    assert wrong == []
    page.close()


def test_the_first_paint_needs_no_chart(browser: Browser, gallery: Gallery) -> None:
    """GIVEN a page of 80 layers, THEN it is painted before its charts are drawn: words need no script."""
    page = browser.new_page(viewport=DESK)
    page.goto(gallery["deep"].as_uri())
    paint = page.evaluate(
        "new Promise(done => new PerformanceObserver(list => done(list.getEntries()[0].startTime))"
        ".observe({type: 'paint', buffered: true}))"
    )
    script = page.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
    assert paint < script * 1.5
    page.close()
