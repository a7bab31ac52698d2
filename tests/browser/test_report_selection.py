"""Highlighting, the table and the downloads of the report in a real browser."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browsing import opened
from controlled_pages import EVIL, GRADES, NOT_DRAWN, RETURN, choose_view, open_drawn, table_behind, views_of
from impact_builder import HEADS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser


def _rows(page: Page, of: str = ".picked") -> list[str]:
    rows: list[str] = page.evaluate(
        "of => [...document.querySelectorAll(`#component-table tbody tr${of}`)].map(row => row.dataset.kind)", of
    )
    return rows


def _faded(page: Page, name: str, count: str = "some") -> bool:
    """Wait until some (or ``none``) of a chart's boxes recede; return whether it came to that."""
    marks = (
        "name => [...document.querySelectorAll(`#${name} svg .mark-rect path`)]"
        ".map(mark => mark.getAttribute('opacity'))"
    )
    for _ in range(2000):
        faded = [one for one in page.evaluate(marks, name) if one is not None and float(one) < 0.3]
        if bool(faded) == (count == "some"):
            return True
        page.wait_for_timeout(30)
    return False


def test_a_click_on_a_mark_highlights_its_kind_everywhere(browser: Browser, reports: dict[str, Path]) -> None:
    """WHEN a bar is clicked, THEN other marks recede in all charts, and rows are marked; Escape takes it back."""
    page, wrong = open_drawn(browser, reports["fine"])
    bar = page.locator("#energy-by-kind svg .mark-rect path").first
    bar.scroll_into_view_if_needed()
    bar.click()
    kind = page.input_value("#pick-kind")
    assert kind
    assert set(_rows(page)) == {kind}
    assert len(_rows(page)) == _rows(page, "").count(kind)
    assert (page.text_content("#picked") or "").endswith(f"rows: {kind}")
    assert all(_faded(page, name) for name in ("energy-by-kind", "energy-flow", "energy-icicle"))
    page.keyboard.press("Escape")
    assert _rows(page) == []
    assert page.input_value("#pick-kind") == ""
    assert all(_faded(page, name, "none") for name in ("energy-by-kind", "energy-flow", "energy-icicle"))
    bar.click()
    assert set(_rows(page)) == {kind}
    bar.click()
    assert _rows(page) == []
    assert wrong == []
    page.close()


def test_a_row_is_chosen_from_the_keyboard(browser: Browser, reports: dict[str, Path]) -> None:
    """WHEN arrow keys and Enter choose a row, THEN its component is highlighted, and said to be pressed."""
    page, _ = open_drawn(browser, reports["fine"])
    assert page.locator("#component-table button.pick[tabindex='0']").count() == 1
    page.focus("#component-table button.pick")
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    chosen = page.evaluate("document.activeElement.closest('tr').dataset.component")
    assert page.locator("#component-table tr.picked").count() == 1
    assert page.get_attribute("#component-table tr.picked", "data-component") == chosen
    assert page.locator("button.pick[aria-pressed=true]").count() == 1
    assert page.input_value("#pick-component") == chosen
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.closest('tr').rowIndex") == 48
    page.click("#pick-clear")
    assert page.locator("tr.picked, button.pick[aria-pressed=true]").count() == 0
    page.close()


def test_the_bar_chooses_a_kind_and_then_a_component(browser: Browser, reports: dict[str, Path]) -> None:
    """WHEN a reader chooses norms in the bar and one of them, THEN all and then that one stand out."""
    page, _ = open_drawn(browser, reports["fine"])
    page.select_option("#pick-kind", "norm")
    assert set(_rows(page)) == {"norm"}
    options = page.locator("#pick-component option").all_text_contents()
    assert len(options) == len(_rows(page)) + 1
    page.select_option("#pick-component", options[2])
    assert page.locator("tr.picked").count() == 1
    assert page.get_attribute("tr.picked", "data-component") == options[2]
    page.select_option("#pick-kind", "glue")
    assert _rows(page) == []
    assert _faded(page, "energy-by-kind")
    page.close()


