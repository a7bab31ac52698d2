# ruff: noqa: INP001
"""Build the API reference from the docstrings: `python docs/build.py [FOLDER]` (`make docs`).

A warning of the generator (a name that does not resolve, an annotation that cannot be read) is an error.
"""

from __future__ import annotations

import pkgutil
import sys
import warnings
from importlib.metadata import version
from pathlib import Path

import pdoc

import energyscope
from energyscope import loading

# The command line has its own --help; how the report is drawn, and the bundled files, are nobody's interface.
LEFT_OUT = {"__main__", "bundled", "cli", "reporting"}
DEFAULT = Path(__file__).parent.parent / "build" / "docs"


def modules() -> list[str]:
    """Return the package, and what lies directly in it; the generator finds what lies further down."""
    names = (module.name for module in pkgutil.iter_modules(energyscope.__path__))
    return ["energyscope", *(f"energyscope.{name}" for name in sorted(names) if name not in LEFT_OUT)]


def build(folder: Path) -> None:
    """Write the pages below ``folder``; `index.html` is the first.

    Raises:
        Warning: the generator could not document something.

    """
    for package in (energyscope, loading):  # the generator reads their dictionaries, which are filled on demand
        for name in package.__all__:
            setattr(package, name, getattr(package, name))
    warnings.filterwarnings("error", module=r"pdoc\.")
    pdoc.render.configure(
        docformat="google", show_source=False, footer_text=f"energyscope {version('energyscope-llm')}"
    )
    pdoc.pdoc(*modules(), output_directory=folder)


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT
    build(target)
    sys.stdout.write(f"Open it in a browser: {target / 'index.html'}\n")
