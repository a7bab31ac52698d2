"""The picture of a run at work: it fits, and what is not known is not in it."""

from __future__ import annotations

import io
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from energyscope.intervals import Interval
from energyscope.reporting.terminal_live import (
    CostlyComponent,
    Power,
    RunView,
    StageState,
    Step,
    TimeLeft,
    TimeRange,
    duration,
    last_line,
    left_text,
    live_view,
)

PICTURE = RunView(
    title="energyscope run gpt2",
    seconds=83.0,
    stages=[
        StageState("load", "done", 2.0),
        StageState(
            "generate", "skipped", 0.0, "one forward pass is explained, not a generation: use --phase both"
        ),
        StageState("profile", "running"),
        StageState("ablate"),
    ],
    step=Step("transformer.h.3.mlp", 30, 120, 61.0, 190.0),
    power=Power(412.3, 1755.0, 61.0),
    costliest=[
        CostlyComponent(
            f"transformer.h.{layer}.mlp.c_fc", Interval(20.0 - layer, 18.0 - layer, 22.0 - layer), 0.1, 5
        )
        for layer in range(20)
    ],
    phase="prefill",
)


def _lines(picture: RunView, width: int = 80, height: int = 24) -> list[str]:
    """Return the picture's lines as they are: the console has room for longer ones, and breaks none."""
    console = Console(file=io.StringIO(), width=10_000, force_terminal=True, color_system=None)
    console.print(live_view(picture, width, height))
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined, no-any-return]


def test_stages_step_power_and_the_costliest_components_are_shown() -> None:
    """GIVEN a run in its profile, THEN a reader sees what is done, what is measured, and the top list."""
    text = "\n".join(_lines(PICTURE))
    for part in ("energyscope run gpt2", "1:23", "\u2713 load         0:02", "skipped: one forward", "30/120",
                 "about 3:10 left", "transformer.h.3.mlp ", "412 W, 1755 MHz, 61 \u00b0C", "\u00b7 ablate",
                 "Most energy so far, prefill", "20.0 mJ \u00b1 2.0", "10 %"):  # fmt: skip
        assert part in text, part
    assert "MODELLED" not in text


def test_what_is_left_of_the_run_is_shown() -> None:
    """GIVEN a plan of later stages, THEN they and the run have a time, and stages without a plan are named."""
    left = TimeLeft(TimeRange(82.0, 180.0), ["ablate", "report"])
    stages = [*PICTURE.stages, StageState("alternatives", estimate=TimeRange(0.0, 50.0))]
    wide = _lines(replace(PICTURE, left=left, stages=stages))
    assert " about 1:22 to 3:00 left, not counting ablate, report" in wide
    assert " \u00b7 alternatives up to 0:50" in wide
    narrow = _lines(replace(PICTURE, left=replace(left, without=["benchmark", "ablate", "report"])), width=50)
    assert narrow[6:8] == [" about 1:22 to 3:00 left,", " not counting benchmark, ablate, report"]
    assert _lines(replace(PICTURE, left=TimeLeft(TimeRange(82.0, 180.0))), width=20)[6:7] == [
        " about 1:22 to 3:0\u2026"
    ]


def test_what_is_left_fits_a_usual_terminal() -> None:
    """GIVEN minutes to go, and all stages that no plan times, THEN one line of 80 columns holds it."""
    left = TimeLeft(TimeRange(34.0, 72.0), ["benchmark", "ablate", "correlate", "report"])
    text = " about 0:34 to 1:12 left, not counting benchmark, ablate, correlate, report"
    assert text in _lines(replace(PICTURE, left=left))


def test_what_is_left_is_said_in_words() -> None:
    """What is known of a run's end: a time, a range, a time after a stage without one, and nothing yet."""
    assert left_text(TimeLeft(TimeRange(82.0, 82.4))) == "about 1:22 left"
    assert left_text(TimeLeft(TimeRange(0.0, 50.0), ["report"])) == "up to 0:50 left, not counting report"
    assert left_text(TimeLeft(None, ["profile"])) == "time left: known once the model is loaded"


