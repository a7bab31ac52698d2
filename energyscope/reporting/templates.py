"""Where the templates are, and the environment that fills them in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from energyscope.errors import RunError
from energyscope.reporting import text

if TYPE_CHECKING:
    import jinja2


def templates_directory() -> Path:
    """Return the folder of the templates: inside the installed package, else beside it in a checkout.

    Raises:
        RunError: neither has them.

    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "templates", package.parent / "templates"):
        if (folder / "report.html.j2").is_file():
            return folder
    raise RunError(f"the report's templates are missing beside {package}: install energyscope-llm again")


def environment() -> jinja2.Environment:
    """Return a Jinja2 environment that escapes everything and fails on names that do not exist."""
    import jinja2

    filled = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates_directory()),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_with_returns,
    )
    filled.filters["unbroken"] = text.unbroken
    return filled


def _with_returns(value: Any) -> Any:
    """Keep carriage returns, which HTML reads as line feeds: a component's name would not be its own any more."""
    from markupsafe import Markup, escape

    return escape(value).replace("\r", Markup("&#13;")) if isinstance(value, str) and "\r" in value else value