def test_what_is_drawn_later_knows_the_highlight(browser: Browser, reports: dict[str, Path]) -> None:
    """GIVEN a highlight, WHEN charts are drawn again or shown first, THEN they have it."""
    page, wrong = open_drawn(browser, reports["inference"], color_scheme="light")
    page.select_option("#pick-kind", "norm")
    page.emulate_media(color_scheme="dark")
    page.wait_for_selector("#energy-flow [data-drawn=dark]")
    assert _faded(page, "energy-flow")
    page.click("#moments label:has-text('Decode at 1,024')")
    page.locator("#scene-decode-1024-energy-by-kind").scroll_into_view_if_needed()
    assert _faded(page, "scene-decode-1024-energy-by-kind")
    assert wrong == []
    page.close()


def _picked(page: Page) -> list[str]:
    """Return the components of the table's highlighted rows."""
    found: list[str] = page.evaluate(
        "[...document.querySelectorAll('#component-table tr.picked')].map(row => row.dataset.component)"
    )
    return found


def _standing_out(page: Page, name: str, marks: str) -> set[str]:
    """Return what a chart's marks that do not recede are of, once others do; its legend's are of nothing."""
    read = (
        "([name, marks]) => [...document.querySelectorAll(`#${name} svg ${marks} path`)].map(mark => "
        "[mark.__data__.datum.name, mark.getAttribute('opacity') ?? 1])"
    )
    for _ in range(2000):
        found = [(of, float(opacity) > 0.3) for of, opacity in page.evaluate(read, [name, marks]) if of]
        if not all(full for _, full in found):
            return {of for of, full in found if full}
        page.wait_for_timeout(30)
    pytest.fail(f"no mark of {name} recedes")


def _click(page: Page, name: str, marks: str, of: str) -> None:
    """Click a chart's first mark of a name."""
    page.locator(f"#{name}").scroll_into_view_if_needed()
    at = page.evaluate(
        "([name, marks, of]) => [...document.querySelectorAll(`#${name} svg ${marks} path`)]"
        ".findIndex(mark => mark.__data__.datum.name === of)",
        [name, marks, of],
    )
    beside = {"x": 5, "y": 5}  # a dot may lie on the middle of a cell
    page.locator(f"#{name} svg {marks} path").nth(at).click(position=beside)


def test_a_head_highlights_its_attention(browser: Browser, reports: dict[str, Path]) -> None:
    """WHEN a head of layer 1 is clicked, THEN the attention of layer 1 stands out everywhere, with its heads."""
    page, wrong = open_drawn(browser, reports["together"])
    heads = {layer: {f"transformer.h.{layer}.attn.head.{head}" for head in range(HEADS)} for layer in range(3)}
    _click(page, "impact-heads", ".mark-rect", "transformer.h.1.attn.head.1")
    assert _picked(page) == ["transformer.h.1.attn"]
    assert page.input_value("#pick-component") == "transformer.h.1.attn"
    assert _standing_out(page, "impact-heads", ".mark-rect") == heads[1]
    assert _faded(page, "energy-icicle")
    page.keyboard.press("Escape")
    page.select_option("#pick-kind", "attention")
    page.select_option("#pick-component", "transformer.h.2.attn")
    assert _standing_out(page, "impact-heads", ".mark-rect") == heads[2]
    assert wrong == []
    page.close()


def test_a_kind_removed_together_highlights_its_components(browser: Browser, reports: dict[str, Path]) -> None:
    """WHEN the mark of the first norms is clicked, or the bar chooses them, THEN these stand out and no others."""
    page, wrong = open_drawn(browser, reports["together"])
    norms = [f"transformer.h.{layer}.ln_1" for layer in range(3)]
    _click(page, "impact-together", ".mark-symbol", "norm (ln_1)")
    for _ in range(2):
        assert _picked(page) == norms
        assert _standing_out(page, "impact-together", ".mark-symbol") == {"norm (ln_1)"}
        assert _faded(page, "energy-heatmap")
        page.keyboard.press("Escape")
        page.select_option("#pick-kind", "norm")
        page.select_option("#pick-component", "norm (ln_1) in all layers")
    page.select_option("#pick-component", "transformer.h.2.ln_2")
    assert _standing_out(page, "impact-together", ".mark-symbol") == {"norm (ln_2)"}
    _click(page, "impact-together", ".mark-symbol", "mlp")
    assert set(_rows(page)) == {"mlp"}
    assert (page.input_value("#pick-kind"), page.input_value("#pick-component")) == ("mlp", "")
    assert wrong == []
    page.close()


