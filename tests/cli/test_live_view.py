"""What the live view makes of its messages and of the run's files: stages, steps, energy, and what is left."""

from __future__ import annotations

import io
import json
import os

import pytest
from rich.console import Console

from energyscope.cli.live_view import RunFollower, State, paint, read_messages, receive
from energyscope.reasons import reason
from energyscope.reporting.terminal_live import TimeLeft, TimeRange


def tell(state, estimates, now_s):
    receive(state, {"estimates": estimates}, Console(file=io.StringIO()), now_s)


def recorded(path, **stages):
    document = {"stages": {name: {"state": state} for name, state in stages.items()}}
    (path / "run.json").write_text(json.dumps(document))


def test_the_sensor_alone_is_a_stage():
    """GIVEN a command that only examines the sensor (`doctor`), THEN its steps are shown; its end is no stop."""
    state = State("energyscope doctor", (), 0.0)
    state.step("sensor", "idle", 0, 3, 0.0)
    state.step("sensor", "a step of power", 1, 3, 4.0)
    (stage,), step = state.stages(5.0), state.picture(5.0).step
    assert (stage.name, stage.state) == ("sensor", "running")
    assert (step.label, step.done, step.total) == ("a step of power", 1, 3)
    console = Console(file=io.StringIO(), width=80)
    paint(state, console, iter(()))
    printed = console.file.getvalue()
    assert "sensor" in printed
    assert "stopped" not in printed


@pytest.mark.parametrize("stages", [("profile",), ()])
def test_the_sensor_within_a_stage_is_a_step_of_it(stages):
    """GIVEN a stage that runs, named before or not (a sweep), THEN its sensor is its label and no stage."""
    state = State("a run", stages, 0.0)
    state.step("profile", "h.0", 3, 9, 0.0)
    state.step("sensor", "idle", 0, 1, 1.0)
    assert state.names == ["profile"]
    step = state.picture(1.0).step
    assert (step.label, step.done) == ("sensor: idle", 3)


def test_the_first_stage_begins_with_its_first_step():
    """GIVEN libraries that are imported for 6 s before anything is told, THEN they are no part of the load."""
    state = State("a run", ("load", "profile"), 0.0)
    assert (state.picture(5.0).step.label, state.picture(5.0).step.seconds) == ("starting", 5.0)
    state.step("load", "gpt2", 0, 1, 6.0)
    step = state.picture(15.0).step
    assert (step.label, step.seconds, state.picture(15.0).seconds) == ("gpt2", 9.0, 15.0)
    state.step("profile", "h.0", 0, 9, 16.0)
    assert [stage.seconds for stage in state.stages(16.0)] == [10.0, 0.0]


def test_a_stage_that_has_only_begun_has_no_steps_of_the_one_before(tmp_path):
    """GIVEN run.json says that ablate runs, before it tells of a step, THEN the profile's counts are gone."""
    state = State("a run", ("profile", "ablate"), 0.0)
    state.records.path = tmp_path
    for done in range(9):
        state.step("profile", f"h.{done}", done, 9, 10.0 * done)
    recorded(tmp_path, profile="done", ablate="running")
    state.update(90.0)
    step = state.picture(93.0).step
    assert (step.label, step.done, step.total, step.seconds, step.left_s) == ("", 0, 1, 3.0, None)
    state.step("ablate", "h.0", 0, 5, 100.0)
    state.step("ablate", "h.1", 1, 5, 110.0)
    step = state.picture(110.0).step
    assert (step.done, step.seconds, step.left_s) == (1, 20.0, 40.0)


def test_what_is_said_of_the_sensor_stays_when_its_stage_begins(tmp_path):
    """GIVEN a word on the sensor before run.json was read, THEN it is the new stage's label."""
    state = State("a run", ("load", "profile"), 0.0)
    state.records.path = tmp_path
    state.step("load", "gpt2", 0, 1, 0.0)
    state.step("sensor", "idle", 0, 1, 2.0)
    recorded(tmp_path, load="done", profile="running")
    state.update(2.5)
    assert state.picture(2.5).step.label == "sensor: idle"


def test_what_is_left_is_of_the_pace_of_finished_steps():
    """GIVEN steps of 10 s, THEN nine of ten take 90 s, less what the present one has had, 10 s at most."""
    state = State("a run", ("profile",), 0.0)
    state.step("profile", "a", 0, 10, 5.0)
    assert state.picture(14.0).step.left_s is None
    state.step("profile", "b", 1, 10, 15.0)
    assert state.picture(15.0).step.left_s == 90.0
    assert state.picture(19.0).step.left_s == 86.0
    assert state.picture(99.0).step.left_s == 80.0
    state.step("profile", "b again", 1, 10, 19.0)
    assert state.picture(19.0).step.left_s == 86.0


