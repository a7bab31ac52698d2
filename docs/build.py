# ruff: noqa: INP001
"""Build the documentation's site: `python docs/build.py [FOLDER]` (`make docs`); FOLDER is emptied first.

Pages are README.md, docs/ and what they link to, as they lie in the project, so that links hold on a code host and
in the site; docs/README.md is the navigation. The reference of the modules is made from their docstrings. A dead
link or anchor, a name that does not resolve, and an annotation that cannot be read are errors.
"""

from __future__ import annotations

import logging
import os
import pkgutil
import re
import shutil
import sys
import warnings
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import pdoc
from mkdocs.commands.build import build as build_pages
from mkdocs.config import load_config

import energyscope
from energyscope import loading

# The command line has its own --help; how the report is drawn, and the bundled files, are nobody's interface.
LEFT_OUT = {"__main__", "bundled", "cli", "reporting"}
ROOT = Path(__file__).parent.parent
INDEX = ROOT / "docs" / "README.md"


def linked(page: Path) -> list[Path]:
    """Return the files of the project that a page links to; a link to none is left to mkdocs, which reports it."""
    links = re.findall(r"\]\((?!http)([^)#\s]+)", page.read_text(encoding="utf-8"))
    return [path for link in links if (path := Path(os.path.normpath(page.parent / link))).is_file()]


def pages() -> set[Path]:
    """Return README.md, all of docs/, and what these and the pages that they link to link to."""
    found: set[Path] = set()
    new = {ROOT / "README.md", ROOT / "CHANGELOG.md", *INDEX.parent.glob("*.md")}
    while new:
        found |= new
        new = {path for page in new if page.suffix == ".md" for path in linked(page)} - found
    return found


def navigation() -> list[dict[str, object]]:
    """Return the sections of docs/README.md, each with the pages that its list links to."""
    sections = re.split(r"^## ", INDEX.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    entries = {
        section.partition("\n")[0]: [
            {title: os.path.normpath(f"docs/{path}")}
            for title, path in re.findall(r"^(?:-|\d+\.) \[(.+?)\]\((.+?\.md)\)", section, flags=re.MULTILINE)
        ]
        for section in sections
    }
    return [
        {"Start": "README.md"}, *({title: links} for title, links in entries.items() if links),
        {"Reference": "reference/index.html"}, {"Changes": "CHANGELOG.md"},
    ]  # fmt: skip


def modules() -> list[str]:
    """Return the package, and what lies directly in it; the generator finds what lies further down."""
    names = (module.name for module in pkgutil.iter_modules(energyscope.__path__))
    return ["energyscope", *(f"energyscope.{name}" for name in sorted(names) if name not in LEFT_OUT)]


def build_reference(folder: Path) -> None:
    """Write the modules' pages below ``folder``; `index.html` is the first.

    Raises:
        Warning: the generator could not document something.

    """
    for package in (energyscope, loading):  # the generator reads their dictionaries, which are filled on demand
        for name in package.__all__:
            setattr(package, name, getattr(package, name))
    warnings.filterwarnings("error", module=r"pdoc\.")
    # keys of a TypedDict that is made by a call stand in no class body; the generator rightly takes its own module
    keys = r"Cannot determine where energyscope\.runs\.(documents|sweeps)\."
    warnings.filterwarnings("ignore", message=keys, module=r"pdoc\.")
    pdoc.render.configure(
        docformat="google", show_source=False, footer_text=f"energyscope {version('energyscope-llm')}"
    )
    pdoc.pdoc(*modules(), output_directory=folder)


def build(folder: Path) -> None:
    """Write the site below ``folder``, which is emptied first.

    Raises:
        Abort: a link or an anchor is dead.
        Warning: the generator of the reference could not document something.

    """
    with TemporaryDirectory() as place:
        for page in pages():
            copy = Path(place) / page.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(page, copy)
        build_reference(Path(place) / "reference")
        build_pages(load_config(str(ROOT / "mkdocs.yml"), docs_dir=place, site_dir=str(folder), nav=navigation()))


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "docs").absolute()
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    build(target)
    sys.stdout.write(f"Open it in a browser: {target / 'index.html'}\n")
