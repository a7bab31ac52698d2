"""What every page is made of beside its template: script, style, charts as data, and the policy that guards it.

The pages share one script, whose parts stand in ``templates/report``: a part that finds nothing of its own on a
page does nothing there.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Iterable
from functools import cache
from typing import Any

from energyscope.errors import RunError
from energyscope.reporting.charts import theme
from energyscope.reporting.figure import Figure, View
from energyscope.reporting.templates import templates_directory

SCRIPT_PARTS = ("page", "charts", "switches", "scenes", "landing", "table", "selection", "downloads", "start")


def page_script() -> str:
    """Return the script of the pages: its parts as one, so that none of their names is global."""
    folder = templates_directory() / "report"
    parts = [(folder / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPT_PARTS]
    return '"use strict";\n(function () {\n' + "\n".join(parts) + "})();\n"


def page_style(*names: str) -> str:
    """Return the style sheets with these names, one after the other."""
    return "".join((templates_directory() / name).read_text(encoding="utf-8") for name in names)


def chart_payload(figures: Iterable[Figure]) -> dict[str, Any]:
    """Return what the script needs to draw figures and to switch between their views.

    ``specs`` holds the drawing of a figure under its name, and that of a view under ``name--key``; ``views`` the
    words and the table of each view, by figure and key.
    """
    drawn = list(figures)
    specs = {figure.name: theme.spec(figure.chart) for figure in drawn}
    specs |= {f"{figure.name}--{view.key}": theme.spec(view.chart) for figure in drawn for view in figure.views}
    return {
        "specs": specs,
        "views": {
            figure.name: {view.key: _shown(view) for view in figure.views} for figure in drawn if figure.views
        },
        "themes": {"light": theme.config("light"), "dark": theme.config("dark")},
    }


def _shown(view: View) -> dict[str, Any]:
    """Return what a view puts in the place of the figure's own words."""
    return {
        "title": view.title,
        "caption": view.caption,
        "summary": view.summary,
        "notes": view.notes,
        "table": {"columns": view.table.columns, "rows": view.table.rows},
    }


def json_for_script(value: Any) -> str:
    """Write JSON that may stand inside a script element: no text in it can end the element or open a comment."""
    written = json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character, escaped in (("</", "<\\/"), ("<!", "\\u003c!"), ("\u2028", "\\u2028"), ("\u2029", "\\u2029")):
        written = written.replace(character, escaped)
    return written


def _finite(value: Any) -> Any:
    """Replace what JSON cannot hold, and leave out digits that no chart can show."""
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.7g}") if math.isfinite(value) else None
    return value


@cache
def vega_bundle() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script; wrapped, so that only ``vegaEmbed`` is global.

    Raises:
        RunError: vl-convert-python is not installed.

    """
    try:
        import vl_convert
    except ImportError as error:
        raise RunError("the report needs vl-convert-python: pip install energyscope-llm") from error
    version = theme.altair().SCHEMA_VERSION.removeprefix("v").rpartition(".")[0]
    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=version)
    return "(function(){" + bundle.replace("</script", "<\\/script") + "\n})();"


def content_policy(*scripts: str) -> str:
    """Return a content security policy under which these scripts run, no other, and nothing is fetched."""
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