def test_a_stage_that_is_heard_of_late_counts_from_there():
    """GIVEN first word of a stage at its fifth step, THEN the steps before are in no pace."""
    state = State("a run", ("load", "profile"), 0.0)
    state.step("profile", "e", 5, 10, 100.0)
    assert state.picture(100.0).step.left_s is None
    state.step("profile", "f", 6, 10, 102.0)
    assert state.picture(102.0).step.left_s == 8.0


def test_what_was_foreseen_is_shown_of_stages_and_run():
    """GIVEN a plan told while the benchmark runs, THEN waiting stages and the run have a time, and later none."""
    state = State("a run", ("load", "benchmark", "profile", "ablate"), 0.0)
    state.step("load", "gpt2", 0, 1, 0.0)
    assert state.picture(1.0).left == TimeLeft(None, ["benchmark", "profile", "ablate"])
    tell(state, {"profile": [[40.0, 90.0, 100, ""]]}, 2.0)
    state.step("benchmark", "fp32", 0, 10, 2.0)
    state.step("benchmark", "fp32", 5, 10, 7.0)
    picture = state.picture(7.0)
    assert picture.left == TimeLeft(TimeRange(45.0, 95.0), ["ablate"])
    assert [stage.estimate for stage in picture.stages] == [None, None, TimeRange(40.0, 90.0), None]
    state.step("ablate", "h.0", 0, 4, 99.0)
    assert state.picture(99.0).left is None


def test_a_stage_that_the_plan_skips_does_not_wait(tmp_path):
    """GIVEN a plan that skips two stages, THEN they do not wait from then on; the run's file says why."""
    state = State("a run", ("load", "generate", "profile", "ablate"), 0.0)
    state.records.path = tmp_path
    state.step("load", "gpt2", 0, 1, 0.0)
    assert [stage.state for stage in state.stages(1.0)] == ["running", "waiting", "waiting", "waiting"]
    tell(state, {"generate": [], "ablate": []}, 2.0)
    assert [stage.state for stage in state.stages(2.0)] == ["running", "skipped", "waiting", "skipped"]
    skipped = {"state": "skipped", "reason": "one-pass"}
    document = {"stages": {"generate": skipped, "profile": {"state": "running"}}}
    (tmp_path / "run.json").write_text(json.dumps(document))
    state.update(3.0)
    stages = state.stages(3.0)
    assert [stage.state for stage in stages] == ["done", "skipped", "running", "skipped"]
    assert [stage.reason for stage in stages] == [None, reason("one-pass").words, None, None]


def test_the_moment_of_a_stage_is_told_where_several_were_foreseen():
    """GIVEN a profile of two phases THEN steps that begin anew are of the second; other stages have one."""
    state = State("a run", ("profile", "ablate"), 0.0)
    tell(state, {"profile": [[40.0, 90.0, 100, ""]] * 2}, 0.0)
    seen = []
    for stage, done in (("profile", 0), ("profile", 60), ("profile", 0), ("profile", 0), ("ablate", 0)):
        state.step(stage, "h.0", done, 100, 1.0)
        step = state.picture(1.0).step
        seen.append((step.phase, step.phases))
    assert seen == [(1, 2), (1, 2), (2, 2), (2, 2), (1, 1)]


def test_a_message_that_came_in_part_is_passed_over():
    """GIVEN a line that is no JSON, or no text at all, THEN the messages behind it still come."""
    reading, writing = os.pipe()
    os.write(writing, b'{"say": "a"}\n{"say": "cut\n\xff\xfe\n{"say": "b"}\n')
    os.close(writing)
    lines = [message["say"] for message in read_messages(reading)]
    os.close(reading)
    assert lines == ["a", "b"]


# --- the run's files ------------------------------------------------------------------------------------------

TREE = [
    {"name": "model", "kind": "model", "parent": None, "calls": 1},
    {"name": "h.0", "kind": "layer", "parent": "model", "calls": 1},
    {"name": "h.0.mlp", "kind": "mlp", "parent": "h.0", "calls": 2},
    {"name": "h.1.mlp", "kind": "mlp", "parent": "h.0", "calls": 2},
    {"name": "head", "kind": "lm_head", "parent": "model", "calls": 1},
]
SUBJECTS = [
    {"key": "node:model", "what": "node", "members": ["model"]},
    {"key": "node:h.0", "what": "node", "members": ["h.0"]},
    {"key": "group:h.{layer}.mlp", "what": "group", "members": ["h.0.mlp", "h.1.mlp"]},
    {"key": "node:head", "what": "node", "members": ["head"]},
    {"key": "without:mlp", "what": "without", "members": ["h.0.mlp", "h.1.mlp"]},
]
HEADER = {"stage": "profile", "scene": "prefill", "header": {"passes": 5, "tree": TREE, "subjects": SUBJECTS}}


