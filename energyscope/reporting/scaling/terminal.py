"""Laws in the terminal: the answer of their page, and its tables; nothing is fitted again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from energyscope import reasons
from energyscope.reporting.page import sentence
from energyscope.reporting.scaling import page  # noqa: F401 - registers the sections
from energyscope.reporting.scaling.answer import LawsAnswer
from energyscope.reporting.scaling.contrasts import pairs_of
from energyscope.reporting.scaling.fits import law_facts
from energyscope.reporting.scaling.laws import LAWS, WHOLE, Laws
from energyscope.reporting.section import tables
from energyscope.reporting.table import Table
from energyscope.reporting.terminal_text import printable
from energyscope.runs.schema import LAWS_JSON, REPORT_FILE

if TYPE_CHECKING:
    from rich.console import RenderableType


def laws_text(laws: Laws, width: int) -> RenderableType:
    """Return the answer, the laws and gains of each group, contrasts, sizes, and what must be known."""
    from rich.console import Group

    return Group(*_whole(laws, width))


def laws_brief(laws: Laws) -> RenderableType:
    """Return the answer in a few lines, with a sentence for each group where there are several."""
    from rich.console import Group
    from rich.text import Text

    answer = LawsAnswer(laws)
    lines = [
        sentence("laws/group.txt.j2", label=label, facts=law_facts(laws, group))
        for label, group in zip(laws.labels, laws.groups, strict=True)
    ]
    return Group(*_answer(answer), *(Text(printable(line)) for line in lines), *_last(answer))


def _whole(laws: Laws, width: int) -> Iterator[RenderableType]:
    from rich.text import Text

    answer, named_tables = LawsAnswer(laws), tables(LAWS.shown(laws))
    yield Text(printable(", ".join(laws.models)), style="bold")
    yield Text(printable(" \u00b7 ".join(chip.text for chip in answer.chips)), style="dim")
    yield from _warnings(answer)
    yield from _answer(answer)
    for index, (label, group) in enumerate(zip(laws.labels, laws.groups, strict=True)):
        yield Text("")
        facts = law_facts(laws, group)
        yield Text(printable(sentence("laws/group.txt.j2", label=label, facts=facts)), style="bold")
        if not group.get("reason"):
            yield named_tables[f"laws-{index}"].filled().rich(width)
        remarks = named_tables[f"remarks-{index}"].rows if f"remarks-{index}" in named_tables else []
        for row in (row for row in remarks if facts["slope"] or row["remark"] != facts["reason"]):
            parts = f"{row['parts']}: " if row["parts"] else ""
            yield Text(printable(parts + reasons.words(row["remark"])), style="dim")
        if f"gains-{index}" in named_tables:
            yield from _tables(named_tables[f"gains-{index}"], width)
    ratios = [f"ratios-of-{index}" for index in range(len(pairs_of(laws)))]
    shown = [
        named_tables[name]
        for name in ("limits", "limits-parts", *ratios, "exponents", "sizes")
        if name in named_tables
    ]
    if left_out := named_tables.get("left-out"):
        whole = [row for row in left_out.rows if row["kind"] == WHOLE]
        shown.append(Table(left_out.columns, whole, left_out.title))
    shown += [named_tables[name] for name in ("held-out", "not-measured") if name in named_tables]
    for table in shown:
        yield from _tables(table, width)
    yield Text("")
    for note in laws.document["notes"]:
        yield Text(printable(f"note: {reasons.words(note)}"), style="yellow")
    yield from _last(answer)


def _warnings(answer: LawsAnswer) -> Iterator[RenderableType]:
    from rich.text import Text

    for chip in answer.chips:
        if chip.tone == "warn" and chip.hint:
            yield Text(printable(f"{chip.text}: {chip.hint}"), style="bold yellow")


def _answer(answer: LawsAnswer) -> Iterator[RenderableType]:
    from rich.text import Text

    yield Text(printable(answer.sentence), style="bold")
    yield Text(printable(answer.follows))


def _last(answer: LawsAnswer) -> Iterator[RenderableType]:
    from rich.text import Text

    page_file, folder = answer.laws.folder / REPORT_FILE, answer.laws.folder
    missing = f"not drawn here: energyscope report {folder}"
    yield Text.assemble(("Can I trust this? ", "bold"), printable(answer.trust))
    yield Text(printable(f"Page: {page_file if page_file.is_file() else missing}"), overflow="fold")
    yield Text(printable(f"Data: {folder / LAWS_JSON}"), overflow="fold")


def _tables(table: Table, width: int) -> Iterator[RenderableType]:
    from rich.text import Text

    yield Text("")
    yield table.filled().rich(width)
