from __future__ import annotations

import json
import re

import altair as alt

from energyscope.reporting.figure import Figure, Table, View
from energyscope.reporting.page_parts import SCRIPT_PARTS, chart_payload, json_for_script, page_script
from energyscope.reporting.templates import templates_directory


def _figure() -> Figure:
    chart = alt.Chart(alt.Data(values=[{"a": 1}])).mark_bar()
    table = Table(["kind", "energy"], [["norm", "1 mJ"]])
    other = View(
        "dynamic", "Dynamic", "Only </b> dynamic.", "A bar.", chart.mark_point(), table, ["A note."], "Points"
    )
    return Figure(
        "bars", "profile", "Bars", "All.", "A bar.", chart, table, switch="joules", shows="Total", views=[other]
    )


def test_a_view_is_carried_beside_its_figure() -> None:
    """GIVEN a figure with a view, THEN the payload has both drawings, and the words and the table of the view."""
    payload = chart_payload([_figure()])
    assert set(payload["specs"]) == {"bars", "bars--dynamic"}
    assert payload["specs"]["bars--dynamic"]["mark"]["type"] == "point"
    assert payload["views"]["bars"]["dynamic"] == {
        "title": "Points",
        "caption": "Only </b> dynamic.",
        "summary": "A bar.",
        "notes": ["A note."],
        "table": {"columns": ["kind", "energy"], "rows": [["norm", "1 mJ"]]},
    }
    assert "</" not in json_for_script(payload)
    assert json.loads(json_for_script(payload)) == payload


def test_the_script_is_all_its_parts_in_strict_mode() -> None:
    """Every file of the folder is in the script; no text is read as HTML or code, nothing is fetched."""
    files = {file.stem for file in (templates_directory() / "report").glob("*.js")}
    assert set(SCRIPT_PARTS) == files
    script = page_script()
    assert script.startswith('"use strict";')
    assert "</script" not in script
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|\beval\(|fetch\(|XMLHttp|https?:", script)