def test_a_pair_highlights_its_two_layers(browser: Browser, reports: dict[str, Path]) -> None:
    """WHEN a pair of layers is clicked, or chosen in the bar, THEN both stand out; one layer has its pairs."""
    page, wrong = open_drawn(browser, reports["together"])
    _click(page, "impact-layer-pairs", ".mark-rect", "layers 0 and 1")
    for _ in range(2):
        assert _picked(page) == ["transformer.h.0", "transformer.h.1"]
        assert _standing_out(page, "impact-layer-pairs", ".mark-rect") == {"layer 0", "layer 1", "layers 0 and 1"}
        assert _faded(page, "energy-by-layer")
        assert (page.text_content("#picked") or "").endswith("rows: layers 0 and 1")
        page.keyboard.press("Escape")
        page.select_option("#pick-kind", "layer")
        page.select_option("#pick-component", "layers 0 and 1")
    _click(page, "impact-layer-pairs", ".mark-rect", "layer 1")
    assert _picked(page) == ["transformer.h.1"]
    assert _standing_out(page, "impact-layer-pairs", ".mark-rect") == {"layer 1", "layers 0 and 1"}
    assert wrong == []
    page.close()


def _downloaded(page: Page, selector: str) -> tuple[str, str]:
    with page.expect_download() as waiting:
        page.click(selector)
    return waiting.value.suggested_filename, Path(waiting.value.path()).read_bytes().decode("utf-8")


FILES = ["per_layer_energy.csv", "prediction_impact.csv", "run.json"]


def test_downloads_hold_the_files_of_the_run(browser: Browser, reports: dict[str, Path]) -> None:
    """Each file comes out of the page byte for byte, and a table's JSON holds the same values by column."""
    page, wrong = open_drawn(browser, reports["fine"])
    folder = reports["fine"].parent
    there = [name for name in (*FILES, "energy_impact_merged.csv") if (folder / name).exists()]
    assert set(FILES) <= set(there)
    for name in there:
        form = Path(name).suffix.removeprefix(".")
        suggested, content = _downloaded(page, f"button[data-file='{name}'][data-format={form}]")
        assert suggested == f"fine-{name}" or suggested.endswith(f"-{name}")
        assert content == (folder / name).read_text(encoding="utf-8")
    _, content = _downloaded(page, "button[data-file='per_layer_energy.csv'][data-format=json]")
    source = list(csv.DictReader((folder / "per_layer_energy.csv").open(encoding="utf-8")))
    records = json.loads(content)
    assert len(records) == len(source)
    for record, row in zip(records, source, strict=True):
        assert list(record) == list(row)
        assert all(_same(record[column], cell) for column, cell in row.items())
    assert isinstance(records[0]["energy_mj"], float)
    assert isinstance(records[0]["reused"], bool)
    assert any(record["reasons"] == 'half-width 4 %, "wide"; a clock, 1 % off' for record in records)
    assert wrong == []
    page.close()


def _same(value: object, cell: str) -> bool:
    """Whether a value of JSON is what a cell of CSV says."""
    if value is None or isinstance(value, bool):
        return cell == ("" if value is None else str(value))
    return float(cell) == value if isinstance(value, int | float) else cell == value


