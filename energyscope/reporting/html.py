"""The report: one HTML file that needs nothing else, and that no request leaves.

The page carries Vega once, the charts as data, and a content security policy that forbids the network and every
script but the two that are in it (by their hashes). Whatever comes from models, data or users is escaped.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from energyscope.errors import RunError
from energyscope.reporting import text
from energyscope.reporting.charts import theme
from energyscope.reporting.data import generation_words, report_data
from energyscope.reporting.data.correlate import UNDECIDED, coefficient_text, column_title, p_text
from energyscope.reporting.data.devices import devices_title
from energyscope.reporting.data.execution import name_of
from energyscope.reporting.data.faithful import ratio_text
from energyscope.reporting.data.scenes import scene_table
from energyscope.reporting.downloads import download_payload, downloads
from energyscope.reporting.figures import figures
from energyscope.reporting.page_parts import (
    chart_payload,
    content_policy,
    json_for_script,
    page_script,
    page_style,
    vega_bundle,
)
from energyscope.reporting.rows import (
    column_style,
    component_columns,
    component_rows,
    kinds_to_pick,
    without_empty_groups,
)
from energyscope.reporting.scaling_figures import figure_name
from energyscope.reporting.templates import environment
from energyscope.runs import schema
from energyscope.runs.files import write_text
from energyscope.runs.store import Run, load_run

if TYPE_CHECKING:
    from jinja2 import Environment


def write_report(path: Path, *, so_far: bool = False) -> Path:
    """Render a run's report into its directory and return the file's path; ``so_far`` as in `render`.

    Raises:
        RunError: the run cannot be read, or its directory cannot be written.

    """
    run = load_run(path)
    target = run.path / schema.REPORT_FILE
    page = render(run, so_far=so_far)
    try:
        write_text(target, page)
    except OSError as error:
        raise RunError(f"cannot write {target}: {error.strerror or error}") from error
    return target


def render(run: Run, *, so_far: bool = False) -> str:
    """Return a run's report as one self-contained HTML page.

    ``so_far``: the run is a copy of one that is still being measured, whose own files are others.
    """
    data = report_data(run)
    drawn = figures(data)
    libraries = vega_bundle()
    script = page_script()
    carried = downloads(run.path)
    every = component_columns(modelled=run.modelled, scenes=len(data.scenes) > 1)
    columns, components = without_empty_groups(every, component_rows(data))
    payload = {**chart_payload(drawn), "downloads": download_payload(run.name, carried)}
    page = _environment().get_template("report.html.j2")
    return page.render(
        run=run,
        document=run.document,
        data=data,
        figures=drawn,
        columns=columns,
        components=components,
        kinds=kinds_to_pick(data, components),
        downloads=carried,
        so_far=so_far,
        style=page_style("report.css", "controls.css") + column_style(columns),
        libraries=libraries,
        script=script,
        payload=json_for_script(payload),
        policy=content_policy(libraries, script),
        subtitle=_subtitle(run.document, data.execution.name),
        UNDECIDED=UNDECIDED,
        scene_table=scene_table(data.scenes),
        generation_words=generation_words,
    )


def _environment() -> Environment:
    filled = environment()
    filled.globals.update(
        text=text,
        execution_name=name_of,
        colour=theme.colour,
        coefficient_text=coefficient_text,
        column_title=column_title,
        p_text=p_text,
        ratio_text=ratio_text,
        scaling_figure=figure_name,
    )
    return filled


def _subtitle(document: dict[str, Any], execution: str | None) -> str:
    """Say in one line what was run: device, precision, workload, execution, date."""
    settings, workload = document.get("settings") or {}, document.get("workload") or {}
    parts = [devices_title(document), settings.get("precision"), _phase(document)]
    batch, contexts = workload.get("batch_size"), _only_decoded(document)
    if batch and contexts:
        parts.append(f"batch {batch}, {text.listed(contexts)} tokens in the cache")
    elif batch and workload.get("sequence_length"):
        parts.append(f"batch {batch} x {workload['sequence_length']} tokens")
    created = str(document.get("created") or "").replace("T", " ").removesuffix("Z")
    parts += [name_of(execution or ""), created]
    return " \u00b7 ".join(str(part) for part in parts if part)


def _only_decoded(document: dict[str, Any]) -> list[str]:
    """Return the contexts of a run that profiled decode steps alone; none of one that also read a prompt."""
    scenes = document.get("scenes") or []
    if any(scene.get("phase") != "decode" for scene in scenes):
        return []
    return list(dict.fromkeys(f"{scene['context_length']:,}" for scene in scenes if scene.get("context_length")))


def _phase(document: dict[str, Any]) -> str | None:
    """Return which phases were profiled; what was asked for where that is not known."""
    phases = dict.fromkeys(str(scene.get("phase")) for scene in document.get("scenes") or [])
    asked = (document.get("settings") or {}).get("phase")
    return " and ".join(phases) or (None if asked == "auto" else asked)
