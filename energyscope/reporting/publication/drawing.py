"""Draw a sheet as one SVG: each panel by Vega, then all of them set beside each other at their physical size.

Vega can concatenate charts, but then their plots have given sizes and the whole has whatever width comes of the
labels. Here the whole has the column's width, and each panel a legend and scales of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from xml.etree import ElementTree as ET

from energyscope.errors import RunError
from energyscope.reporting.charts import theme
from energyscope.reporting.publication import lettering
from energyscope.reporting.publication.lettering import SVG
from energyscope.reporting.publication.sheet import FONT_SIZE, LETTER_SIZE, Key, Panel, Sheet
from energyscope.reporting.publication.specs import configuration, printable, specification

GAP_X, GAP_Y, MARGIN = 14.0, 9.0, 3.0
LINE, TITLE = 9.5, 12.5  # heights of a line of text and of a panel's title
_KEY_GAP = 30.0  # a key's symbol and what is free beside it
_XLINK = "http://www.w3.org/1999/xlink"
_SHAPES = {  # of the keys of a legend, around the origin; their names are Vega's
    "circle": "M3,0A3,3,0,1,1,-3,0A3,3,0,1,1,3,0Z",
    "diamond": "M0,-3.8L3.8,0L0,3.8L-3.8,0Z",
    "square": "M-2.7,-2.7H2.7V2.7H-2.7Z",
    "triangle-up": "M0,-3.2L3.4,2.7H-3.4Z",
    "triangle-down": "M0,3.2L3.4,-2.7H-3.4Z",
    "cross": "M-1.1,-3.3H1.1V-1.1H3.3V1.1H1.1V3.3H-1.1V1.1H-3.3V-1.1H-1.1Z",
}


@dataclass(frozen=True)
class Picture:
    """A panel that Vega has drawn, with its size in its own pixels."""

    content: ET.Element
    width: float
    height: float


def draw(sheet: Sheet, name: theme.Theme) -> str:
    """Return a sheet as SVG, as wide as the sheet in user units, of which one is a point.

    Raises:
        RunError: vl-convert-python is missing, or Vega cannot draw a panel.

    """
    ET.register_namespace("", SVG)
    ET.register_namespace("xlink", _XLINK)
    page = ET.Element(f"{{{SVG}}}svg")
    ET.SubElement(page, f"{{{SVG}}}title").text = printable(sheet.title)
    paper = ET.SubElement(page, f"{{{SVG}}}rect", {"fill": theme.background(name)})
    y = MARGIN + _draw_keys(page, sheet, name)
    many = len(sheet.panels) > 1
    letter = 0
    for index, row in enumerate(sheet.rows):
        y += GAP_Y if index else 0.0
        head = _head_height(row, titled=many)
        pictures = _pictures(row, sheet, name)
        x = MARGIN
        for panel, picture, width in zip(row, pictures, _widths(row, sheet), strict=True):
            mark = f"({chr(ord('a') + letter)})" if many else None
            _draw_head(page, panel, mark, (x, y, width), name)
            place = f"translate({x:.2f},{y + head:.2f}) scale({sheet.scale:g})"
            page.append(_placed(picture, place, f"p{letter}-"))
            x, letter = x + width + GAP_X, letter + 1
        y += head + max(picture.height for picture in pictures) * sheet.scale
    y = _draw_notes(page, sheet, y, name) + MARGIN
    return _sized(page, paper, sheet.width, y)


def _sized(page: ET.Element, paper: ET.Element, width: float, height: float) -> str:
    size = {"width": f"{width:g}", "height": f"{height:.1f}"}
    paper.attrib.update(size)
    page.attrib.update({"version": "1.1", "role": "img", **size, "viewBox": f"0 0 {width:g} {height:.1f}"})
    return ET.tostring(page, encoding="unicode")


def _widths(row: list[Panel], sheet: Sheet) -> list[float]:
    """Return the panels' widths in points."""
    room = sheet.width - 2 * MARGIN - GAP_X * (len(row) - 1)
    return [room * panel.share / sum(other.share for other in row) for panel in row]


def _pictures(row: list[Panel], sheet: Sheet, name: theme.Theme) -> list[Picture]:
    """Draw a row's panels, then those that came out lower again, as high as the highest."""
    widths = [width / sheet.scale for width in _widths(row, sheet)]
    found = [_picture(panel, width, None, name) for panel, width in zip(row, widths, strict=True)]
    highest = max(picture.height for picture in found)
    return [
        picture if picture.height > highest - 1 else _picture(panel, width, highest, name)
        for panel, picture, width in zip(row, found, widths, strict=True)
    ]


