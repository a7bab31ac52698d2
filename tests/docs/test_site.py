"""`make docs` builds a site of all pages and of the reference of all modules, where no link is dead."""

from __future__ import annotations

import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parent.parent.parent
PUBLIC = {
    "energyscope": ("run", "load_run", "compare", "load_model", "PowerLog", "compute_energy"),
    "energyscope/adapters": ("Adapter", "Part", "Checkpoint"),
    "energyscope/testing": ("check_adapter", "SimulatedGpu", "SimulatedCounter", "SimulatedSensor"),
    "energyscope/metering/choice": ("open_meter",),
    "energyscope/metering/group": ("MeterGroup.windows",),
    "energyscope/metering/window": ("estimate_window", "Window"),
    "energyscope/metering/interval": ("combine", "windows_wanted"),
    "energyscope/metering/recorded": ("RecordedMeter.from_csv",),
    "energyscope/replay/replayer": ("Replayer.run",),
    "energyscope/replay/capture": ("capture",),
    "energyscope/errors": ("EnergyscopeError",),
}


def _build(folder):
    return subprocess.run(
        [sys.executable, str(ROOT / "docs" / "build.py"), str(folder)], cwd=ROOT,
        env={**os.environ, "HF_HUB_OFFLINE": "1"}, capture_output=True, text=True, timeout=550, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder that the site was built in."""
    pytest.importorskip("pdoc")
    pytest.importorskip("material")
    folder = tmp_path_factory.mktemp("site")
    done = _build(folder)
    assert done.returncode == 0, done.stderr
    assert f"Open it in a browser: {folder / 'index.html'}" in done.stdout
    return folder


@pytest.fixture
def reference(site):
    """The folder of the reference."""
    return site / "reference"


class _Page(HTMLParser):
    """The links, loaded files and anchors of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.loads, self.anchors = [], [], {"", "__skip"}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        self.anchors |= {named.get("id"), named.get("name")}
        if tag == "a" and named.get("href"):
            self.links.append(named["href"])
        self.loads += [named.get("src"), named.get("href") if tag == "link" else None]


@pytest.mark.slow
@pytest.mark.ci
def test_every_page_is_there_and_in_the_navigation(site):
    """GIVEN the pages of docs/ THEN the site has each, and its start page links to it."""
    start = _Page(site / "index.html").links
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"README"}
    assert len(pages) > 20
    assert [page for page in pages if not (site / "docs" / f"{page}.html").is_file()] == []
    assert [page for page in pages if f"docs/{page}.html" not in start] == []
    assert {"reference/index.html", "reports/index.html", "adapters/index.html", "CHANGELOG.html"} <= set(start)


@pytest.mark.slow
@pytest.mark.ci
def test_no_link_is_dead_and_nothing_is_fetched(site):
    """GIVEN all pages THEN links within the site have file and anchor, and nothing is fetched."""
    made = [path for path in site.rglob("*.html") if "reference" not in path.relative_to(site).parts]
    pages = {path: _Page(path) for path in made if path.name != "404.html"}  # its links are the server's
    assert len(pages) > 30
    dead = []
    for path, page in pages.items():
        for link in [*page.links, *filter(None, page.loads)]:
            target = urlsplit(link)
            if target.scheme in {"http", "https", "mailto", "data"}:
                continue
            file = Path(os.path.normpath(path.parent / unquote(target.path))) if target.path else path
            file = file / "index.html" if file.is_dir() else file
            if not file.is_file() or (file in pages and target.fragment not in pages[file].anchors):
                dead.append((path.name, link))
    assert dead == []
    assert [load for page in pages.values() for load in page.loads if load and load.startswith("http")] == []


