# ruff: noqa: INP001
"""Build the documentation's site: `python docs/build.py [FOLDER]` (`make docs`); FOLDER is emptied first.

Pages are README.md, docs/ and what they link to, as they lie in the project, so that links hold on a code host and
in the site; docs/README.md is the navigation. A link of a report to what the site does not have, such as a run's
folder, is plain text there. The reference of the modules is made from their docstrings. A dead link or anchor, a
name that does not resolve, and an annotation that cannot be read are errors.
"""

from __future__ import annotations

import json
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
from urllib.parse import unquote

import pdoc
from mkdocs.commands.build import build as build_pages
from mkdocs.config import load_config

import energyscope
from energyscope import loading

# The command line has its own --help; how the report is drawn, and the bundled files, are nobody's interface.
LEFT_OUT = {"__main__", "bundled", "cli", "reporting"}
ROOT = Path(__file__).parent.parent
INDEX = ROOT / "docs" / "README.md"
LINKS = {  # to other files, by the kind of page
    ".md": re.compile(r"\]\((?!http)([^)#\s]+)"),
    ".html": re.compile(r"""<a\s[^>]*?href="(?!\w+:|#)([^"#]+)[^>]*>(.*?)</a>""", re.DOTALL),
}


def target(page: Path, link: str) -> Path:
    """Return the file that a page's link leads to, whether or not it is there."""
    return Path(os.path.normpath(page.parent / unquote(link)))


def linked(page: Path) -> list[Path]:
    """Return the files of the project that a page links to; other links of .md pages mkdocs reports."""
    links = LINKS[page.suffix].finditer(page.read_text(encoding="utf-8")) if page.suffix in LINKS else ()
    return [path for link in links if (path := target(page, link[1])).is_file()]


def copy_page(page: Path, copy: Path, kept: set[Path]) -> None:
    """Copy a page; of HTML, links to what is not ``kept`` become their text; a notebook gets a page beside it."""
    copy.parent.mkdir(parents=True, exist_ok=True)
    if page.suffix not in {*LINKS, ".ipynb"}:
        shutil.copyfile(page, copy)
        return
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".ipynb":
        copy.with_suffix(".md").write_text(notebook_page(page.name, text), encoding="utf-8")
    elif page.suffix == ".md":
        text = text.replace(".ipynb)", ".md)")
    else:
        text = LINKS[".html"].sub(lambda link: link[0] if target(page, link[1]) in kept else link[2], text)
    copy.write_text(text, encoding="utf-8")


def notebook_page(name: str, text: str) -> str:
    """Return a notebook's text and code as a page that links to it; it is kept without outputs."""
    cells = ((cell["cell_type"], "".join(cell["source"])) for cell in json.loads(text)["cells"])
    first, *others = (f"```python\n{source}\n```" if kind == "code" else source for kind, source in cells)
    return "\n\n".join((first, f"[The notebook as a file]({name})", *others, ""))


def pages() -> set[Path]:
    """Return README.md, all of docs/, and what these and the pages that they link to link to."""
    found: set[Path] = set()
    new = {ROOT / "README.md", ROOT / "CHANGELOG.md", *INDEX.parent.glob("*.md")}
    while new:
        found |= new
        new = {path for page in new for path in linked(page)} - found
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
        kept = pages()
        for page in kept:
            copy_page(page, Path(place) / page.relative_to(ROOT), kept)
        build_reference(Path(place) / "reference")
        build_pages(load_config(str(ROOT / "mkdocs.yml"), docs_dir=place, site_dir=str(folder), nav=navigation()))


if __name__ == "__main__":
    site = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "docs").absolute()
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    build(site)
    sys.stdout.write(f"Open it in a browser: {site / 'index.html'}\n")
