"""The section for a model card, by the hub's own class and a parser of Markdown with tables."""

from __future__ import annotations

import html
import re

import pytest
from huggingface_hub import ModelCard
from markdown_it import MarkdownIt
from page_gallery import HOSTILE, hostile_run
from run_builder import Eager, Shape, build_run
from served_builder import build_served

from energyscope.errors import RunError
from energyscope.exporting import export
from energyscope.reporting.terminal_text import printable

FRONT = "---\nlicense: mit\n---\n\n# A model\n\n"
TAGS = {"h2", "p", "strong", "code", "pre", "table", "thead", "tbody", "tr", "th", "td"}


def section_of(run) -> str:
    return export(run, "model-card").path.read_text(encoding="utf-8")


def html_of(section: str) -> str:
    return MarkdownIt("gfm-like", {"linkify": False, "html": True}).disable("linkify").render(section)


def cells_of(section: str) -> list[list[str]]:
    rows = re.findall(r"<tr>(.*?)</tr>", html_of(section), flags=re.DOTALL)
    return [re.findall(r"<t[hd]>(.*?)</t[hd]>", row) for row in rows]


def test_the_table_has_joules_with_intervals_and_grades(tmp_path):
    """GIVEN a run THEN a pass, a token and its work stand in a table with limits and grades."""
    run = build_run(tmp_path / "run", Eager(layers=2, impact=False))
    head, whole, token, work = cells_of(section_of(run))
    assert head == ["", "Energy", "95 % interval", "Grade"]
    model = run.energy.iloc[0]
    assert whole[0] == "Forward pass, 128 tokens, a pass"
    assert float(whole[1].split()[0]) == pytest.approx(model["energy_mj"], rel=0.05)
    assert (whole[2].split()[0], whole[3]) == ("±", "too noisy")
    assert token[0] == "Forward pass, 128 tokens, a token read"
    assert work[0].endswith("beyond idle power")
    assert float(work[1].split()[0]) == pytest.approx(model["dynamic_mj"], rel=0.05)
    assert work[3] == "B"


def test_a_card_of_the_hub_takes_the_section(tmp_path):
    """GIVEN a card with front matter THEN the hub's class reads its data and the whole section behind it."""
    section = section_of(
        build_run(tmp_path / "run", Shape(layers=1, impact=False), command="energyscope run gpt2")
    )
    card = ModelCard(FRONT + section)
    assert card.data.license == "mit"
    assert card.text.rstrip().endswith(section.rstrip())
    assert ModelCard(section).data.to_dict() == {}
    assert "<pre><code>energyscope run gpt2\n</code></pre>" in html_of(section)


def test_device_method_and_version_are_there(tmp_path):
    """GIVEN a measured run THEN the section names the device, the meter, the version and the sensor's limit."""
    run = build_run(tmp_path / "run", Shape(layers=1, impact=False))
    section = section_of(run)
    document = run.document
    for fact in (document["device"]["name"], document["model"]["name"], document["energyscope"], "nvml"):
        assert f"`{fact}`" in section
    assert "is in no interval" in section
    assert "MODELLED" not in section


def test_a_server_has_its_requests_and_tokens(tmp_path):
    """GIVEN a server THEN the table has what a token of either sort takes, and a request at each load."""
    served = build_served(tmp_path / "server")
    titles = [row[0] for row in cells_of(section_of(served))]
    assert {"A token of a prompt", "A generated token"} <= set(titles)
    assert sum(title.startswith("A request, load ") for title in titles) == served.loads["request_j"].notna().sum()


@pytest.mark.parametrize("which", [*HOSTILE, "markdown", "cells", "fences"])
def test_names_stay_text(tmp_path, which):
    """GIVEN hostile names THEN the section has no element but its own, and its table as many cells as ever."""
    names = {
        **HOSTILE,
        "markdown": "[x](http://a.example) ![y](z) # *b*",
        "cells": "a|b|\n---\n|c",
        "fences": "``` `x`",
    }
    run = hostile_run(tmp_path / "run", names[which])
    run.benchmark["cells"][0]["precision"] = names[which]
    section = section_of(run)
    rendered = html_of(section)
    assert set(re.findall(r"<(\w+)", rendered)) <= TAGS
    rows = cells_of(section)
    assert {len(row) for row in rows} == {4}
    shown = printable(names[which])
    assert any(html.unescape(row[0]).startswith(f"{shown.upper()}, an inference over") for row in rows)
    assert html.unescape(rendered).count(f"<code>{shown}</code>") == 2  # model and device
    assert rendered.count("<h2>") == 1
    assert ModelCard(FRONT + section).data.to_dict() == {"license": "mit"}


def test_a_run_without_joules_is_one_line(tmp_path):
    """GIVEN a run that measured nothing THEN the error says so."""
    with pytest.raises(RunError, match="has no energy of a token or an inference"):
        section_of(build_run(tmp_path / "run", Shape(profile=False, impact=False)))
