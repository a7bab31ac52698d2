"""Texts on a terminal: whatever a name holds, it is shown and does nothing."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text
from run_builder import Shape, build_run

from energyscope.reporting.comparison.source import ComparedRuns
from energyscope.reporting.comparison.terminal import answer_of
from energyscope.reporting.listing import describe, runs_table
from energyscope.reporting.run import terminal
from energyscope.reporting.terminal_text import Sanitized, printable
from energyscope.runs.index import Indexed

HOSTILE = ["\x1b[2Jgone", "a\nb", "a\rb", "\x1b]0;title\x07", "a\x08b", "\u202eright", "\x9b31m", "\udc80", "a\tb"]


def _drawn(renderable: RenderableType, width: int = 40, colour: str | None = None) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=colour)  # type: ignore[arg-type]
    console.print(renderable)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


@given(st.text())
def test_a_printable_text_is_one_line_of_printable_characters(text: str) -> None:
    """Whatever the text, what is left of it is printable, in one line, and can be encoded."""
    left = printable(text)
    assert left.isprintable()
    assert printable(left) == left
    left.encode()


@given(st.text(alphabet=st.characters(categories=["L", "N", "P", "S"]), min_size=1))
def test_an_ordinary_name_stays_as_it_is(name: str) -> None:
    """Letters of any script, digits, brackets and signs are not touched."""
    assert printable(name) == name


@pytest.mark.parametrize("name", HOSTILE)
def test_no_control_character_leaves_a_table(name: str) -> None:
    """GIVEN names that would clear the screen, move the cursor or set the title, THEN a table only holds lines."""
    table = Table(title=Text(name))
    table.add_column(Text(name))
    table.add_row(Text(f"before {name} after"))
    printed = _drawn(Sanitized(table))
    assert [letter for letter in printed if not letter.isprintable() and letter != "\n"] == []
    assert "before" in printed
    assert "after" in printed


def test_colours_pass() -> None:
    """GIVEN a styled text with a control character, THEN the style is drawn and the character is not."""
    printed = _drawn(Sanitized(Text("\x1b[2Jred", style="red")), colour="standard")
    assert printed == "\x1b[31m [2Jred\x1b[0m\n"


def test_hostile_runs_do_nothing_to_the_terminal(tmp_path: Path) -> None:
    """GIVEN control characters and line breaks in names of run, model, device and layer, THEN only tables."""
    hostile = "\x1b]0;owned\x07\x1b[2J[bold]\n\r"
    run = build_run(
        tmp_path / "run",
        Shape(granularity="medium", rename=lambda name: name.replace("lm_head", f"head{hostile}")),
        model={"name": f"model{hostile}"},
        device={"name": f"device{hostile}"},
    )
    run = replace(run, document={**run.document, "name": f"run{hostile}"})
    console = Console(file=io.StringIO(), width=100, force_terminal=True, color_system=None)
    differences = answer_of(ComparedRuns.of([run, run]), 100)
    listed = Indexed(Path(f"run{hostile}"), describe(run.path))
    runs = runs_table([listed]).filled().rich(100)
    for drawn in (terminal.answer_of(run, 100), runs, differences):
        console.print(Sanitized(drawn))
    for table in (None, "energy"):
        terminal.show(run, console, table)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert {letter for letter in printed if not letter.isprintable()} == {"\n"}
    for name in ("head", "model", "device", "run"):
        assert f"{name} ]0;owned" in " ".join(printed.split())