def window(target, number, energy_mj, power_w=300.0):
    return {"stage": "profile", "scene": "prefill", "pass": number, "subject": target, "clock_mhz": 1755.0,
            "window": {"energy_mj": energy_mj, "time_us": 10.0, "power_w": power_w, "naive_mj": 1.0, "ticks": 9,
                       "calls": 9, "seconds": 0.4, "reason": None}, "guard": []}  # fmt: skip


@pytest.fixture
def run(tmp_path):
    """Return a directory and a function that appends to its journal."""

    def write(*entries):
        with (tmp_path / "journal.jsonl").open("a") as file:
            file.writelines(json.dumps(entry) + "\n" for entry in entries)

    (tmp_path / "run.json").write_text(
        json.dumps({"sensor": {"modelled": False}, "stages": {"load": {"state": "done"}}})
    )
    write(HEADER)
    return tmp_path, write


def test_the_dearest_components_are_those_of_the_books(run):
    """GIVEN windows of all, THEN parts are listed by joules in a pass, and no parent or difference."""
    path, write = run
    for number in range(3):
        write(window("node:model", number, 100.0), window("node:h.0", number, 90.0))
        write(window("group:h.{layer}.mlp", number, 20.0 + number), window("node:head", number, 30.0))
        write(window("without:mlp", number, 60.0))
    records = RunFollower(path)
    records.update()
    mlp, head = records.costliest()
    assert (mlp.name, mlp.alike, mlp.energy.value, mlp.share) == ("h.*.mlp", 2, 42.0, 0.42)
    assert mlp.energy.low < 42.0 < mlp.energy.high
    assert (head.name, head.energy.value, head.windows) == ("head", 30.0, 3)
    assert records.phase == "prefill"


def test_what_is_written_later_is_read_later(run):
    """GIVEN a line that is only half there, THEN it is read once it is whole, and once."""
    path, _ = run
    records = RunFollower(path)
    records.update()
    assert records.costliest() == []
    line = json.dumps(window("node:head", 0, 30.0))
    with (path / "journal.jsonl").open("a") as file:
        file.write(line[:50])
    records.update()
    assert records.costliest() == []
    with (path / "journal.jsonl").open("a") as file:
        file.write(line[50:] + "\n")
    records.update()
    records.update()
    (head,) = records.costliest()
    assert head.windows == 1


@pytest.mark.parametrize("broken", ['{"window": 1', '["window"]', '"window"\xff'])
def test_a_broken_line_hides_no_other(run, broken):
    """GIVEN a finished line that is no entry, THEN the lines around it are read, and once."""
    path, write = run
    write(window("node:head", 0, 30.0))
    with (path / "journal.jsonl").open("a", encoding="latin-1") as file:
        file.write(broken + "\n")
    write(window("node:head", 1, 30.0))
    records = RunFollower(path)
    records.update()
    records.update()
    (head,) = records.costliest()
    assert head.windows == 2


def test_power_is_that_of_the_stage_that_runs(run):
    """GIVEN a window of the profile, THEN its watts are the profile's, and no other stage's."""
    path, write = run
    write(window("node:head", 0, 30.0, power_w=412.0))
    records = RunFollower(path)
    records.update()
    power = records.power("profile")
    assert (power.watts, power.clock_mhz, power.temperature_c) == (412.0, 1755.0, None)
    assert records.power("ablate") is None
    write(window("node:head", 1, None, power_w=None))
    records.update()
    assert records.power("profile") is None


def test_another_moment_begins_anew(run):
    """GIVEN a decode step after the prefill, THEN the list is that of the step."""
    path, write = run
    write(window("node:head", 0, 30.0), {**HEADER, "scene": "decode@1024"})
    records = RunFollower(path)
    records.update()
    assert (records.phase, records.costliest()) == ("decode@1024", [])


def test_a_run_that_is_not_there_yet_is_waited_for(tmp_path):
    """GIVEN no directory, or a document that cannot be read, THEN nothing is known and nothing fails."""
    records = RunFollower(tmp_path / "nowhere")
    records.update()
    assert (records.stages, records.costliest(), records.modelled) == ({}, [], False)
    (tmp_path / "run.json").write_text("{")
    records = RunFollower(tmp_path)
    records.update()
    assert records.stages == {}
