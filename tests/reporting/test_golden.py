"""The words of pages and terminal stand in a few golden texts, renewed by ``make golden`` and read by people."""

from __future__ import annotations

import difflib
import io
import os
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from benchmark_builder import Bench
from generation_builder import Inference, build_inference
from plan_builder import build_plan
from rich.console import Console
from run_builder import Eager, Shape, build_run

from energyscope.reporting.comparison.page import comparison_page
from energyscope.reporting.comparison.source import ComparedRuns
from energyscope.reporting.comparison.terminal import answer_of as comparison_answer
from energyscope.reporting.run.page import run_page
from energyscope.reporting.run.terminal import answer_of

GOLDEN = Path(__file__).parent / "golden"
RENEW = bool(os.environ.get("ENERGYSCOPE_RENEW"))
_BLOCKS = {"p", "h1", "h2", "h3", "li", "tr", "dt", "dd", "figcaption", "summary", "section", "div", "legend"}
_SILENT = {"script", "style", "title", "tbody"}  # numbers are asserted elsewhere


class _Text(HTMLParser):
    """The text of a page, a line for each block."""

    def __init__(self) -> None:
        super().__init__()
        self.lines, self.silent = [""], 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.silent += tag in _SILENT
        if tag in _BLOCKS:
            self.lines.append("")
        elif tag in {"td", "th", "label", "button"}:
            self.lines[-1] += " | "

    def handle_endtag(self, tag: str) -> None:
        self.silent -= tag in _SILENT

    def handle_data(self, data: str) -> None:
        if not self.silent:
            self.lines[-1] += data


def words_of(html: str) -> str:
    """Return the words of a page, spaces folded, without empty lines."""
    reader = _Text()
    reader.feed(html)
    lines = (re.sub(r"\s+", " ", line).strip(" |") for line in reader.lines)
    return "\n".join(line for line in lines if line) + "\n"


def printed(answer) -> str:
    """Return how an answer reads in a terminal of 80 columns."""
    console = Console(width=80, file=io.StringIO())
    console.print(answer)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines()) + "\n"


RUNS = {
    "generation": lambda path: build_inference(path, Inference(layers=2, contexts=(1024,))),
    "classifier": lambda path: build_run(
        path,
        Shape(layers=2, benchmark=Bench(metric="accuracy")),
        model={"task": "classification", "metric": "accuracy"},
    ),
    "eager": lambda path: build_run(path, Shape(layers=2, graded_work=True, host_bound=True)),
    "plan": build_plan,
    "modelled": lambda path: build_run(path, Shape(layers=2, modelled=True, benchmark=Bench(modelled=True))),
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("form", ["page", "terminal"])
def test_the_words_are_the_golden_ones(tmp_path, monkeypatch, name, form):
    """GIVEN a synthetic run, THEN its page and its end in the terminal read as they did when last looked at."""
    monkeypatch.chdir(tmp_path)
    run = RUNS[name](Path(name))
    text = words_of(run_page(run)) if form == "page" else printed(answer_of(run, 80))
    compare(GOLDEN / f"{name}-{form}.txt", text)


@pytest.mark.parametrize("form", ["page", "terminal"])
def test_a_comparison_reads_as_its_golden_text(tmp_path, monkeypatch, form):
    """GIVEN two synthetic runs, THEN their comparison reads as it did when last looked at."""
    monkeypatch.chdir(tmp_path)
    shapes = {"before": Eager(benchmark=Bench()), "after": Eager(scale=0.9, benchmark=Bench(seed=5))}
    source = ComparedRuns.of(build_run(Path(name), shape) for name, shape in shapes.items())
    page = form == "page"
    text = words_of(comparison_page(source, Path())) if page else printed(comparison_answer(source, 80))
    compare(GOLDEN / f"comparison-{form}.txt", text)


def compare(file: Path, text: str) -> None:
    """Compare a text with its golden one; renew that where it was asked for."""
    if RENEW:
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    golden = file.read_text(encoding="utf-8").splitlines()
    changes = list(difflib.unified_diff(golden, text.splitlines(), "golden", "now", lineterm="", n=0))
    assert changes == [], "words changed: look at them, then `make golden`\n" + "\n".join(changes[:40])
