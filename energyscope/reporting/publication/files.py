"""Write publication figures: PNG at a resolution, SVG and PDF at their physical size."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from energyscope.errors import RunError, UsageError
from energyscope.reporting.charts.theme import Theme
from energyscope.reporting.publication.comparative import comparative
from energyscope.reporting.publication.drawing import draw
from energyscope.reporting.publication.sheet import Missing, Sheet
from energyscope.reporting.publication.sheets import sheets
from energyscope.reporting.publication.source import source
from energyscope.runs.store import Run

FORMATS = ("png", "svg", "pdf")
THEMES: tuple[Theme, ...] = ("paper", *(name for name in get_args(Theme) if name != "paper"))
LEAST_DPI, MOST_DPI = 72, 1200
DIRECTORY = "figures"


@dataclass(frozen=True)
class Made:
    """A figure's file, or why there is none (``path`` and ``format`` are None); or what the file lacks."""

    figure: str
    path: Path | None
    format: str | None
    reason: str | None = None


@dataclass(frozen=True)
class Options:
    """How figures are written, checked.

    Raises:
        UsageError: a format, theme or resolution is not one of those there are.

    """

    formats: tuple[str, ...] = ("png",)
    dpi: int = 300
    theme: Theme = "paper"
    replace: bool = True  # files of the same names

    def __post_init__(self) -> None:
        """Refuse what cannot be written."""
        unknown = [name for name in self.formats if name not in FORMATS]
        if unknown or not self.formats:
            raise UsageError(f"--format {','.join(unknown) or 'is empty'}: choose of {', '.join(FORMATS)}")
        if not LEAST_DPI <= self.dpi <= MOST_DPI:
            raise UsageError(f"--dpi {self.dpi}: choose {LEAST_DPI} to {MOST_DPI}")
        if self.theme not in THEMES:
            raise UsageError(f"--theme {self.theme}: choose of {', '.join(THEMES)}")


def write_figures(runs: Sequence[Run], directory: Path, options: Options) -> Iterator[Made]:
    """Write the six figures of the first run and, with a second, the comparison; yield each as it is done.

    Raises:
        UsageError: the directory cannot be written, or holds such figures that are not to be replaced.
        RunError: altair or vl-convert-python is missing.

    """
    _prepare(directory)
    sources = [source(run) for run in runs]
    found = sheets(sources[0])
    if len(sources) > 1:
        found.append(comparative(sources[0], sources[1]))
    if not options.replace:
        _refuse_to_replace([one.stem for one in found if isinstance(one, Sheet)], directory, options.formats)
    for sheet in found:
        if isinstance(sheet, Missing):
            yield Made(sheet.stem, None, None, sheet.reason)
        else:
            yield from _write(sheet, directory, options)


def _write(sheet: Sheet, directory: Path, options: Options) -> Iterator[Made]:
    try:
        svg = draw(sheet, options.theme)
    except RunError as error:
        yield Made(sheet.stem, None, None, str(error))
        return
    reason = "; ".join(sheet.left_out) or None
    for name in options.formats:
        path = directory / f"{sheet.stem}.{name}"
        _replace(path, encoded(svg, name, options.dpi))
        yield Made(sheet.stem, path, name, reason)


def encoded(svg: str, name: str, dpi: int) -> bytes:
    """Return a drawn sheet as a file of this format; one unit of the SVG is a point in all of them."""
    import vl_convert

    if name == "png":
        return bytes(vl_convert.svg_to_png(svg, ppi=dpi))
    if name == "pdf":
        return bytes(vl_convert.svg_to_pdf(svg))
    opening, rest = svg.split(">", 1)
    for side in ("width", "height"):
        opening = _in_points(opening, side)
    return f"{opening}>{rest}\n".encode()


def _in_points(opening: str, side: str) -> str:
    """Give a side of the root element its unit: a bare number is pixels, of which 96 are an inch."""
    before, value = opening.split(f' {side}="', 1)
    number, after = value.split('"', 1)
    return f'{before} {side}="{number}pt"{after}'


def _refuse_to_replace(stems: Sequence[str], directory: Path, formats: Sequence[str]) -> None:
    """Refuse before anything is drawn: the files may be another run's."""
    paths = (directory / f"{stem}.{name}" for stem in stems for name in formats)
    if first := next((path for path in paths if os.path.lexists(path)), None):
        raise UsageError(f"{first} exists already: choose another --output, or replace it with --force")


def _prepare(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise UsageError(
            f"cannot write to {directory} ({error.strerror or error}): choose another --output"
        ) from error


def _replace(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old one or the new one, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        raise UsageError(f"cannot write {path} ({error.strerror or error}): choose another --output") from error
    finally:
        temporary.unlink(missing_ok=True)
