"""The figures of docs/method.md are those that docs/figures/draw.py draws from the runs that it names."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from energyscope.metering.recorded import RecordedMeter
from energyscope.runs.store import read_journal
from energyscope.runs.windows import windows_of

FOLDER = Path(__file__).parent.parent.parent / "docs" / "figures"
DRAWN = sorted(path.stem for path in FOLDER.glob("*.svg"))


@pytest.fixture(scope="module")
def draw():
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("draw", FOLDER / "draw.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", DRAWN)
def test_a_figure_is_what_the_script_draws(draw, name):
    """GIVEN a figure THEN the script draws it anew as it is, with its words as text."""
    drawn = getattr(draw, name)()
    assert drawn == (FOLDER / f"{name}.svg").read_text(encoding="utf-8"), "python docs/figures/draw.py renews it"
    assert drawn.count("<text ") == drawn.count("</text>") > 5


def test_the_page_shows_every_figure_in_words_too():
    """GIVEN docs/method.md THEN it shows every figure, each with a text for those who do not see it."""
    page = (FOLDER.parent / "method.md").read_text(encoding="utf-8")
    shown = {name: words for words, name in re.findall(r"!\[(.+?)\]\(figures/(.+?)\.svg\)", page)}
    assert sorted(shown) == DRAWN == ["parts", "window"]
    assert all(len(words) > 60 for words in shown.values())


def test_the_energy_in_the_figure_follows_from_the_ticks_in_it(draw):
    """GIVEN the window that is drawn THEN rise / calls between its ticks T2 and T4 is the run's energy."""
    run, name = draw.WINDOW
    row = windows_of(read_journal(run))[name]
    origin_s = draw.energyscope.load_run(run).document["trace_origin_s"]
    meter = RecordedMeter.from_csv(run / "power_trace.csv")
    ticks = meter.ticks(row["begin_s"] - origin_s, row["end_s"] - origin_s)
    assert len(ticks) == 4
    rise = ticks.energy_mj[3] - ticks.energy_mj[1]
    seconds = ticks.time_s[3] - ticks.time_s[1]
    calls = row["calls"] * seconds / (row["end_s"] - row["begin_s"])
    assert rise / calls == pytest.approx(row["energy_mj"], rel=0.01)
    assert f"{row['energy_mj']:,.0f} mJ a call" in (FOLDER / "window.svg").read_text(encoding="utf-8")
