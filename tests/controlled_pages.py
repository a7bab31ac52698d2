"""Pages with controls, and what a reader does to them: open, switch, read the table behind a chart."""

from __future__ import annotations

import csv
import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from benchmark_builder import Bench
from browsing import opened
from generation_builder import Inference, build_inference
from impact_builder import every_impact
from run_builder import Shape, build_run

from energyscope.reporting.html import write_report
from energyscope.runs import schema
from energyscope.runs.store import Run, RunStore

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NOT_DRAWN = "[data-chart]:not([data-drawn]):not(.failed)"
EVIL = "</script><script>window.hacked=1</script>"
RETURN = "one\rtwo"
BOTH = Inference(layers=4, contexts=(1024,), executions=("eager", "cuda-graph"))
GRADES = ["A", "B", "C", "invalid"]


def controlled_pages(folder: Path) -> dict[str, Path]:
    """Make the pages whose controls are tried, by name."""
    hostile = Shape(rename=lambda name: name.replace("mlp", EVIL).replace("attn", RETURN), impact=False)
    graded = build_run(folder / "graded")
    _grade(graded.path / "per_layer_energy.csv")
    together = build_run(folder / "together", Shape(layers=3))
    impacts = every_impact(together).to_dict("records")
    RunStore.open(together.path).write_rows(schema.IMPACT_FILE, impacts, schema.IMPACT_COLUMNS)
    runs = {
        "fine": graded,
        "together": together,
        "large": build_run(folder / "large", Shape(layers=80, impact=False, reused=False)),
        "hostile": build_run(folder / "hostile", hostile),
        "inference": build_inference(folder / "inference"),
        "executions": build_inference(folder / "executions", BOTH),
        "eager-step": _without(build_inference(folder / "eager-step", BOTH), "decode@1024/cuda-graph"),
        "benchmark": build_run(folder / "benchmark", Shape(profile=False, benchmark=Bench())),
    }
    return {name: write_report(run.path) for name, run in runs.items()}


def _without(run: Run, scene: str) -> Run:
    """Return a run that did not measure one of its moments."""
    store = RunStore.open(run.path)
    store.update(scenes=[one for one in store.document["scenes"] if one["name"] != scene])
    return run


def _grade(file: Path) -> None:
    """Give the rows of a table all grades in turn, and reasons that CSV must quote."""
    rows = list(csv.DictReader(file.open(encoding="utf-8")))
    for row, grade in zip(rows, itertools.cycle(GRADES), strict=False):
        row.update(quality=grade, reasons="" if grade == "A" else 'half-width 4 %, "wide"; a clock, 1 % off')
    with file.open("w", encoding="utf-8", newline="") as target:
        writer = csv.DictWriter(target, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def open_drawn(browser: Browser, report: Path, fragment: str = "", **context: Any) -> tuple[Page, list[str]]:
    """Open a page with its visible charts drawn, and return it with what went wrong in it."""
    page, wrong = opened(browser, report, **context)
    if fragment:
        page.goto(report.as_uri() + fragment)
        wrong.clear()
    all_drawn(page)
    return page, wrong


def all_drawn(page: Page) -> None:
    """Wait until every chart that is not hidden is drawn."""
    page.wait_for_selector(f":not([hidden]) > figure {NOT_DRAWN}", state="detached", timeout=300_000)


def parts_shown(page: Page) -> list[str]:
    """Return the moments and executions that are shown."""
    parts: list[str] = page.evaluate(
        "[...document.querySelectorAll('.moment')].filter(part => !part.hidden)"
        ".map(part => `${part.dataset.moment}/${part.dataset.execution}`)"
    )
    return parts


def drawn_again(page: Page, name: str, before: str) -> None:
    """Wait until a chart's drawing is another one than ``before``."""
    for _ in range(2000):
        if page.inner_html(f"#{name} [data-chart]") != before and page.query_selector(f"#{name} svg .mark-rect"):
            return
        page.wait_for_timeout(50)
    pytest.fail(f"{name} was not drawn again")


def views_of(page: Page) -> dict[str, Any]:
    payload = json.loads(page.text_content("#payload") or "")
    views: dict[str, Any] = payload["views"]
    return views


def table_behind(page: Page, name: str) -> list[list[str]]:
    """Return the table behind a chart, its header first."""
    rows: list[list[str]] = page.evaluate(
        "name => [...document.getElementById(name).querySelector('details table').rows]"
        ".map(row => [...row.cells].map(cell => cell.textContent))",
        name,
    )
    return rows


def choose_view(page: Page, name: str, key: str) -> None:
    page.click(f"#{name} fieldset label:has(input[value='{key}'])")
