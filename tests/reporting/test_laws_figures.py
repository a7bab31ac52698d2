from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from laws_builder import ONE, SIX, Swept, laws_document

from energyscope.reporting.charts import theme
from energyscope.reporting.laws import names
from energyscope.reporting.laws.efficiency_figures import efficiency_blocks
from energyscope.reporting.laws.held_out_figures import held_out_figure
from energyscope.reporting.laws.law_figures import law_figures
from energyscope.reporting.laws.overview import overview_figure
from energyscope.reporting.laws.page import laws_page
from energyscope.reporting.laws.plot import Dot, Plot, draw
from energyscope.reporting.laws.size_figures import size_blocks
from energyscope.runs.intervals import Interval

CHOSEN = (SIX[0], SIX[1], SIX[3], SIX[4], SIX[5])


def _records(figure: Any) -> list[dict[str, Any]]:
    held = theme.spec(figure.chart)["datasets"].values()
    return [record for values in held for record in values]


def test_every_chart_becomes_a_picture() -> None:
    """GIVEN groups of several kinds, THEN each chart is valid and renders, its table complete."""
    import vl_convert

    drawn = laws_page(laws_document((CHOSEN[1], *CHOSEN[2:])), Path()).figures
    assert len({figure.name for figure in drawn}) == len(drawn)
    for index, figure in enumerate(drawn):
        assert figure.chart.to_dict(validate=True)
        spec = {**theme.spec(figure.chart), "width": 500}
        scheme = ("light", "dark")[index % 2]
        svg = vl_convert.vegalite_to_svg(spec, config=theme.config(scheme), vl_version="6.1")
        assert svg.count("<path") > 3, figure.name
        assert figure.table.rows
        assert all(len(row) == len(figure.table.columns) for row in figure.table.rows)


def test_one_group_has_its_four_charts() -> None:
    """GIVEN one group, THEN energy, residuals, J/FLOP and quotients, one foretelling chart, and no overview."""
    page = laws_page(laws_document(ONE), Path())
    found = [figure.name for figure in page.figures]
    assert found[:4] == ["law-0-energy", "law-0-residuals", "law-0-per-flop", "law-0-marginal"]
    assert "law-0-held-out" in found
    assert "overview" not in found
    assert not any(part.folded for part in page.groups)


def test_groups_beyond_the_main_one_are_folded() -> None:
    """GIVEN three groups, THEN the one with most cells stands open; of two, both do."""
    three = laws_page(laws_document(SIX[:3]), Path())
    assert sum(not part.folded for part in three.groups) == 1
    assert not any(part.folded for part in laws_page(laws_document(SIX[:2]), Path()).groups)


def test_points_of_the_chart_are_the_documents() -> None:
    """GIVEN a cell whose energy was changed by hand, THEN its point is where the document has it."""
    document = laws_document(ONE)
    group = document["groups"][0]
    group["subjects"][0]["points"][0]["energy_mj"] = {"value": 4_444_000.0, "low": 4e6, "high": 5e6}
    records = _records(law_figures(group, "law-0", "Energy")[0])
    said = [record["said"] for record in records if record.get("series") == "whole model" and "said" in record]
    assert any(one.startswith("4.44 kJ") for one in said)


def test_a_subject_without_a_law_is_drawn_without_a_line() -> None:
    """GIVEN two-term laws with a reason only, THEN points are drawn, and neither lines nor residuals."""
    document = laws_document(ONE)
    group = document["groups"][0]
    for subject in group["subjects"]:
        subject["two_term"] = {"reason": "one cell: no law"}
        subject["roofline"] = {"reason": "one cell: no law"}
        subject["quotients"] = []
    found = law_figures(group, "law-0", "Energy")
    assert [figure.name for figure in found] == ["law-0-energy", "law-0-per-flop"]
    assert all("said" in record for record in _records(found[0]))


def test_far_residuals_are_counted_and_not_drawn() -> None:
    """GIVEN a cell far off its law, THEN the axis ends at 60 % and a note counts what lies beyond."""
    document = laws_document(ONE)
    group = document["groups"][0]
    group["subjects"][0]["two_term"]["residuals"][0] = -3.0
    figure = next(one for one in law_figures(group, "law-0", "Energy") if one.name == "law-0-residuals")
    assert figure.notes == ["1 point beyond \u00b160 % not drawn: see the numbers."]
    assert any("-300 %" in row for row in figure.table.rows)


