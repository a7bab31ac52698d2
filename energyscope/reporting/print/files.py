"""Write publication figures: PNG at a resolution, SVG and PDF at their physical size."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from energyscope.errors import RunError, UsageError
from energyscope.reasons import reason
from energyscope.reporting.charts.theme import Theme
from energyscope.reporting.print.comparative import comparative
from energyscope.reporting.print.drawing import draw
from energyscope.reporting.print.sheets import Sheet, sheets
from energyscope.reporting.run.report import Report
from energyscope.runs.files import write_bytes
from energyscope.runs.store import Run

FORMATS = ("png", "svg", "pdf")
THEMES: tuple[Theme, ...] = ("paper", *(name for name in get_args(Theme) if name != "paper"))
LEAST_DPI, MOST_DPI = 72, 1200
DIRECTORY = "figures"


@dataclass(frozen=True)
class WrittenFigure:
    """A figure's file, or why there is none (``path`` and ``format`` are None); or what the file lacks.

    ``reason`` is of `energyscope.reasons`.
    """

    figure: str
    path: Path | None = None
    format: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Options:
    """How figures are written, checked; ``replace`` files of the same names.

    Raises:
        UsageError: a format, theme or resolution is not one of those there are.

    """

    formats: tuple[str, ...] = ("png",)
    dpi: int = 300
    theme: Theme = "paper"
    replace: bool = True

    def __post_init__(self) -> None:
        """Refuse what cannot be written."""
        unknown = [name for name in self.formats if name not in FORMATS]
        if unknown or not self.formats:
            raise UsageError(f"--format {','.join(unknown) or 'is empty'}: choose of {', '.join(FORMATS)}")
        if not LEAST_DPI <= self.dpi <= MOST_DPI:
            raise UsageError(f"--dpi {self.dpi}: choose {LEAST_DPI} to {MOST_DPI}")
        if self.theme not in THEMES:
            raise UsageError(f"--theme {self.theme}: choose of {', '.join(THEMES)}")


def write_figures(runs: Sequence[Run], directory: Path, options: Options) -> Iterator[WrittenFigure]:
    """Write the figures of the first run and, with a second, the comparison; yield each as it is done.

    Raises:
        UsageError: the directory cannot be written, or holds such figures that are not to be replaced; a run is
            compared with itself.
        RunError: altair or vl-convert-python is missing.

    """
    if len({run.path.resolve() for run in runs}) < len(runs):
        raise UsageError(f"{runs[0].name} is given twice: name another run to compare it with, or one alone")
    _prepare(directory)
    reports = [Report(run) for run in runs]
    figures = [*sheets(reports[0]), *(comparative(reports[0], other) for other in reports[1:])]
    files = [directory / f"{sheet.stem}.{name}" for sheet in figures if sheet.rows for name in options.formats]
    taken = next((path for path in files if os.path.lexists(path)), None)
    if taken and not options.replace:
        raise UsageError(f"{taken} exists already: choose another --output, or replace it with --force")
    for sheet in figures:
        yield from _write(sheet, directory, options)


def _write(sheet: Sheet, directory: Path, options: Options) -> Iterator[WrittenFigure]:
    if not sheet.rows:
        yield WrittenFigure(sheet.stem, reason=sheet.reason)
        return
    try:
        svg = draw(sheet, options.theme)
    except RunError as error:
        yield WrittenFigure(sheet.stem, reason=reason("cannot-be-drawn", error=str(error)))
        return
    for name in options.formats:
        path = directory / f"{sheet.stem}.{name}"
        try:
            write_bytes(path, encoded(svg, name, options.dpi))
        except OSError as error:
            raise _unwritable(path, error) from error
        yield WrittenFigure(sheet.stem, path, name, sheet.reason)


def encoded(svg: str, name: str, dpi: int) -> bytes:
    """Return a drawn sheet as a file of this format; one unit of the SVG is a point in all of them."""
    import vl_convert

    if name == "png":
        return bytes(vl_convert.svg_to_png(svg, ppi=dpi))
    if name == "pdf":
        return bytes(vl_convert.svg_to_pdf(svg))
    # a bare number would be pixels, of which 96 are an inch
    return (
        re.sub(r'width="([\d.]+)" height="([\d.]+)"', r'width="\1pt" height="\2pt"', svg, count=1).encode() + b"\n"
    )


def _prepare(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise _unwritable(directory, error) from error


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"cannot write to {path} ({error.strerror or error}): choose another --output")
