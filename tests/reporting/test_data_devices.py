from __future__ import annotations

from pathlib import Path

import pytest
from run_builder import Shape, build_run

from energyscope.reporting.data.devices import device_rows, devices_title, together
from energyscope.reporting.html import render
from energyscope.runs.tree import energy_tree

SENSORS = {"devices": [{"device": "GPU-1", "meter": "nvml", "tick_period_s": 0.1}, {"device": "GPU-2"}]}


def test_each_device_has_its_share_of_every_kind(tmp_path: Path) -> None:
    """GIVEN a run on two devices, THEN each has its part of the model and of every kind, as the page lists."""
    run = build_run(tmp_path / "run", Shape(impact=False), sensor=SENSORS)
    assert run.energy is not None
    run.energy["devices_mj"] = [f"{energy * 0.75};{energy * 0.25}" for energy in run.energy["energy_mj"]]
    first, second = device_rows(energy_tree(run.energy), run.document)
    assert (first.device, second.device) == ("GPU-1", "GPU-2")
    whole = float(run.energy["energy_mj"].iloc[0])
    assert (first.model_mj, second.model_mj) == (pytest.approx(0.75 * whole), pytest.approx(0.25 * whole))
    head = run.energy[run.energy["kind"] == "lm_head"]["energy_mj"].sum()
    assert second.kinds["lm_head"] == pytest.approx(0.25 * head)
    assert "Energy on each device" in render(run)


def test_a_component_that_does_not_say_leaves_its_kind_unknown(tmp_path: Path) -> None:
    """GIVEN one norm without a value on the second device, THEN that of its kind is unknown, and not a part."""
    run = build_run(tmp_path / "run", Shape(impact=False), sensor=SENSORS)
    assert run.energy is not None
    run.energy["devices_mj"] = "1;2"
    run.energy.loc[run.energy["component"] == "transformer.ln_f", "devices_mj"] = "1;"
    first, second = device_rows(energy_tree(run.energy), run.document)
    assert first.kinds["norm"] == pytest.approx(9.0)
    assert second.kinds["norm"] is None


def test_one_device_needs_no_table(tmp_path: Path) -> None:
    """GIVEN a run on one device, THEN there are no rows."""
    run = build_run(tmp_path / "run")
    assert run.energy is not None
    assert device_rows(energy_tree(run.energy), run.document) == []


def test_what_a_device_takes_while_it_waits_stands_apart(tmp_path: Path) -> None:
    """GIVEN a model spread over two devices, THEN each one's share of the other's components is its waiting."""
    run = build_run(tmp_path / "run", Shape(impact=False), sensor=SENSORS)
    assert run.energy is not None
    run.document["device"]["spread"] = [{"place": "cuda:0"}, {"place": "cuda:1"}]
    run.energy["device"] = ["cuda:1" if kind == "lm_head" else "cuda:0" for kind in run.energy["kind"]]
    run.energy["devices_mj"] = [f"{energy * 0.75};{energy * 0.25}" for energy in run.energy["energy_mj"]]
    first, second = device_rows(energy_tree(run.energy), run.document)
    leaves = energy_tree(run.energy).leaves
    heads = sum(one.energy.value for one in leaves if one.kind == "lm_head" and one.energy)
    others = sum(one.energy.value for one in leaves if one.kind != "lm_head" and one.energy)
    assert first.waiting_mj == pytest.approx(0.75 * heads)
    assert second.waiting_mj == pytest.approx(0.25 * others)
    page = render(run)
    assert "of which waiting" in page
    assert "cuda:1, GPU-2" in page


def test_several_devices_are_named_at_the_top(tmp_path: Path) -> None:
    """GIVEN a model spread over two boards, THEN the line at the top counts them; boards that differ are named."""
    run = build_run(tmp_path / "run", Shape(impact=False), sensor=SENSORS)
    run.document["device"]["spread"] = [{"place": f"cuda:{index}", "name": "NVIDIA H200"} for index in range(2)]
    assert devices_title(run.document) == "2 \u00d7 NVIDIA H200"
    assert "2 \u00d7 NVIDIA H200" in render(run).partition("</header>")[0]
    run.document["device"]["spread"][1]["name"] = "NVIDIA A100"
    assert devices_title(run.document) == "NVIDIA H200 and NVIDIA A100"


def test_boards_without_a_name_are_counted_only() -> None:
    """GIVEN boards that hold nothing of the model, THEN they are not given the name of the one that does."""
    measured = ["GPU-1", "GPU-2", "GPU-3"]
    document = {"device": {"name": "NVIDIA H200", "measured": measured, "spread": None}}
    assert devices_title(document) == "NVIDIA H200 and 2 more"
    assert together(document) == "3 boards together"
    assert devices_title({"device": {"type": "cpu", "measured": ["cpu"]}}) == "cpu"
    assert together({}) == devices_title({}) == ""
