"""`make docs` builds the reference of all modules, and what a user calls is in it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
def reference(tmp_path_factory):
    """The folder that the reference was built in."""
    pytest.importorskip("pdoc")
    folder = tmp_path_factory.mktemp("reference")
    done = _build(folder)
    assert done.returncode == 0, done.stderr
    assert f"Open it in a browser: {folder / 'index.html'}" in done.stdout
    return folder


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