def test_modelled_watts_and_joules_are_called_so() -> None:
    """GIVEN a modelled run, THEN neither its power nor its energy is taken for a measured one."""
    text = "\n".join(_lines(replace(PICTURE, modelled=True, power=Power(65.0))))
    assert "MODELLED 65.0 W, as stated" in text
    assert "Most MODELLED energy so far" in text


def test_unknown_power_is_not_shown() -> None:
    """GIVEN no measurement of power, THEN no watt is on the screen."""
    assert " W" not in "\n".join(_lines(replace(PICTURE, power=None)))


def test_two_windows_have_no_limits() -> None:
    """GIVEN two windows, whose interval is thirteen deviations wide, THEN the value alone is shown."""
    costliest = replace(PICTURE.costliest[0], windows=2)
    (line,) = [line for line in _lines(replace(PICTURE, costliest=[costliest])) if "20.0 mJ" in line]
    assert "\u00b1" not in line


@given(st.integers(40, 140), st.integers(3, 40), st.text(max_size=200), st.integers(0, 20))
def test_it_fits_whatever_the_terminal_and_the_names(width: int, height: int, name: str, most: int) -> None:
    """Whatever the size and the names, no line is longer or more than there is room for, and no number is cut."""
    costliest = [replace(component, name=name, alike=3) for component in PICTURE.costliest[:most]]
    stages = [*PICTURE.stages, StageState(name, "failed", None, name)]
    left = TimeLeft(TimeRange(1e5, 2e5), [name, name])
    step = Step(name, 30, 120, 61.0, 190.0, 3, 12)
    picture = RunView(name, 1e5, stages, step, PICTURE.power, False, costliest, name, left)
    lines = _lines(picture, width, height)
    assert len(lines) <= height
    assert all(line.isprintable() for line in lines)
    assert max(map(cell_len, lines)) <= width
    rows = [line for line in lines if "mJ" in line]
    assert all(line.rstrip().endswith("10 %") and "\u00b1" in line for line in rows)


def test_steps_of_one_moment_of_several_do_not_pass_for_the_stage() -> None:
    """GIVEN the second of four phases, THEN its steps are its own, and their time leads to the next."""
    assert PICTURE.step is not None
    second = replace(PICTURE, step=replace(PICTURE.step, phase=2, phases=4))
    text = "\n".join(_lines(second))
    assert " 2 of 4: 30/120  1:01, next in about 3:10" in text
    last = "\n".join(_lines(replace(PICTURE, step=replace(PICTURE.step, phase=4, phases=4))))
    assert " 4 of 4: 30/120  1:01, about 3:10 left" in last


def test_a_long_label_keeps_its_end() -> None:
    """GIVEN a name for which there is no room, THEN its end is shown, where names differ."""
    assert PICTURE.step is not None
    label = "model.layers.15.post_attention_layernorm.and.more"
    text = "\n".join(_lines(replace(PICTURE, step=replace(PICTURE.step, label=label)), width=70))
    assert "\u2026" in text
    assert "layernorm.and.more  412 W" in text


def test_a_small_terminal_keeps_the_stages() -> None:
    """GIVEN eight lines, THEN all stages are shown and the list of components gives way."""
    lines = _lines(PICTURE, height=8)
    assert "\u00b7 ablate" in "\n".join(lines)
    assert "Most energy" in "\n".join(lines[-2:]) or "mJ" not in "\n".join(lines)


def test_the_last_line_says_how_each_stage_ended() -> None:
    """GIVEN an interrupted run, THEN one line says what is done and what is not; what waited is not in it."""
    stages = [
        StageState("load", "done", 2.0),
        StageState("profile", "interrupted", 61.0, "by the user"),
        StageState("ablate"),
    ]
    assert last_line(stages) == "load 0:02, profile interrupted after 1:01"
    assert last_line([StageState("profile", "running", 3.0)]) == "profile stopped after 0:03"
    assert last_line([StageState("load")]) == ""


def test_durations() -> None:
    assert [duration(seconds) for seconds in (0.4, 7, 65, 3750)] == ["0:00", "0:07", "1:05", "1:02:30"]
