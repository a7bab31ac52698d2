"""A comparison in the terminal: the page's answer in at most 25 lines, and everything as JSON."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from benchmark_builder import Bench
from generation_builder import Inference, build_inference
from page_gallery import HOSTILE, hostile_run
from rich.console import Console
from run_builder import Eager, Shape, build_run

from energyscope.reporting.comparison.answer import ComparisonAnswer
from energyscope.reporting.comparison.source import ComparedRuns
from energyscope.reporting.comparison.terminal import MOST_LINES, answer_of, record
from energyscope.reporting.terminal_text import Sanitized
from energyscope.runs.store import Run

KINDS: dict[str, Callable[[Path], list[Run]]] = {
    "less": lambda path: [
        build_run(path / "a", Eager()),
        build_run(path / "b", Eager(scale=0.9, benchmark=Bench())),
    ],
    "board": lambda path: [
        build_run(path / "a", Eager()),
        build_run(path / "b", Eager(), device={"uuid": "GPU-2"}),
    ],
    "generation": lambda path: [
        build_inference(path / name, Inference(layers=2 + at, contexts=(1024, 128)))
        for at, name in enumerate("ab")
    ],
    "benchmark": lambda path: [
        build_run(path / name, Shape(profile=False, benchmark=Bench(seed=seed))) for seed, name in enumerate("ab")
    ],
    "many": lambda path: [build_run(path / f"run-{at}", Shape(scale=1 + at / 10)) for at in range(12)],
    "nothing": lambda path: [build_run(path / name, Shape(profile=False, impact=False)) for name in "ab"],
}


def _lines(source: ComparedRuns, width: int) -> list[str]:
    console = Console(width=width, file=io.StringIO())
    console.print(Sanitized(answer_of(source, width, "runs/comparisons/page.html")))
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("kind", KINDS)
def test_the_answer_fits(tmp_path: Path, kind: str, width: int) -> None:
    """GIVEN any runs, THEN at most 25 lines that fit, with the page's sentences, and its place at the end."""
    source = ComparedRuns.of(KINDS[kind](tmp_path))
    lines = _lines(source, width)
    text = " ".join(" ".join(lines).split())
    assert len(lines) <= MOST_LINES
    assert all(len(line) <= width for line in lines)
    answer = ComparisonAnswer(source.others[0])
    for sentence in (answer.sentence, answer.cause, answer.trust):
        assert " ".join(sentence.split()) in text
    assert lines[-1].endswith("page.html")


def test_json_has_every_difference(tmp_path: Path) -> None:
    """GIVEN --json, THEN every part stands in it with codes, and the answers stand beside."""
    source = ComparedRuns.of(KINDS["board"](tmp_path))
    document = json.loads(json.dumps(record(source)))
    (pair,) = document["pairs"]
    assert pair["obstacles"] == [
        {"field": "device.uuid", "name": "GPU board", "baseline": "GPU-1111", "other": "GPU-2"}
    ]
    assert len(pair["parts"]) == len(source.comparison.pairs[0].parts)
    assert {part["verdict"] for part in pair["parts"]} == {"not-comparable"}
    assert document["answers"][0]["other"] == "b"


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_do_nothing(tmp_path: Path, name: str) -> None:
    """GIVEN hostile names, THEN the terminal gets printable text alone."""
    runs = [hostile_run(tmp_path / run, f"{HOSTILE[name]}\x1b]0;owned\x07") for run in "ab"]
    assert all(line.isprintable() for line in _lines(ComparedRuns.of(runs), 100))