def _picture(panel: Panel, width: float, whole: float | None, name: theme.Theme) -> Picture:
    try:
        import vl_convert
    except ImportError as error:
        raise RunError("drawing figures needs vl-convert-python: pip install energyscope-llm") from error
    spec = specification(panel.chart, width, whole or panel.height, theme.background(name), fill=whole is not None)
    version = theme.altair().SCHEMA_VERSION.removeprefix("v").rpartition(".")[0]
    try:
        svg = vl_convert.vegalite_to_svg(
            spec, vl_version=version, config=configuration(name, width), allowed_base_urls=[]
        )
        root = ET.fromstring(svg)  # noqa: S314 - Vega's own output, of which printable() made the texts
    except (ValueError, ET.ParseError) as error:
        raise RunError(f"the panel {panel.title!r} cannot be drawn ({error}): please report it") from error
    return Picture(root, float(root.attrib["width"]), float(root.attrib["height"]))


def _placed(picture: Picture, transform: str, prefix: str) -> ET.Element:
    """Return a panel's marks at their place, with names of clips and gradients that no other panel has."""
    group = ET.Element(f"{{{SVG}}}g", {"transform": transform})
    group.extend(list(picture.content))
    for part in group.iter():
        for key, value in part.attrib.items():
            if key == "id":
                part.attrib[key] = prefix + value
            elif value.startswith("url(#"):
                part.attrib[key] = f"url(#{prefix}{value[5:]}"
            elif key.endswith("href") and value.startswith("#"):
                part.attrib[key] = f"#{prefix}{value[1:]}"
    return group


def _head_height(row: list[Panel], *, titled: bool) -> float:
    return (TITLE if titled else 0.0) + LINE * max(len(panel.said) for panel in row)


def _draw_head(
    page: ET.Element, panel: Panel, mark: str | None, at: tuple[float, float, float], name: theme.Theme
) -> None:
    x, y, width = at
    if mark is not None:
        page.append(lettering.element(mark, (x, y + LETTER_SIZE), LETTER_SIZE, theme.ink(name), bold=True))
        room = width - 15
        title = lettering.shortened(printable(panel.title), LETTER_SIZE, room, bold=True)
        page.append(lettering.element(title, (x + 15, y + LETTER_SIZE), LETTER_SIZE, theme.ink(name), bold=True))
        y += TITLE
    for line in panel.said:
        said = lettering.shortened(printable(line), FONT_SIZE, width)
        page.append(lettering.element(said, (x, y + FONT_SIZE), FONT_SIZE, theme.ink(name)))
        y += LINE


def _draw_keys(page: ET.Element, sheet: Sheet, name: theme.Theme) -> float:
    """Draw the legend that all panels share; return the height that it takes."""
    if not sheet.keys:
        return 0.0
    x = MARGIN
    room = sheet.width - 2 * MARGIN
    names = [printable(key.name) for key in sheet.keys]
    fits = sum(lettering.width(said, LETTER_SIZE) + _KEY_GAP for said in names) <= room
    most = room if fits else room / len(names)
    for key, written in zip(sheet.keys, names, strict=True):
        said = lettering.shortened(written, LETTER_SIZE, most - _KEY_GAP)
        _draw_key(page, Key(said, key.colour, key.shape), (x, MARGIN + LETTER_SIZE), name)
        x += lettering.width(said, LETTER_SIZE) + _KEY_GAP
    return TITLE + 3


def _draw_key(page: ET.Element, key: Key, at: tuple[float, float], name: theme.Theme) -> None:
    x, y = at
    symbol = {"d": _SHAPES[key.shape], "fill": key.colour, "transform": f"translate({x + 4:.2f},{y - 2.8:.2f})"}
    ET.SubElement(page, f"{{{SVG}}}path", symbol)
    page.append(lettering.element(key.name, (x + 11, y), LETTER_SIZE, theme.ink(name)))


def _draw_notes(page: ET.Element, sheet: Sheet, y: float, name: theme.Theme) -> float:
    """Draw the notes below the panels; return where they end."""
    y += 4 if sheet.notes else 0
    for note in sheet.notes:
        for line in lettering.lines(printable(note), FONT_SIZE, sheet.width - 2 * MARGIN):
            page.append(lettering.element(line, (MARGIN, y + FONT_SIZE), FONT_SIZE, theme.ink(name)))
            y += LINE
    return y