def test_quotients_that_say_nothing_are_in_the_numbers_only() -> None:
    """GIVEN a quotient with an interval wider than k, THEN it is no level piece, and the caption counts it."""
    document = laws_document(ONE)
    group = document["groups"][0]
    whole = group["subjects"][0]
    whole["quotients"][0]["pj_per_flop"] = {"value": 1.5, "low": -50.0, "high": 53.0}
    figure = next(one for one in law_figures(group, "law-0", "Energy") if one.name == "law-0-marginal")
    drawn = sum(1 for record in _records(figure) if "middle" in record)
    assert drawn < len(figure.table.rows)
    assert "not drawn, of which the interval is wider than k" in figure.caption


def _graded(groups: tuple[Swept, ...], bad: tuple[int, int] | None) -> list[Any]:
    """Return the charts of a page on which the cells of one shape have an invalid whole model."""
    document = laws_document(groups)
    for one in document["sources"]:
        if (one["batch_size"], one["tokens"]) == bad:
            one["quality"] = "invalid"
    return laws_page(document, Path()).figures


def _hollow(figure: Any) -> set[tuple[str, str]]:
    return {(record["series"], record["at"]) for record in _records(figure) if record.get("weak")}


def test_cells_below_grade_c_are_hollow_where_a_point_is_one_cell() -> None:
    """GIVEN whole models of one shape graded invalid THEN their points alone are hollow, and captions say so."""
    figures = {one.name: one for one in _graded((SIX[0], SIX[3], SIX[4]), (1, 512))}
    at = "1 \u00d7 512 tokens"
    for name in ("energy", "residuals", "per-flop"):
        figure = figures[f"law-0-{name}"]
        assert _hollow(figure) == {("whole model", at)}, name
        assert figure.caption.endswith("Hollow: below grade C (the grades of parts are on the runs' own pages).")
        graded = [row[:2] for row in figure.table.rows if any(", below grade C" in cell for cell in row)]
        assert graded == [["whole model", at]], name
    assert {place for _, place in _hollow(figures["overview"])} == {at}
    assert len(_hollow(figures["overview"])) == 3
    assert figures["overview"].caption.endswith(" Hollow: below grade C.")
    others = {
        name for name, figure in figures.items() if name.startswith(("sizes", "efficiency")) and _hollow(figure)
    }
    assert {"sizes-0-energy-per-token-mj", "sizes-left-out-0"} <= others
    assert any(name.endswith("tokens-per-joule") for name in others)
    assert any(name.endswith("edp") for name in others)
    for name, figure in figures.items():
        assert ("Hollow: below grade C" in figure.caption) == bool(_hollow(figure)), name
        assert not (_hollow(figure) and name.endswith(("latency", "marginal", "shares"))), name


def test_nothing_is_said_of_hollow_points_where_there_are_none() -> None:
    """GIVEN no invalid cell THEN no caption speaks of hollow points, and no chart has a layer for them."""
    for figure in _graded((SIX[0], SIX[1]), None):
        assert "Hollow" not in figure.caption
        assert "weak" not in str(theme.spec(figure.chart))


def test_a_hollow_point_is_dashed_in_its_colour_and_pale() -> None:
    """GIVEN one weak point of two THEN its outline is dashed, its fill 0.15 of its colour; the other is full."""
    dots = [Dot("a", 1.0, Interval(1.0), "", ""), Dot("a", 2.0, Interval(2.0), "", "", weak=True)]
    layers = theme.spec(draw(Plot(("x", "y"), {"a": "#123456"}, dots), "d"))["layer"]
    points = [(one["mark"], one["transform"][0]["filter"]) for one in layers if one["mark"]["type"] == "point"]
    (solid, others), (_, first), (pale, second), (outline, third) = points
    assert (solid["filled"], others) == (True, "datum.weak !== true")
    assert {first, second, third} == {"datum.weak === true"}
    assert (pale["filled"], pale["opacity"]) == (True, 0.15)
    assert (outline["filled"], outline["strokeDash"]) == (False, [3, 2])