def test_a_chart_gives_its_table(browser: Browser, reports: dict[str, Path]) -> None:
    """WHEN a reader downloads the numbers behind a chart, THEN the file holds the table that is shown."""
    page, _ = open_drawn(browser, reports["fine"])
    for key in ("", "dynamic"):
        choose_view(page, "energy-by-kind", key)
        if not key:
            page.click("#energy-by-kind summary")
        name, content = _downloaded(page, "#energy-by-kind button.save-table")
        assert name.endswith(f"energy-by-kind{'-' if key else ''}{key}.csv")
        assert list(csv.reader(io.StringIO(content))) == table_behind(page, "energy-by-kind")
    page.close()


def test_a_run_of_a_benchmark_gives_its_trials(browser: Browser, reports: dict[str, Path]) -> None:
    """GIVEN a run without a profile, THEN all numbers are there to download, and no highlight is offered."""
    page, _ = open_drawn(browser, reports["benchmark"])
    _, content = _downloaded(page, "button[data-file='benchmark_results.csv'][data-format=csv]")
    assert content == (reports["benchmark"].parent / "benchmark_results.csv").read_text(encoding="utf-8")
    assert page.query_selector("#picker") is None
    page.close()


def test_the_table_filters_by_kind_and_quality_and_words(browser: Browser, reports: dict[str, Path]) -> None:
    """WHEN a reader narrows the table in three ways at once, THEN exactly the rows that fit all are left."""
    page, _ = open_drawn(browser, reports["fine"])
    page.select_option("select[data-filters=kind]", "norm")
    page.select_option("select[data-filters=quality]", "B")
    page.fill("#filter", "ln_")
    left = page.evaluate(
        "[...document.querySelectorAll('#component-table tbody tr:not([hidden])')]"
        ".map(row => [row.dataset.kind, row.dataset.quality, row.dataset.component])"
    )
    assert left
    assert all(kind == "norm" and grade == "B" and "ln_" in name for kind, grade, name in left)
    assert page.inner_text("#filtered") == f"{len(left)} of 48 rows"
    page.close()


def test_grades_sort_from_the_best_to_invalid(browser: Browser, reports: dict[str, Path]) -> None:
    """WHEN the table is sorted by quality, THEN A comes before B, C and invalid, and the other way round."""
    page, _ = open_drawn(browser, reports["fine"])
    for direction in (1, -1):
        page.click("#component-table thead button:has-text('Quality')")
        grades = page.evaluate(
            "[...document.querySelectorAll('#component-table tbody tr')].map(row => row.dataset.quality)"
        )
        assert grades == sorted(grades, key=lambda grade: direction * GRADES.index(grade))
        assert len(set(grades)) == len(GRADES)
    page.close()


def test_columns_are_chosen_and_fit_a_desktop(browser: Browser, reports: dict[str, Path]) -> None:
    """GIVEN 1280 px, THEN the table does not scroll sideways until a reader asks for more columns."""
    for name in ("fine", "inference"):
        page, _ = open_drawn(browser, reports[name], viewport={"width": 1280, "height": 900})
        beyond = (
            "(() => {const room = document.querySelector('.tall'); return room.scrollWidth - room.clientWidth})()"
        )
        assert page.evaluate(beyond) <= 0, name
        assert not page.is_visible("#component-table th:has-text('pJ/FLOP')")
        page.click("#columns label:has-text('Work')")
        assert page.is_visible("#component-table th:has-text('pJ/FLOP')")
        assert page.evaluate(beyond) > 0, name
        page.close()


def test_on_a_phone_the_component_stays_in_sight(browser: Browser, reports: dict[str, Path]) -> None:
    """GIVEN 360 px, WHEN the table is scrolled sideways, THEN its first column stays where it is."""
    page, _ = open_drawn(browser, reports["fine"], viewport={"width": 360, "height": 800})
    left = "document.querySelector('#component-table tbody th').getBoundingClientRect().left"
    before = page.evaluate(left)
    page.evaluate("document.querySelector('.tall').scrollLeft = 200")
    assert page.evaluate(left) == pytest.approx(before, abs=1.5)
    width = page.evaluate("document.querySelector('#component-table tbody th').getBoundingClientRect().width")
    assert width < 180
    page.close()


