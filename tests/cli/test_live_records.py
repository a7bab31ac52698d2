"""What is read of a run while another process writes it."""

from __future__ import annotations

import json

import pytest

from energyscope.cli.live_records import RunFollower

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
    assert records.moment == "prefill"


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
    assert (records.moment, records.costliest()) == ("decode@1024", [])


def test_a_run_that_is_not_there_yet_is_waited_for(tmp_path):
    """GIVEN no directory, or a document that cannot be read, THEN nothing is known and nothing fails."""
    records = RunFollower(tmp_path / "nowhere")
    records.update()
    assert (records.stages, records.costliest(), records.modelled) == ({}, [], False)
    (tmp_path / "run.json").write_text("{")
    records = RunFollower(tmp_path)
    records.update()
    assert records.stages == {}
