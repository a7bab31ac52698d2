"""Text beside the panels: how wide it is, where its lines break, and the SVG elements that show it."""

from __future__ import annotations

import unicodedata
from xml.etree import ElementTree as ET

from energyscope.reporting.charts.theme import PRINT_FONT

SVG = "http://www.w3.org/2000/svg"

# Advance widths of the print font's groups of characters, in parts of its size.
_NARROW, _WIDE = frozenset("iljtfrI.,;:'|!()[]{}/\\ -\u00b7\u2019"), frozenset("mwMW@%\u2026\u2014")


def width(text: str, size: float, *, bold: bool = False) -> float:
    """Return about how wide a line is, in the unit of ``size``, rather too wide than too narrow."""
    return sum(map(_advance, text)) * size * (1.08 if bold else 1.0)


def _advance(character: str) -> float:
    if character in _NARROW:
        return 0.32
    if character in _WIDE:
        return 0.92
    if unicodedata.east_asian_width(character) in {"W", "F"}:
        return 1.0
    return 0.70 if character.isupper() else 0.56


def lines(text: str, size: float, room: float) -> list[str]:
    """Break text into lines that fit; a word that does not is cut, with an ellipsis."""
    found: list[str] = []
    for word in text.split():
        whole = f"{found[-1]} {word}" if found else word
        if found and width(whole, size) <= room:
            found[-1] = whole
        else:
            found.append(shortened(word, size, room))
    return found


def shortened(text: str, size: float, room: float, *, bold: bool = False) -> str:
    """Return text cut to fit, with an ellipsis where something is missing."""
    if width(text, size, bold=bold) <= room:
        return text
    while text and width(text + "\u2026", size, bold=bold) > room:
        text = text[:-1]
    return text.rstrip() + "\u2026"


def element(text: str, at: tuple[float, float], size: float, colour: str, *, bold: bool = False) -> ET.Element:
    """Return an SVG text that begins ``at`` (x, baseline)."""
    attributes = {
        "x": f"{at[0]:.2f}",
        "y": f"{at[1]:.2f}",
        "font-family": PRINT_FONT,
        "font-size": f"{size:g}",
        "fill": colour,
    }
    found = ET.Element(f"{{{SVG}}}text", attributes | ({"font-weight": "bold"} if bold else {}))
    found.text = text
    return found