@pytest.mark.slow
@pytest.mark.ci
def test_the_notebook_is_a_page_too(site):
    """GIVEN a page that links to the notebook THEN in the site it leads to its text and code, and to the file."""
    assert "notebook.html" in _Page(site / "docs" / "python.html").links
    assert "notebook.ipynb" in _Page(site / "docs" / "notebook.html").links
    shown = (site / "docs" / "notebook.html").read_text(encoding="utf-8")
    assert '<h2 id="precisions-and-a-comparison">' in shown
    assert shown.count('class="highlight"') > 8


@pytest.mark.slow
@pytest.mark.ci
def test_a_report_keeps_the_text_of_a_link_to_what_the_site_lacks(site):
    """GIVEN a report that links to its runs' folders THEN the site's copy has their names, and no such link."""
    page = "reports/scaling-h200/executions/report.html"
    before, after = _Page(ROOT / page), _Page(site / page)
    lost = [link for link in before.links if link not in after.links]
    assert len(lost) == 10
    assert all(link.startswith("./../cells/") for link in lost)
    text = (site / page).read_text(encoding="utf-8")
    assert [link for link in lost if f">{link.split('/')[-2]}<" not in text] == []


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("link", ["nowhere.md", "docs/method.md#nowhere"])
def test_a_dead_link_fails_the_build(link, tmp_path):
    """GIVEN a page that links to no page, or to no heading THEN mkdocs, as it is set up here, stops."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "method.md").write_text("# Method\n\n## Grades\n", encoding="utf-8")
    for target, code in ((link, 1), ("docs/method.md#grades", 0)):
        (tmp_path / "README.md").write_text(f"# Start\n\n[there]({target})\n", encoding="utf-8")
        script = (
            "import sys; from mkdocs.commands.build import build; from mkdocs.config import load_config; "
            "build(load_config(sys.argv[1], docs_dir=sys.argv[2], site_dir=sys.argv[3]))"
        )
        arguments = [str(ROOT / "mkdocs.yml"), str(tmp_path), str(tmp_path.with_name(f"{tmp_path.name}-site"))]
        done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, check=False)
        assert done.returncode == code, done.stderr


@pytest.mark.slow
@pytest.mark.ci
def test_the_public_names_are_documented(reference):
    """Every public name has its place on its module's page, and the index lists the modules."""
    for module, names in PUBLIC.items():
        page = (reference / f"{module}.html").read_text(encoding="utf-8")
        assert [name for name in names if f'id="{name}"' not in page] == [], module
    index = (reference / "search.js").read_text(encoding="utf-8")
    assert "energyscope.replay.replayer" in index
    assert (reference / "index.html").is_file()


@pytest.mark.slow
@pytest.mark.ci
def test_the_package_page_covers_all_of_its_names(reference):
    """What `energyscope` exports is documented there, with its docstring and not only its name."""
    import energyscope

    page = (reference / "energyscope.html").read_text(encoding="utf-8")
    assert [name for name in energyscope.__all__ if f'id="{name}"' not in page] == []
    assert page.count('class="docstring"') >= len(energyscope.__all__)


@pytest.mark.slow
@pytest.mark.ci
def test_pages_need_no_network_and_show_no_markup(reference):
    """No page loads anything from elsewhere, and sections such as Raises come out as headings."""
    for module in PUBLIC:
        page = (reference / f"{module}.html").read_text(encoding="utf-8")
        assert 'src="http' not in page
        assert 'rel="stylesheet" href="http' not in page
        assert "::</p>" not in page
    assert "Raises:</h6>" in (reference / "energyscope.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.ci
def test_a_name_that_does_not_resolve_stops_the_build(tmp_path):
    """A warning of the generator is an error: here, a public name that there is not."""
    pytest.importorskip("pdoc")
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'docs')!r}); import pathlib, types, build, energyscope;"
        "from energyscope import testing; testing.__all__.append('missing');"
        "build.modules = lambda: ['energyscope.testing'];"
        f"build.build(pathlib.Path({str(tmp_path)!r}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=550, check=False)
    assert done.returncode != 0
    assert "missing" in done.stderr
