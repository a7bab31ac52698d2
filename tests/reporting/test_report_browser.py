"""The report in a real browser, as a reader would use it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from benchmark_builder import PRECISIONS, Bench
from browsing import opened
from generation_builder import Inference, build_inference
from run_builder import Shape, build_run

from energyscope.reporting.html import write_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

NOT_DRAWN = "[data-chart]:not([data-drawn]):not(.failed)"  # a selector, since the page forbids eval


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    hostile = Shape(rename=lambda name: name.replace("mlp", "</script><script>window.hacked=1</script>"))
    precisions = Bench(precisions=tuple(PRECISIONS), metric="accuracy", batch_sizes=(1, 8), no_energy=("nf4",))
    runs = {
        "benchmark": build_run(folder / "benchmark", Shape(layers=1, impact=False, benchmark=precisions)),
        "fine": build_run(folder / "fine"),
        "modelled": build_run(
            folder / "modelled", Shape(modelled=True, granularity="medium", unexplained_share=-0.05)
        ),
        "large": build_run(folder / "large", Shape(layers=80, impact=False)),
        "old": build_run(folder / "old", Shape(old=True, impact=False)),
        "graph": build_run(folder / "graph", Shape(execution="cuda-graph", impact=False)),
        "one-layer": build_run(folder / "one-layer", Shape(layers=1, granularity="coarse", impact=False)),
        "hostile": build_run(folder / "hostile", hostile, model={"name": "<img src=x onerror='window.hacked=1'>"}),
        "inference": build_inference(folder / "inference"),
        "inference-modelled": build_inference(folder / "inference-modelled", Inference(layers=4, modelled=True)),
    }
    return {name: write_report(run.path) for name, run in runs.items()}


def _open(browser: Browser, report: Path, **context: Any) -> tuple[Page, list[str]]:
    """Open a page with its charts drawn, those of every moment, and return it with what went wrong."""
    page, wrong = opened(browser, report, **context)
    if page.is_visible("#moments"):
        page.click("#moments label:first-of-type")
    page.wait_for_selector(NOT_DRAWN, state="detached", timeout=300_000)
    return page, wrong


@pytest.mark.parametrize(
    "name",
    [
        "fine",
        "modelled",
        "large",
        "one-layer",
        "hostile",
        "old",
        "graph",
        "benchmark",
        "inference",
        "inference-modelled",
    ],
)
def test_every_chart_draws_without_an_error_or_a_request(
    browser: Browser, reports: dict[str, Path], name: str
) -> None:
    """GIVEN any run, THEN each chart holds drawn marks, the console stays silent and nothing leaves the page."""
    page, wrong = _open(browser, reports[name])
    places = page.query_selector_all("[data-chart]")
    assert places
    for place in places:
        assert len(place.query_selector_all("svg .mark-rect path, svg .mark-symbol path, svg .mark-rule line")) > 0
    assert page.evaluate("window.hacked") is None
    assert wrong == []
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_pages_fit_the_window(browser: Browser, reports: dict[str, Path], scheme: str, width: int) -> None:
    """GIVEN a phone or a desktop, THEN the page itself never scrolls sideways; wide charts and tables do."""
    for name in ("fine", "large", "hostile", "benchmark", "inference"):
        page, _ = _open(browser, reports[name], viewport={"width": width, "height": 800}, color_scheme=scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.get_attribute("[data-chart]", "data-drawn") == scheme
        page.close()


@pytest.mark.parametrize(("width", "columns"), [(390, 1), (800, 2), (1280, 3)])
def test_the_panels_of_the_benchmark_fit_the_window(
    browser: Browser, reports: dict[str, Path], width: int, columns: int
) -> None:
    """GIVEN a phone, a tablet or a desktop, THEN the six panels stand in as many columns as there is room for."""
    page, _ = _open(browser, reports["benchmark"], viewport={"width": width, "height": 800})
    lefts = page.evaluate(
        "[...document.querySelectorAll('#benchmark .panels')[0].children]"
        ".map(one => Math.round(one.getBoundingClientRect().left))"
    )
    assert len(lefts) == 6
    assert len(set(lefts)) == columns
    page.close()


def test_a_reader_finds_each_moment(browser: Browser, reports: dict[str, Path]) -> None:
    """GIVEN several moments, WHEN a reader follows a line of their table, THEN that moment's part is in sight."""
    page, _ = _open(browser, reports["inference"], viewport={"width": 390, "height": 800})
    page.emulate_media(reduced_motion="reduce")
    page.click("#profile .scenes a:has-text('1,024 tokens')")
    top = page.evaluate("document.getElementById('scene-decode-1024').getBoundingClientRect().top")
    assert -5 <= top < 400
    page.close()


