"""How bars say that a value is below grade C: hollow, with a dashed outline in their own colour.

A bar that adds several values up is hollow where all of them are below grade C; a dagger at its label tells
of any.
"""

from __future__ import annotations

from typing import Any

from energyscope.reporting.charts.records import altair

SOLID, DASHED, REST_DASH = [1, 0], [4, 3], [3, 2]
FULL, HOLLOW = 0.92, 0.15  # how opaque a bar is
PALE, HOLLOW_PALE = 0.42, 0.06  # the same of its static part, or of a bar behind it
REST, REST_PALE = 0.35, 0.22  # of glue, and of what is no component's or cannot be split
DAGGER = " \u2020"


def paint(*, hollow: bool, full: float = FULL) -> dict[str, Any]:
    """Return what a bar's record holds for `painted`: its fill and the dashes of its outline."""
    return {"fill": HOLLOW if hollow else full, "dash": DASHED if hollow else SOLID}


def painted(stroke: Any) -> dict[str, Any]:
    """Return the encodings of bars whose records hold `paint`; ``stroke`` encodes the outline's colour."""
    alt = altair()
    return {
        "fillOpacity": alt.FillOpacity("fill:Q", scale=None),
        "stroke": stroke,
        "strokeDash": alt.StrokeDash("dash:N", scale=None),
    }


def dagger(*, weak: bool) -> str:
    """Return what follows the label of a value that is, or that holds one, below grade C."""
    return DAGGER if weak else ""