def test_a_slope_that_may_be_zero_is_not_drawn_as_what_a_further_flop_costs() -> None:
    """GIVEN a whole model whose k has an interval with 0 THEN its dashed line is missing; the caption says why."""
    document = laws_document(ONE)
    group = document["groups"][0]
    before = next(one for one in law_figures(group, "law-0", "Energy") if one.name == "law-0-marginal")
    group["subjects"][0]["two_term"]["marginal_pj_per_flop"] = {"value": 1.3, "low": -0.1, "high": 2.7}
    after = next(one for one in law_figures(group, "law-0", "Energy") if one.name == "law-0-marginal")
    assert after.caption.endswith(" No line of the two-term law, as the interval of k holds 0: whole model.")
    assert "No line of" not in before.caption
    slopes = [
        {one["series"] for one in _records(figure) if set(one) == {"series", "x", "y"}}
        for figure in (before, after)
    ]
    assert slopes[0] - slopes[1] == {"whole model"}


def _lines(figure: Any, *, dashed: bool = False) -> set[str]:
    """Return the series that have a solid, or else a dashed, line of a law."""
    spec = theme.spec(figure.chart)
    marks = [one for one in spec["layer"] if one["mark"].get("strokeDash") == ([5, 4] if dashed else [1, 0])]
    return {record["series"] for one in marks for record in spec["datasets"][one["data"]["name"]]}


def test_a_law_that_shows_no_growth_has_no_rising_line() -> None:
    """GIVEN a whole model whose k may be 0 THEN it has no solid line in its group's chart, and one note says why.

    What the roofline says of it, and the lines of parts, stay.
    """
    group = laws_document(ONE)["groups"][0]
    before = law_figures(group, "law-0", "Energy")[0]
    group["subjects"][0]["two_term"]["marginal_pj_per_flop"] = {"value": 1.3, "low": -0.1, "high": 2.7}
    after = law_figures(group, "law-0", "Energy")[0]
    assert _lines(before) - _lines(after) == {"whole model"}
    assert len(_lines(after)) == 3
    assert "whole model" in _lines(after, dashed=True)
    assert after.caption.endswith(" No line of the two-term law, as the interval of k holds 0: whole model.")
    assert "No line of" not in before.caption


def test_a_group_that_shows_no_growth_has_no_line_among_the_others() -> None:
    """GIVEN three groups of which one's k may be 0 THEN the chart of all draws two lines and names the third."""
    document = laws_document((SIX[0], SIX[3], SIX[4]))
    laws = [group["subjects"][0]["two_term"] for group in document["groups"]]
    whole = overview_figure(document, {})
    assert whole is not None
    assert (len(_lines(whole)), "No line of" in whole.caption) == (3, False)
    laws[1]["marginal_pj_per_flop"] = {"value": 1.3, "low": -0.1, "high": 2.7}
    figure = overview_figure(document, {})
    assert figure is not None
    assert _lines(whole) - _lines(figure) == {"llama-3.2-3b"}
    assert figure.caption.endswith(
        "lines: E0 + k \u00d7 FLOPs. No line of the two-term law, as the interval of k holds 0: llama-3.2-3b."
    )
    for law in laws:
        law["marginal_pj_per_flop"] = {"value": 1.3, "low": -0.1, "high": 2.7}
    bare = overview_figure(document, {})
    assert bare is not None
    assert bare.caption.startswith("Both axes logarithmic. No line of")


class _Counted(list[Any]):
    """A list that knows how often it was gone through."""

    times = 0

    def __iter__(self) -> Iterator[Any]:
        self.times += 1
        return super().__iter__()


def test_grades_are_looked_up_once_for_each_group() -> None:
    """GIVEN three groups of many cells THEN no chart goes through the sources for each dot, but for each group."""
    document = laws_document((SIX[0], SIX[3], SIX[4]))

    def times(draw: Callable[[Any], Any]) -> int:
        sources = _Counted(document["sources"])
        assert draw({**document, "sources": sources})
        return sources.times

    lines = sum(len(block.figures) * 6 for block in efficiency_blocks(document, {}))  # at most 6 in a chart
    shapes = sum(len(one["rows"]) for one in document["sizes"])
    assert times(lambda one: overview_figure(one, {})) == 3
    assert times(lambda one: efficiency_blocks(one, {})) <= lines
    assert times(lambda one: size_blocks(one, {})) <= shapes