def test_folded_moments_open(browser: Browser, reports: dict[str, Path]) -> None:
    """WHEN a reader opens a further context below the efficiency, THEN its table is in sight."""
    page, _ = _open(browser, reports["inference"])
    folded = page.locator("#efficiency details:has-text('8,192 tokens in the cache')").first
    assert not folded.locator("table").is_visible()
    folded.locator("summary").click()
    assert folded.locator("table").is_visible()
    page.close()


def test_tokens_and_phases_are_marked_in_the_close_up(browser: Browser, reports: dict[str, Path]) -> None:
    """The traced generation that is shown larger has a stroke for each of its 128 tokens, and both phases."""
    page, _ = _open(browser, reports["inference"])
    assert page.locator("#generation-power-close svg .mark-rule.role-mark line").count() == 128
    assert page.locator("#generation-power-close svg .mark-rect.role-mark path").count() == 2
    assert page.locator("#generation-power-trace svg .mark-rect.role-mark path").count() == 18
    page.close()


def test_charts_follow_the_colour_scheme(browser: Browser, reports: dict[str, Path]) -> None:
    """WHEN the reader switches to dark, THEN the charts are drawn again with light ink."""
    page, wrong = _open(browser, reports["fine"], color_scheme="light")
    ink = "getComputedStyle([...document.querySelectorAll('#energy-flow .mark-text text')].at(-1)).fill"
    before = page.evaluate(ink)
    page.emulate_media(color_scheme="dark")
    page.wait_for_selector("[data-chart]:not([data-drawn=dark])", state="detached")
    assert page.evaluate(ink) != before
    assert wrong == []
    page.close()


def test_the_table_sorts_and_filters(browser: Browser, reports: dict[str, Path]) -> None:
    """WHEN a reader sorts by energy and filters by kind, THEN the rows follow."""
    page, _ = _open(browser, reports["fine"])
    energies = (
        "[...document.querySelectorAll('#component-table tbody tr')].map(row => Number(row.cells[3].dataset.n))"
    )
    page.click("#component-table th button:has-text('Energy')")
    values = page.evaluate(energies)
    assert values == sorted(values, reverse=True)
    page.click("#component-table th button:has-text('Energy')")
    assert page.evaluate(energies) == sorted(values)
    page.fill("#filter", "mlp.up")
    assert page.evaluate("document.querySelectorAll('#component-table tbody tr:not([hidden])').length") == 4
    assert page.inner_text("#filtered") == "4 of 48 rows"
    page.close()


def test_the_price_of_a_flop_sorts_with_what_has_none_last(browser: Browser, reports: dict[str, Path]) -> None:
    """WHEN a reader sorts by pJ/FLOP in either direction, THEN the rows without matrix work stay last."""
    page, _ = _open(browser, reports["fine"])
    page.click("#columns label:has-text('Work and its price')")
    prices = (
        "[...document.querySelectorAll('#component-table tbody tr')].map(row => "
        "row.cells[[...row.parentNode.parentNode.tHead.rows[0].cells].findIndex("
        "cell => cell.textContent === 'pJ/FLOP')].dataset.n)"
    )
    for direction in (-1, 1):
        page.click("#component-table th button:has-text('pJ/FLOP')")
        found = page.evaluate(prices)
        known = [float(price) for price in found if price]
        assert known == sorted(known, reverse=direction < 0)
        assert found[: len(known)] == [price for price in found if price]
        assert len(known) < len(found)
    page.close()


def test_sorting_works_from_the_keyboard(browser: Browser, reports: dict[str, Path]) -> None:
    """WHEN a header's button has the focus and Enter is pressed, THEN the table sorts and says how."""
    page, _ = _open(browser, reports["fine"])
    page.focus("#component-table th button:has-text('Kind')")
    page.keyboard.press("Enter")
    assert page.get_attribute("#component-table thead th:nth-child(2)", "aria-sort") == "ascending"
    page.close()


def test_charts_have_a_text_alternative(browser: Browser, reports: dict[str, Path]) -> None:
    """Each chart is an image with a sentence, and the numbers are in a table beside it."""
    page, _ = _open(browser, reports["fine"])
    for place in page.query_selector_all("[data-chart]"):
        assert place.get_attribute("role") == "img"
        assert len(place.get_attribute("aria-label") or "") > 30
        assert (
            place.evaluate("place => place.closest('figure').querySelectorAll('details table tbody tr').length")
            > 0
        )
    page.close()


def test_it_prints(browser: Browser, reports: dict[str, Path]) -> None:
    """GIVEN a reader who prints, THEN a PDF of a few pages comes out."""
    for name, most in (("fine", 20), ("inference", 40)):
        page, wrong = _open(browser, reports[name], color_scheme="dark")
        pdf = page.pdf(format="A4")
        assert pdf.startswith(b"%PDF")
        assert 3 <= pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") <= most
        assert wrong == []
        page.close()
