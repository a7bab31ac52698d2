from __future__ import annotations

import itertools
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from laws_builder import ONE, SIX, Swept, build_laws, laws_document

from energyscope.errors import RunError
from energyscope.reporting.laws_page import render, write_laws_page
from energyscope.runs import schema


class _Page(HTMLParser):
    """Collects what a browser would load, run or follow."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def links(self) -> list[str]:
        return [attributes["href"] or "" for tag, attributes in self.tags if tag == "a"]


def _words(page: str) -> str:
    """Return the page without its scripts and styles."""
    return re.sub(r"<(script|style).*?</\1>", "", page, flags=re.DOTALL)


def test_the_page_stands_beside_the_document(tmp_path: Path) -> None:
    """GIVEN a directory with laws.json, THEN report.html is written beside it, complete and small."""
    folder = build_laws(tmp_path / "laws")
    path = write_laws_page(folder)
    assert path == folder / schema.REPORT_FILE
    assert 500_000 < path.stat().st_size < 3_000_000
    words = _words(path.read_text())
    assert "None" not in words
    assert "nan" not in words.split()


def test_the_page_says_what_the_document_says_and_fits_nothing(tmp_path: Path) -> None:
    """GIVEN a laws.json that was altered by hand, THEN the page shows the altered numbers."""
    folder = build_laws(tmp_path / "laws")
    file = folder / schema.LAWS_JSON
    document = json.loads(file.read_text())
    document["groups"][0]["subjects"][0]["two_term"]["fixed_mj"] = {"value": 98_765.4, "low": 98e3, "high": 99e3}
    document["groups"][0]["subjects"][1]["two_term"]["r2"] = 0.123
    file.write_text(json.dumps(document))
    words = _words(write_laws_page(folder).read_text())
    assert "98.8 J" in words
    assert "0.123" in words


def test_within_ten_percent_says_of_what_and_how(tmp_path: Path) -> None:
    """Below the tables stands what was left out, what foretold it, and of what the 10 % are."""
    said = (
        "the two-term law foretells within 10&nbsp;% of their own measured energy when each is left out in turn "
        "and the law is fitted to the others of them."
    )
    assert render(laws_document(ONE), tmp_path).count(said) == 1
    assert render(laws_document(SIX[:2]), tmp_path).count(said) == 2, (
        "below the groups' table, and below their own"
    )


def test_nothing_is_loaded_from_elsewhere(tmp_path: Path) -> None:
    """No element loads a file, and the policy forbids the network; links stay in the page or are relative."""
    page = _Page(render(laws_document(ONE), tmp_path))
    for tag, attributes in page.tags:
        assert tag not in {"link", "iframe", "img", "object", "embed", "base"}
        assert "src" not in attributes
    assert all(link.startswith(("#", "./")) for link in page.links())
    policy = next(a["content"] for _, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    """GIVEN markup as model, run, cell, note and reason, THEN the page has no element or attribute of theirs."""
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    document = json.loads(json.dumps(laws_document(SIX[:2])).replace("llama-3.2-1b", evil))
    document["notes"] = [evil]
    document["name"] = evil
    document["not_measured"] = [{"cell": evil, "state": "failed", "reason": evil}]
    text = render(document, tmp_path)
    page = _Page(text)
    assert [tag for tag, _ in page.tags].count("script") == 3
    assert "img" not in {tag for tag, _ in page.tags}
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    payload = text.partition('id="payload">')[2].partition("</script>")[0]
    assert json.loads(payload)["specs"]


def test_links_lead_to_runs_that_are_there(tmp_path: Path) -> None:
    """GIVEN a run with a page, one without and one that is gone, THEN page, directory and no link."""
    folder = tmp_path / "laws"
    with_page, without = tmp_path / "sweep one" / "a", folder / "b"
    for run in (with_page, without):
        run.mkdir(parents=True)
    (with_page / schema.REPORT_FILE).touch()
    document = laws_document(ONE)
    one = document["sources"][0]
    document["sources"] = [
        {**one, "run": "a", "path": "../sweep one/a"},
        {**one, "run": "b", "path": "/elsewhere/b"},
        {**one, "run": "c", "path": "../c"},
    ]
    links = [link for link in _Page(render(document, folder)).links() if not link.startswith("#")]
    assert links == ["./../sweep%20one/a/report.html", "./b/"]


def test_headings_do_not_skip_a_level(tmp_path: Path) -> None:
    """One h1, and no heading more than one level below the one before it."""
    page = _Page(render(laws_document(SIX[:3]), tmp_path))
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))


def test_identifiers_are_unique_and_links_have_targets(tmp_path: Path) -> None:
    """GIVEN several groups, THEN each id is there once and each link within the page finds one."""
    page = _Page(render(laws_document(SIX[:3]), tmp_path))
    found = [attributes["id"] for _, attributes in page.tags if attributes.get("id")]
    assert len(set(found)) == len(found)
    assert {link[1:] for link in page.links() if link.startswith("#")} <= set(found)


def test_missing_parts_say_why(tmp_path: Path) -> None:
    """GIVEN one cell alone, THEN each section stands with its reason, and no chart of a law is drawn."""
    page = render(laws_document((Swept(batch_sizes=(1,), lengths=(128,)),)), tmp_path)
    assert "One cell: no law" in page
    assert "No shape was measured under two executions" in page
    assert "No group has two batch sizes at one length" in page
    assert "No two models were measured at one shape" in page
    assert 'data-chart="law-0-residuals"' not in page


def test_nothing_measured_is_still_a_page(tmp_path: Path) -> None:
    """GIVEN a document without groups and one cell that did not fit, THEN the page says both."""
    empty = {name: [] for name in ("sources", "groups", "contrasts", "efficiency", "sizes", "sizes_held_out")}
    lacking = [{"sweep": "s", "cell": "bf16-b1-s32", "state": "does not fit", "reason": "141 GB needed"}]
    page = render({**laws_document(ONE), **empty, "not_measured": lacking}, tmp_path)
    assert "No cell was measured, so there is no law." in page
    assert "141 GB needed" in page
    assert "s/bf16-b1-s32" in page


def test_modelled_joules_are_called_modelled(tmp_path: Path) -> None:
    """GIVEN a modelled document, THEN the banner, each section with joules and each title of energy say so."""
    page = render(laws_document((Swept(modelled=True),)), tmp_path)
    assert "<strong>MODELLED</strong>" in page
    assert page.count("<strong>MODELLED:</strong>") >= 2
    titles = re.findall(r"<h3[^>]*>([^<]*nergy[^<]*)</h3>", page)
    assert titles
    assert all("odelled" in title for title in titles)


def test_random_weights_have_their_banner(tmp_path: Path) -> None:
    """GIVEN random weights, THEN the banner says so; GIVEN pretrained ones, THEN there is none."""
    assert "<strong>RANDOM WEIGHTS</strong>" in render(laws_document(ONE), tmp_path)
    assert "RANDOM WEIGHTS" not in render(laws_document(ONE, weights=["pretrained"]), tmp_path)


def test_a_directory_without_laws_is_one_clear_error(tmp_path: Path) -> None:
    """GIVEN a directory without laws.json, or with that of a newer version, THEN the error says what to do."""
    with pytest.raises(RunError, match="cannot be read"):
        write_laws_page(tmp_path)
    newer = build_laws(tmp_path / "newer", schema=99)
    with pytest.raises(RunError, match="upgrade"):
        write_laws_page(newer)
