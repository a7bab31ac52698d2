"""A page is one file that needs nothing else, runs nothing but its own script, and cannot be broken by data."""

from __future__ import annotations

import base64
import hashlib
import json
import re

import pytest
from page_gallery import HOSTILE, hostile_run
from run_builder import build_run

from energyscope.errors import RunError
from energyscope.reporting import page as pages
from energyscope.reporting.run.page import run_page, write_report

PAYLOAD = re.compile(r'<script type="application/json" id="payload">(.*?)</script>', re.DOTALL)


@pytest.fixture(scope="module")
def html(tmp_path_factory):
    return run_page(build_run(tmp_path_factory.mktemp("page") / "run"))


def test_the_policy_allows_the_pages_own_scripts_and_nothing_else(html):
    """GIVEN the content security policy, THEN its hashes are those of the two scripts, and nothing is fetched."""
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', html)[1].replace("&#39;", "'")
    scripts = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    digests = {base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts}
    assert len(scripts) == 2
    assert set(re.findall(r"'sha256-([^']+)'", policy)) == digests
    assert "default-src 'none'" in policy
    assert not re.search(r'(src|href)="(https?:)?//', html)


def test_charts_and_numbers_travel_with_the_page(html):
    """GIVEN the payload, THEN each figure on the page has its charts there, with data and without a theme."""
    payload = json.loads(PAYLOAD.search(html)[1])
    places = set(re.findall(r'data-chart="([^"]+)"', html))
    assert places
    assert places <= set(payload["figures"])
    for views in payload["figures"].values():
        assert all(view["spec"]["datasets"] and "config" not in view["spec"] for view in views)
    assert set(payload["themes"]) == {"light", "dark"}


@pytest.mark.parametrize("which", HOSTILE)
def test_hostile_names_end_no_element_and_no_script(tmp_path, which):
    """GIVEN names that would end a script or an attribute, THEN the payload is JSON and the markup is intact."""
    html = run_page(hostile_run(tmp_path / "run", HOSTILE[which]))
    assert json.loads(PAYLOAD.search(html)[1])["figures"]
    outside = PAYLOAD.sub("", html)  # in there, text is data as long as it ends no element and opens no comment
    assert outside.count("<script") == 2
    assert "<img src=x" not in outside
    assert "</" not in PAYLOAD.search(html)[1]
    assert "<!" not in PAYLOAD.search(html)[1]


def test_a_page_that_cannot_be_written_says_so(tmp_path, monkeypatch):
    """GIVEN a directory that takes no file, THEN one error that names it, and nothing half-written."""
    run = build_run(tmp_path / "run")

    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pages, "write_text", refuse)
    with pytest.raises(RunError, match="No space left"):
        write_report(run.path)
    assert not (run.path / "report.html").exists()
