from __future__ import annotations

import itertools
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from benchmark_builder import Bench
from run_builder import Shape, build_run

from energyscope.errors import RunError
from energyscope.reporting.html import render, write_report
from energyscope.reporting.page_parts import json_for_script
from energyscope.runs import schema
from energyscope.runs.store import RunStore, load_run


class _Page(HTMLParser):
    """Collects what a browser would load or run."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_the_report_is_written_beside_the_run_and_is_small(tmp_path: Path) -> None:
    """GIVEN a fine run, THEN report.html stands in its directory with less than 4 MB."""
    run = build_run(tmp_path / "run", Shape(layers=80))
    path = write_report(run.path)
    assert path == run.path / schema.REPORT_FILE
    assert 500_000 < path.stat().st_size < 4_000_000


def test_nothing_is_loaded_from_elsewhere(tmp_path: Path) -> None:
    """No element names another file or host, and the policy forbids the network."""
    page = _Page(render(build_run(tmp_path / "run")))
    for tag, attributes in page.tags:
        assert tag not in {"link", "iframe", "img", "object", "embed", "base"}
        assert "src" not in attributes
        assert (attributes.get("href") or "#").startswith("#")
    policy = next(a["content"] for _, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy


def test_the_library_is_embedded_once(tmp_path: Path) -> None:
    """GIVEN nine charts, THEN the page has two scripts that run and one block of data."""
    page = _Page(render(build_run(tmp_path / "run")))
    kinds = [attributes.get("type") for tag, attributes in page.tags if tag == "script"]
    assert kinds == ["application/json", None, None]


def test_names_from_data_are_escaped(tmp_path: Path) -> None:
    """GIVEN component, model and reason texts with markup, THEN the page has no element of theirs."""
    run = build_run(
        tmp_path / "run",
        Shape(rename=lambda name: name.replace("mlp", "</script><script>alert(1)</script>")),
        model={"name": "<img src=x onerror=alert(2)>"},
        warnings=["<b onclick=alert(3)>bold</b>"],
    )
    page = _Page(render(run))
    assert [tag for tag, _ in page.tags].count("script") == 3
    assert "img" not in {tag for tag, _ in page.tags}
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)


def test_json_in_a_script_survives_and_cannot_end_it() -> None:
    """Text that would end a script or open a comment is written so that it does neither and reads back."""
    value = {"a": "</script><!-- \u2028", "b": [float("nan"), 1.5]}
    written = json_for_script(value)
    assert "</" not in written
    assert "<!" not in written
    assert json.loads(written) == {"a": value["a"], "b": [None, 1.5]}


def test_sections_of_stages_that_did_not_run_say_so(tmp_path: Path) -> None:
    """GIVEN random weights, THEN the banner is shown and the impact section carries the reason."""
    page = render(build_run(tmp_path / "run", Shape(impact=False), model={"weights": "random"}))
    assert "RANDOM WEIGHTS" in page
    assert "The ablate stage was skipped: the weights are random." in page
    assert 'data-chart="impact-kl"' not in page


def test_every_modelled_joule_is_called_modelled(tmp_path: Path) -> None:
    """GIVEN a modelled run, THEN the banner, the headline, the chart titles and the table say so."""
    page = render(build_run(tmp_path / "run", Shape(modelled=True)))
    assert "<strong>MODELLED</strong>" in page
    titles = re.findall(r"<h3[^>]*>([^<]*nergy[^<]*)</h3>", page)
    assert titles
    assert all(title.startswith("Modelled energy") for title in titles)
    assert ">Modelled energy</button>" in page


def test_headings_do_not_skip_a_level(tmp_path: Path) -> None:
    """One h1, and no heading more than one level below the one before it."""
    levels = [
        int(tag[1]) for tag, _ in _Page(render(build_run(tmp_path / "run"))).tags if re.fullmatch("h[1-6]", tag)
    ]
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))


def test_an_empty_run_renders(tmp_path: Path) -> None:
    """GIVEN a run that stopped before it measured anything, THEN there is a page that says so."""
    run = build_run(tmp_path / "run", Shape(impact=False), stages={"profile": {"state": "interrupted"}}, passes=[])
    (run.path / schema.ENERGY_FILE).unlink()
    page = write_report(run.path).read_text()
    assert "The profile stage was interrupted." in page
    assert "data-chart=" not in page.partition("<main>")[2].partition("<script")[0]


def test_a_directory_that_is_no_run_is_one_clear_error(tmp_path: Path) -> None:
    """GIVEN a directory without run.json, THEN the error says that it is not a run."""
    with pytest.raises(RunError, match="not a run directory"):
        write_report(tmp_path)


def test_a_run_of_an_older_version_renders(tmp_path: Path) -> None:
    """GIVEN a run.json and a table without anything new, THEN the page says what was not judged, and no more."""
    page = render(build_run(tmp_path / "run", Shape(old=True)))
    assert "not judged" in page
    assert "did not count FLOPs" in page
    assert "Is replay faithful?" not in page
    assert 'data-chart="anchors"' in page


@pytest.mark.parametrize("name", ["llama-3.2-1b-h200", "tiny-gpt2-cpu"])
def test_the_committed_reports_render_again(name: str) -> None:
    """GIVEN a run directory of the example reports, THEN this version still makes a page of it."""
    page = render(load_run(Path(__file__).resolve().parents[2] / "reports" / name))
    assert "Do the parts add up?" in page
    assert "None" not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)


def test_the_execution_stands_at_the_top(tmp_path: Path) -> None:
    """GIVEN a run in CUDA graphs, THEN the head of the page says so and what that means."""
    page = render(build_run(tmp_path / "run", Shape(execution="cuda-graph", impact=False)))
    head = page.partition("<main>")[0]
    assert "<strong>CUDA graphs.</strong>" in head
    assert "Launching from the host is in no number" in head


def test_over_capture_is_flagged_like_under_capture(tmp_path: Path) -> None:
    """GIVEN a closed, an over- and an under-captured level, THEN only the closed one has the good badge."""
    under = {"energy": 0.9, "energy_low": 0.89, "energy_high": 0.91, "with_glue": True, "state": "under-captured"}
    wide = {"energy": 0.83, "energy_low": 0.08, "energy_high": 1.58, "with_glue": True, "state": "uncertain"}
    page = render(build_run(tmp_path / "run", closure={"mlp": under, "attention": wide}))
    assert '<span class="badge plain">uncertain</span>' in page
    assert '<span class="badge good">closed</span>' in page
    assert '<span class="badge warn">over-captured</span>' in page
    assert '<span class="badge warn">under-captured</span>' in page


def test_a_method_without_any_check_says_so(tmp_path: Path) -> None:
    """GIVEN a run without closure, differential energy or anchors, THEN the section is not left empty."""
    run = build_run(tmp_path / "run", settings={"sampling": "triggered"}, passes=[])
    run.document.update(closure={}, differential={}, drift=None)
    assert "Neither closure nor differential energy nor anchors were measured" in render(run)


def test_reasons_are_folded_away(tmp_path: Path) -> None:
    """GIVEN a component with a long reason, THEN its row shows the grade, and the reason when it is opened."""
    run = build_run(tmp_path / "run")
    assert run.energy is not None
    run.energy["reasons"] = "95 % half-width 14.2%; mean of its kind over 16 layers"
    page = render(run)
    folded = "A <details><summary>why</summary>95 % half-width 14.2%; mean of its kind over 16 layers</details>"
    assert page.count(folded) == 48


def test_the_navigation_says_which_sections_hold_no_measurement(tmp_path: Path) -> None:
    """GIVEN a run whose ablation failed, THEN the navigation calls what it lacks not measured, and no other."""
    run = build_run(tmp_path / "run", Shape(impact=False, benchmark=Bench()))
    store = RunStore.open(run.path)
    failed = {"state": "failed", "reason": "no labels", "seconds": 1.0}
    store.document["stages"].update(ablate=failed, correlate=failed)
    store.update()
    page = render(load_run(run.path))
    marked = re.findall(r'<li><a href="#(\w+)">[^<]*</a> <span class="quiet">\(not measured\)</span></li>', page)
    assert marked == ["impact", "correlate"]
    whole = build_run(tmp_path / "whole", Shape(benchmark=Bench()))
    assert "(not measured)" not in render(whole).partition("</nav>")[0]
