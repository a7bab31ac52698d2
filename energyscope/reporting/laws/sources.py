"""The cells that laws come from, with links to their runs; what was not measured; method and limits."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from energyscope.reporting import text
from energyscope.reporting.figure import Table
from energyscope.reporting.laws import names
from energyscope.reporting.laws.document import Found


@dataclass(frozen=True)
class Source:
    """A row of the table of cells: the run's name, a relative link to it (None if it is gone), its fields."""

    run: str
    link: str | None
    cells: list[str]


_FEW = 5  # cells of a group
COLUMNS = (
    "model", "phase", "precision", "execution", "batch", "tokens", "grade", "KV cache", "weights", "meter", "board"
)  # fmt: skip


def sources(document: Found, folder: Path, board_names: Mapping[str, str]) -> list[Source]:
    """Return the document's cells in its order; ``folder`` is where the page will stand."""
    return [_source(one, folder, board_names) for one in document.get("sources") or ()]


def _source(one: Found, folder: Path, board_names: Mapping[str, str]) -> Source:
    cells = [
        names.value_of(field, one.get(field), board_names) if one.get(field) is not None else "\u2013"
        for field in ("model", "phase", "precision", "execution")
    ]
    cells += [f"{one[field]:,}" if one.get(field) is not None else "\u2013" for field in ("batch_size", "tokens")]
    cells += [str(one.get(field) or "\u2013") for field in ("quality", "kv_cache", "weights", "meter")]
    board = one.get("board")
    return Source(
        str(one.get("run")), _link(one, folder), [*cells, board_names.get(str(board), str(board or "\u2013"))]
    )


def _link(one: Found, folder: Path) -> str | None:
    """Return a relative link to a run's page, or to its directory; None where neither is there any more.

    A directory that was moved with its cells is found by the cells' names.
    """
    run, given = str(one.get("run") or ""), str(one.get("path") or "")
    candidates = [folder / given if given else None, folder / run if run else None]
    for candidate in candidates:
        if candidate is None or not _is_directory(candidate) or candidate.resolve() == folder.resolve():
            continue
        page = candidate / "report.html"
        return relative_link(page, folder) if page.is_file() else f"{relative_link(candidate, folder)}/"
    return None


def relative_link(target: Path, folder: Path) -> str:
    """Return a link to a file or directory from a page in ``folder``."""
    return quote(f"./{Path(os.path.relpath(target, folder)).as_posix()}")


def _is_directory(path: Path) -> bool:
    """Whether there is such a directory; a name that no file can have is none."""
    try:
        return path.is_dir()
    except OSError:
        return False


def not_measured(document: Found) -> Table:
    """Return the cells of sweeps that were not measured, and why."""
    rows = [
        [
            "/".join(str(one[name]) for name in ("sweep", "cell") if one.get(name)),
            str(one.get("state")),
            str(one.get("reason") or "no reason was given"),
        ]
        for one in document.get("not_measured") or ()
    ]
    return Table(["cell", "state", "why"], rows)


_LAWS_OF_CELLS = (
    "Each cell is a run of its own, measured component by component; a subject is a kind of component, summed "
    "over the model, or the whole model. Cells of different models, phases, precisions, executions, KV caches, "
    "weights, meters or boards are never mixed in a law, but models are where one is foretold from the others."
)
_TWO_TERM = (
    "The two-term law E = E0 + k \u00d7 FLOPs (CLEAR, arXiv 2510.02810) is fitted by least squares, weighted by"
    " each cell's relative deviation; intervals are Student's, with the scale of the residuals. It holds up to "
    "the largest range, from the smallest cell upwards, in which each cell lies within 10 % of what the others'"
    " law says of it."
)
_ROOFLINE = (
    "The roofline law is static power \u00d7 time, which launches, compute or memory limit, and what calls, "
    "FLOPs and bytes cost beyond it, none of which may be negative."
)
_HELD_OUT = (
    "A held-out error is that of cells which the law was not fitted on. The better law of a subject is the one "
    "with the least median of them, so that this median flatters it a little."
)
_SIZES = "Sizes are compared at the same shape; shares are of each model's own measured whole."
_BOARD = (
    "Intervals hold what varied while measuring; the absolute calibration of the board's sensor (about 5 %) "
    "lies outside them. Another board of the same type may differ by more."
)
_BEYOND = (
    "A law says nothing of shapes beyond its cells until it is tried there; a high R\u00b2 over two orders of "
    "magnitude hides errors of its smallest cells."
)


def method(document: Found) -> list[str]:
    """Say how the laws came about, for the parts that this page has."""
    subjects = _subjects(document)
    roofline = any((one.get("roofline") or {}).get("static_w") is not None for one in subjects)
    shown = (
        (_LAWS_OF_CELLS, True),
        (_TWO_TERM, True),
        (_ROOFLINE, roofline),
        (_HELD_OUT, any(one.get("held_out") for one in subjects)),
        (_SIZES, bool(document.get("sizes"))),
    )
    return [said for said, holds in shown if holds]


def _subjects(document: Found) -> list[Found]:
    return [one for group in document.get("groups") or () for one in group.get("subjects") or ()]


def limits(document: Found) -> list[str]:
    """Say what these laws do not show."""
    modelled = "Energy is time multiplied by stated watts: these laws are laws of time."
    found = [modelled if document.get("modelled") else _BOARD, _BEYOND]
    groups = document.get("groups") or ()
    few = sum(0 < len(group.get("cells") or ()) < _FEW for group in groups)
    if few:
        found.append(
            f"{few} of {text.count(len(groups), 'group')} with fewer than {_FEW} cells: what is said of intervals "
            "and left-out cells rests on little there."
        )
    return found
