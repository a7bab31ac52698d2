"""The report: one HTML file that needs nothing else, and that no request leaves.

The page carries Vega once, the charts as data, and a content security policy that forbids the network and every
script but the two that are in it (by their hashes). Whatever comes from models, data or users is escaped.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from energyscope.errors import RunError
from energyscope.reporting import text
from energyscope.reporting.charts import theme
from energyscope.reporting.data import generation_words, report_data
from energyscope.reporting.data.correlate import UNDECIDED, coefficient_text, column_title, p_text
from energyscope.reporting.data.faithful import ratio_text
from energyscope.reporting.data.scenes import scene_table
from energyscope.reporting.figures import figures
from energyscope.reporting.rows import component_columns, component_rows
from energyscope.reporting.templates import environment, templates_directory
from energyscope.runs import schema
from energyscope.runs.store import Run, load_run, write_text

if TYPE_CHECKING:
    from jinja2 import Environment


def write_report(path: Path) -> Path:
    """Render a run's report into its directory and return the file's path.

    Raises:
        RunError: the run cannot be read, or its directory cannot be written.

    """
    run = load_run(path)
    target = run.path / schema.REPORT_FILE
    page = render(run)
    try:
        write_text(target, page)
    except OSError as error:
        raise RunError(f"cannot write {target}: {error.strerror or error}") from error
    return target


def render(run: Run) -> str:
    """Return a run's report as one self-contained HTML page."""
    data = report_data(run)
    drawn = figures(data)
    libraries = vega_bundle()
    script = (templates_directory() / "report.js").read_text(encoding="utf-8")
    payload = {
        "specs": {figure.name: theme.spec(figure.chart) for figure in drawn},
        "themes": {"light": theme.config("light"), "dark": theme.config("dark")},
    }
    page = _environment().get_template("report.html.j2")
    return page.render(
        run=run,
        document=run.document,
        data=data,
        figures=drawn,
        columns=component_columns(modelled=run.modelled, scenes=len(data.scenes) > 1),
        components=component_rows(data),
        style=(templates_directory() / "report.css").read_text(encoding="utf-8"),
        libraries=libraries,
        script=script,
        payload=json_for_script(payload),
        policy=content_policy(libraries, script),
        subtitle=_subtitle(run.document),
        UNDECIDED=UNDECIDED,
        scene_table=scene_table(data.scenes),
        generation_words=generation_words,
    )


def _environment() -> Environment:
    filled = environment()
    filled.globals.update(
        text=text,
        colour=theme.colour,
        coefficient_text=coefficient_text,
        column_title=column_title,
        p_text=p_text,
        ratio_text=ratio_text,
    )
    return filled


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


def _subtitle(document: dict[str, Any]) -> str:
    """Say in one line what was run: device, precision, workload, execution, date."""
    settings, device = document.get("settings") or {}, document.get("device") or {}
    workload = document.get("workload") or {}
    parts = [device.get("name") or device.get("type"), settings.get("precision"), _phase(document)]
    if workload.get("batch_size") and workload.get("sequence_length"):
        parts.append(f"batch {workload['batch_size']} x {workload['sequence_length']} tokens")
    parts += [settings.get("execution"), str(document.get("created") or "").replace("T", " ").removesuffix("Z")]
    return " \u00b7 ".join(str(part) for part in parts if part)


def _phase(document: dict[str, Any]) -> str | None:
    """Return which phases were profiled; what was asked for where that is not known."""
    phases = dict.fromkeys(str(scene.get("phase")) for scene in document.get("scenes") or [])
    asked = (document.get("settings") or {}).get("phase")
    return " and ".join(phases) or (None if asked == "auto" else asked)
