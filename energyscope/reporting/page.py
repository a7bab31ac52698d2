"""A page as one HTML file that needs nothing else, and that no request leaves.

The page carries Vega once, the charts as data, and a content security policy that forbids the network and every
script but the two that are in it (by their hashes). Whatever comes from models, data or users is escaped.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from energyscope import format as fmt
from energyscope import reasons
from energyscope.errors import RunError
from energyscope.reporting.charts import data, theme
from energyscope.reporting.section import Figure, Page, ShownSection, View, figures
from energyscope.runs.files import write_text

if TYPE_CHECKING:
    import jinja2

SCRIPTS = ("page", "charts", "switches", "highlight", "tables", "downloads", "start")
_HOME = "base.html.j2"


def templates_directory() -> Path:
    """Return the folder of the templates: inside the installed package, else beside it in a checkout.

    Raises:
        RunError: neither has them.

    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "templates", package.parent / "templates"):
        if (folder / _HOME).is_file():
            return folder
    raise RunError(f"the page's templates are missing beside {package}: install energyscope-llm again")


@cache
def environment(*, escape: bool = True) -> jinja2.Environment:
    """Return a Jinja2 environment that fails on names that do not exist; ``escape`` for HTML."""
    import jinja2

    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates_directory()),
        autoescape=escape,  # noqa: S701 - off for the texts of terminals, which are no HTML
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_keep_returns if escape else None,
    )
    templates.filters |= {
        "quantity": fmt.quantity,
        "measured": fmt.measured,
        "listed": fmt.listed,
        "unbroken": fmt.unbroken,
        "words": reasons.words,
        "capital": lambda text: text[:1].upper() + text[1:],
    }
    templates.globals["count"] = fmt.count
    return templates


def sentence(template: str, **values: Any) -> str:
    """Return a text of a template that pages and terminal share, as one line."""
    return " ".join(environment(escape=False).get_template(template).render(**values).split())


def render(
    page: Page[Any], shown: Sequence[ShownSection[Any]], extra: Sequence[Figure] = (), **values: Any
) -> str:
    """Return a page as HTML: its template ``PAGE/page.html.j2`` with the sections that are shown.

    ``extra`` are figures outside of the sections; ``values`` go to the template. Of these, ``downloads`` and the
    ``tree`` of components go to the script, and ``missing`` names the sections of the closing line.
    """
    every = {figure.name: figure for figure in (*extra, *figures(shown))}
    libraries, script = _vega(), _script()
    payload = {
        "figures": {
            name: [_view(view, at) for at, view in enumerate(figure.views)] for name, figure in every.items()
        },
        "themes": {"light": theme.config("light"), "dark": theme.config("dark")},
        "downloads": values.get("downloads") or {},
        "tree": values.pop("tree", []),
    }
    template = environment().get_template(f"{page.name}/page.html.j2")
    return template.render(
        page=page.name,
        shown=shown,
        missing=values.pop("missing", ()),
        figures=every,
        style=(templates_directory() / "page.css").read_text(encoding="utf-8"),
        libraries=libraries,
        script=script,
        payload=_json(payload),
        policy=_policy(libraries, script),
        **values,
    )


def write(target: Path, html: str) -> Path:
    """Write a page.

    Raises:
        RunError: it cannot be written.

    """
    try:
        write_text(target, html)
    except OSError as error:
        what = error.strerror or error
        raise RunError(f"cannot write {target}: {what}: free some room there, or allow writing") from error
    return target


def _view(view: View, at: int) -> dict[str, Any]:
    """Return what the script needs of a view; the numbers of the first stand in the page."""
    view_data = {"when": dict(view.when), "spec": data.spec(view.chart)}
    if not at:
        return view_data
    table = view.table.filled()
    titles = [column.title for column in table.columns]
    return {**view_data, "table": {"columns": titles, "rows": table.texts()}}


def _keep_returns(value: Any) -> Any:
    """Keep carriage returns, which HTML reads as line feeds: a component's name would not be its own any more."""
    from markupsafe import Markup, escape

    return escape(value).replace("\r", Markup("&#13;")) if isinstance(value, str) and "\r" in value else value


@cache
def _script() -> str:
    folder = templates_directory() / "script"
    parts = [(folder / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS]
    return '"use strict";\n(function () {\n' + "\n".join(parts) + "})();\n"


def _json(value: Any) -> str:
    """Write JSON that may stand inside a script element: no text in it can end the element or open a comment."""
    written = json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character, escaped in (("</", "<\\/"), ("<!", "\\u003c!"), ("\u2028", "\\u2028"), ("\u2029", "\\u2029")):
        written = written.replace(character, escaped)
    return written


def _finite(value: Any) -> Any:
    """Replace what JSON cannot hold, and leave out digits that no chart can show."""
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.7g}") if math.isfinite(value) else None
    return value.item() if hasattr(value, "item") else value


@cache
def _vega() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script; wrapped, so that only ``vegaEmbed`` is global.

    Raises:
        RunError: vl-convert-python is not installed.

    """
    try:
        import vl_convert
    except ImportError as error:
        raise RunError("pages need vl-convert-python: pip install energyscope-llm") from error
    version = theme.altair().SCHEMA_VERSION.removeprefix("v").rpartition(".")[0]
    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=version)
    return "(function(){" + bundle.replace("</script", "<\\/script") + "\n})();"


def _policy(*scripts: str) -> str:
    """Return a content security policy under which these scripts run, no other, and nothing is fetched."""
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    hashes = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