def test_held_out_without_cells_has_no_chart() -> None:
    """GIVEN medians that are unknown, THEN there is no chart of them."""
    group = laws_document(ONE)["groups"][0]
    for subject in group["subjects"]:
        for one in subject["held_out"]:
            one["median"] = None
    assert held_out_figure(group, "law-0") is None


def test_prefill_and_decode_are_apart_and_the_knee_is_ringed() -> None:
    """GIVEN both phases, THEN no block has both, and a knee of the document is a ring at that batch size."""
    document = laws_document((Swept(batch_sizes=(1, 2, 4)), Swept(phase="decode", batch_sizes=(1, 2, 4))))
    one = next(one for one in document["efficiency"] if one["along"] == "batch_size" and one["phase"] == "decode")
    one["knee"] = {"batch_size": 2, "words": "beyond batch 2 a doubling buys less than 10 %"}
    blocks = efficiency_blocks(document, names.boards(document))
    assert [block.title for block in blocks if "batch" in block.title] == ["Prefill by batch size",
                                                                        "Decode by batch size"]  # fmt: skip
    decode = next(block for block in blocks if block.title == "Decode by batch size")
    rings = [record for record in _records(decode.figures[0]) if record.get("word") == "knee"]
    assert [ring["x"] for ring in rings] == [2.0]
    assert any("beyond batch 2" in sentence for sentence in decode.said)


def test_a_product_with_the_latency_says_whose_error_it_holds() -> None:
    """GIVEN latencies without an interval, THEN chart, table and sentence say that a product's is the energy's."""
    document = laws_document(SIX)
    blocks = efficiency_blocks(document, names.boards(document))
    products = [figure for block in blocks for figure in block.figures if figure.name.endswith("-edp")]
    assert products
    assert all(figure.caption.startswith("Of a whole pass") for figure in products)
    assert all("the energy alone: the latency has none here" in figure.caption for figure in products)
    assert all("energy-delay [of the energy]" in block.table.columns for block in blocks)
    said = [sentence for block in blocks for sentence in block.said if "energy-delay" in sentence]
    assert said
    assert all(sentence.startswith("Least energy-delay product per token, by its value: ") for sentence in said)


def test_many_lines_are_split_by_group() -> None:
    """GIVEN more lines than a chart can hold, THEN each group has its block, all but the first folded."""
    document = laws_document((SIX[0], SIX[1], SIX[3]))
    blocks = [block for block in efficiency_blocks(document, names.boards(document)) if "by length" in block.title]
    assert len(blocks) > 1
    assert [block.folded for block in blocks] == [False] + [True] * (len(blocks) - 1)


def test_shares_are_not_made_to_add_up() -> None:
    """GIVEN shares that add up to 80 % with unexplained at -5 %, THEN they are drawn as they are."""
    document = laws_document((SIX[3], SIX[4]))
    for one in document["sizes"]:
        for row in one["rows"]:
            row["shares"] = {"mlp": {"value": 0.85}, "unexplained": {"value": -0.05}}
    block = size_blocks(document, names.boards(document))[0]
    drawn = {record["kind"]: record["share"] for record in _records(block.shares[0]) if "kind" in record}
    assert drawn == pytest.approx({"MLP": 85.0, "unexplained": -5.0})


def test_an_interval_that_reaches_zero_is_drawn_on_a_logarithmic_axis() -> None:
    """GIVEN a lower limit below 0, THEN the interval begins where the axis does."""
    dots = [Dot("a", 1.0, Interval(1.0, -1.0, 3.0), "", ""), Dot("a", 2.0, Interval(50.0, 40.0, 60.0), "", "")]
    records = theme.spec(draw(Plot(("x", "y"), {"a": "#000000"}, dots), "d"))["datasets"]
    lows = [record["low"] for values in records.values() for record in values if "low" in record]
    assert min(lows) > 0


@pytest.mark.parametrize(("lengths", "lines"), [((32, 128, 512), True), ((128,), False)])
def test_a_caption_speaks_of_lines_only_where_points_are_joined(lengths: tuple[int, ...], lines: bool) -> None:
    """GIVEN batch sizes of one length, THEN each is a point alone and no caption has a line for each."""
    document = laws_document((Swept(batch_sizes=(1, 4, 16), lengths=lengths),))
    figure = next(one for one in law_figures(document["groups"][0], "law-0", "Energy") if "per-flop" in one.name)
    assert ("One line for each batch size" in figure.caption) == lines
