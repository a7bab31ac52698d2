"""The section of a run's page on the laws that it is a cell of."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

from cell_builder import build_swept
from run_builder import build_run

from energyscope.reporting.html import render, write_report
from energyscope.runs import schema
from energyscope.runs.laws import load_laws, write_laws
from energyscope.runs.store import load_run
from energyscope.stages.laws import laws

CELL = "fp32-b1-s128"
EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


class _Page(HTMLParser):
    """Collects elements, and the text of the section."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.said = ""
        self._inside = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "section":
            self._inside = dict(attrs).get("id") == "scaling"

    def handle_data(self, data: str) -> None:
        self.said += data if self._inside else ""

    @property
    def links(self) -> list[str]:
        return [attributes["href"] or "" for tag, attributes in self.tags if tag == "a"]


def test_a_cells_page_has_the_law(swept: Path) -> None:
    """GIVEN a cell of a sweep, THEN its page has the section, its link, one chart and a table of kinds."""
    text = render(load_run(swept / CELL))
    page = _Page(text)
    assert "#scaling" in page.links
    assert "This run is a cell of the sweep swept, whose page has every law and cell." in page.said
    assert [one["data-chart"] for _, one in page.tags if "scaling" in (one.get("data-chart") or "")] == [
        "scaling-law"
    ]
    assert "Each kind's law beside this run" in page.said
    assert "Difference: (measured \u2212 law) / measured" in page.said
    assert "A negative E0 or k is shown as it is" in page.said
    payload = json.loads(text.partition('id="payload">')[2].partition("</script>")[0])
    assert "scaling-law" in payload["specs"]


def test_without_laws_there_is_no_section(tmp_path: Path) -> None:
    """No heading, no link to it and no chart."""
    text = render(build_run(tmp_path / "run"))
    assert "How it scales" not in text
    assert 'href="#scaling"' not in text
    assert "scaling-law" not in text


def test_the_link_leads_to_the_page_of_the_laws(sweep: Path) -> None:
    """GIVEN a sweep's page and a set beside it, THEN links are relative and lead there from the report."""
    laws([str(sweep)], name="all of them", root=sweep.parent)
    links = [link for link in _Page(write_report(sweep / CELL).read_text()).links if not link.startswith("#")]
    assert links == ["./../report.html", "./../../all%20of%20them/report.html"]
    for link in links:
        assert (sweep / CELL / link.replace("%20", " ")).is_file()


def test_laws_without_a_page_are_named(sweep: Path) -> None:
    """GIVEN no page of the laws, THEN their name stands there, and no link."""
    (sweep / schema.REPORT_FILE).unlink()
    page = _Page(render(load_run(sweep / CELL)))
    assert [link for link in page.links if not link.startswith("#")] == []
    assert "This run is a cell of the sweep swept." in page.said


def test_a_page_that_was_moved_still_has_all(sweep: Path, tmp_path: Path) -> None:
    """GIVEN a report that was copied away and a sweep that is gone, THEN the file itself holds law and cells."""
    moved = shutil.copy(write_report(sweep / CELL), tmp_path / "moved.html")
    said = _Page(Path(moved).read_text()).said
    shutil.rmtree(sweep)
    assert "1 \u00d7 1,024 tokens" in said
    assert "The whole model takes" in said


def test_laws_of_another_state_of_the_run_are_not_shown(sweep: Path) -> None:
    """GIVEN a run that was measured again, THEN the section says so, and has no number."""
    document = load_laws(sweep)
    for point in document["groups"][0]["subjects"][0]["points"]:
        point["energy_mj"]["value"] *= 1.01
    write_laws(sweep, document)
    page = _Page(render(load_run(sweep / CELL)))
    assert "not with the energy of the whole model that it has now" in page.said
    assert "pJ" not in page.said
    assert "scaling-law" not in [one.get("data-chart") for _, one in page.tags]


def test_two_cells_have_no_difference_to_explain(tmp_path: Path) -> None:
    """GIVEN a line that nothing checks, THEN no paragraph speaks of a difference from it."""
    sweep = build_swept(tmp_path / "swept", (32, 128)).path
    said = _Page(render(load_run(sweep / CELL))).said
    assert "two\u00a0cells" not in said
    assert "E0: what a kind takes before its first FLOP, or byte" in said
    assert "Difference:" not in said


def test_laws_that_cannot_be_read_are_named(sweep: Path) -> None:
    """GIVEN a set that reads well and one that does not, THEN the page has the first, and names the second."""
    laws([str(sweep)], name="good", root=sweep.parent)
    document = load_laws(sweep)
    document["groups"][0]["cells"] = [None]
    write_laws(sweep, document)
    said = _Page(render(load_run(sweep / CELL))).said
    assert "This run is a cell of the laws good" in said
    assert "Not shown: laws.json of the sweep swept cannot be read for this run." in said


def test_no_line_breaks_inside_a_number(swept: Path) -> None:
    """GIVEN the sentences, THEN a number's unit, a shape and the value of R\u00b2 stay with their number."""
    said = _Page(render(load_run(swept / CELL))).said
    assert "1\u00a0\u00d7\u00a0128 tokens, took " in said
    assert re.search("R\u00b2\u00a0[01]\\.", said)
    assert re.search(r"took [\d.,]+\u00a0m?J \[", said)


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    """GIVEN markup as the names of model, device, laws and flags, THEN the page has no element of theirs."""
    sweep = build_swept(tmp_path / "swept", (32, 128), model={"name": EVIL}, device={"name": EVIL}).path
    document = load_laws(sweep)
    document["name"] = EVIL
    for subject in document["groups"][0]["subjects"]:
        subject["two_term"].setdefault("flags", []).append(EVIL)
    write_laws(sweep, document)
    text = render(load_run(sweep / CELL))
    page = _Page(text)
    assert EVIL in page.said
    assert [tag for tag, _ in page.tags].count("script") == 3
    assert "img" not in {tag for tag, _ in page.tags}
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)


def test_identifiers_and_headings_are_in_order(sweep: Path) -> None:
    """GIVEN a run in two groups of laws, THEN ids are unique, links have targets, no heading skips a level."""
    document = load_laws(sweep)
    document["groups"].append({**document["groups"][0], "kv_cache": "dynamic"})
    write_laws(sweep, document)
    page = _Page(render(load_run(sweep / CELL)))
    found = [attributes["id"] for _, attributes in page.tags if attributes.get("id")]
    assert len(set(found)) == len(found)
    assert {"scaling-law", "scaling-law-2"} <= set(found)
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(found)
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))


def test_modelled_joules_are_called_modelled(tmp_path: Path) -> None:
    """GIVEN modelled cells, THEN the section begins with the word."""
    sweep = build_swept(tmp_path / "swept", (32, 128, 512), modelled=True).path
    said = _Page(render(load_run(sweep / CELL))).said
    assert "MODELLED: every joule in this section is time multiplied by stated watts." in said