def test_the_tab_key_reaches_a_filtered_table(browser: Browser, reports: dict[str, Path]) -> None:
    """GIVEN a filter that hides the row at which the Tab key stops, THEN it stops at one that is left."""
    page, _ = open_drawn(browser, reports["fine"])
    stops = "[...document.querySelectorAll('button.pick')].filter(one => one.tabIndex === 0)"
    first = page.evaluate(f"{stops}.map(one => one.textContent)")
    for word, left in (("lm_head", 1), ("no such row", 0), ("mlp", 1), ("", 1)):
        page.fill("#filter", word)
        assert page.evaluate(f"{stops}.filter(one => one.offsetParent !== null).length") == left, word
        assert page.evaluate(f"{stops}.length") == left, word
    page.fill("#filter", "norm")
    page.focus("#filter")
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('button.pick')"):
            break
    assert "norm" in page.evaluate("document.activeElement.closest('tr').textContent")
    assert first != page.evaluate(f"{stops}.map(one => one.textContent)")
    page.close()


def test_a_pick_shows_the_first_row_of_a_sorted_table(browser: Browser, reports: dict[str, Path]) -> None:
    """GIVEN rows sorted the other way round, WHEN a kind is picked, THEN its first row is in sight."""
    page, _ = open_drawn(browser, reports["fine"])
    for _ in range(2):
        page.click("#component-table th:first-child button")
    page.select_option("#pick-kind", "mlp.up")
    top, room = page.evaluate(
        "[document.querySelector('#component-table tr.picked'), document.querySelector('.tall')]"
        ".map(one => one.getBoundingClientRect().top)"
    )
    assert 0 <= top - room < 100
    page.close()


def test_a_large_page_draws_what_is_near_first(browser: Browser, reports: dict[str, Path]) -> None:
    """GIVEN 80 layers of 13 components, THEN the page is below 4 MB, and every chart is drawn in the end."""
    assert reports["large"].stat().st_size < 4_000_000
    page, wrong = opened(browser, reports["large"])
    page.wait_for_selector(NOT_DRAWN, state="detached", timeout=300_000)
    assert page.query_selector(".failed") is None
    assert wrong == []
    page.close()


def test_names_stay_names(browser: Browser, reports: dict[str, Path]) -> None:
    """GIVEN hostile component names, WHEN they are chosen, switched and saved, THEN they are text everywhere."""
    page, wrong = open_drawn(browser, reports["hostile"])
    page.select_option("#pick-kind", "mlp")
    names = page.locator("#pick-component option").all_text_contents()
    assert any(EVIL in name for name in names)
    page.select_option("#pick-component", next(name for name in names if EVIL in name))
    assert page.locator("tr.picked").count() == 1
    for name, views in views_of(page).items():
        for key in views:
            choose_view(page, name, key)
    _, content = _downloaded(page, "button[data-file='per_layer_energy.csv'][data-format=csv]")
    assert EVIL in content
    assert page.evaluate("window.hacked") is None
    assert wrong == []
    page.close()


def test_a_carriage_return_in_a_name_ends_no_row(browser: Browser, reports: dict[str, Path]) -> None:
    """GIVEN names with a lone carriage return, THEN both files have a row a component, and rows their names."""
    page, wrong = open_drawn(browser, reports["hostile"])
    rows = len(_rows(page, ""))
    _, content = _downloaded(page, "button[data-file='per_layer_energy.csv'][data-format=csv]")
    named = [row["component"] for row in csv.DictReader(io.StringIO(content, newline=""))]
    assert len(named) == rows
    _, content = _downloaded(page, "button[data-file='per_layer_energy.csv'][data-format=json]")
    assert [record["component"] for record in json.loads(content)] == named
    returned = {name for name in named if RETURN in name}
    assert returned
    assert returned <= set(
        page.evaluate(
            "[...document.querySelectorAll('#component-table tbody tr')].map(row => row.dataset.component)"
        )
    )
    assert wrong == []
    page.close()
