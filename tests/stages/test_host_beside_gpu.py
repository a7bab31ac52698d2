"""The host's joules beside a GPU's: NVML and RAPL both fake, in a profile and in traced generations."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from fake_powercap import one_socket

from energyscope.generation.generator import GenerateSettings
from energyscope.loading import load_model
from energyscope.metering import waiting
from energyscope.metering.rapl.powercap import ROOT_VARIABLE
from energyscope.reasons import read
from energyscope.runs.schema import RUN_FILE
from energyscope.runs.store import RunStore
from energyscope.settings.run import RunSettings
from energyscope.stages.context import Context, metered
from energyscope.stages.generate import generate
from energyscope.stages.generate import recover as recover_generation
from energyscope.stages.measured_devices import open_meters
from energyscope.stages.profile import ProfileSettings, profile, recover
from energyscope.stages.sampling_budget import SamplingBudget
from energyscope.workloads import profile_inputs

MACHINE = "gpu GPU-aaaa Fake H200\nat 0 power_w 200\nat 0 period_s 0.02"
HOST_W = 48.0


@pytest.fixture
def measured(fake_nvml, tmp_path, monkeypatch):
    """Return started meters of a GPU of 200 W whose host draws 48 W, and a model with its input."""
    fake_nvml(MACHINE)
    monkeypatch.setattr(waiting, "SETTLE_S", 0.1)
    monkeypatch.setattr(waiting, "IDLE_S", 0.4)
    monkeypatch.setenv(ROOT_VARIABLE, str(tmp_path / "powercap"))
    loaded = load_model("tiny-llama", device="cpu")
    with (
        one_socket(tmp_path / "powercap").writing(),
        open_meters(RunSettings("tiny-llama", meter="nvml"), ["GPU-aaaa"]) as meter,
    ):
        yield loaded, profile_inputs(loaded, sequence_length=8), meter


def of_host(row):
    return {name: value for name, value in row.items() if name.startswith("host_") and name != "host_bound"}


def test_the_host_of_a_profile(measured):
    """GIVEN 48 W THEN each row has them over its time, and no other number of the table depends on the host."""
    loaded, workload, meter = measured
    entries = []
    budget = SamplingBudget(2, window_s=0.3, budget_s=0.3, preheat_s=0.0)
    profile(loaded, workload, meter, ProfileSettings("coarse", "kinds", budget), journal=entries.append)
    entries = json.loads(json.dumps(entries))
    books = recover(entries)
    for row in books.rows:
        assert row.host_energy_mj / row.time_us * 1e3 == pytest.approx(HOST_W, rel=0.15)
        assert row.host_ci_low_mj < row.host_energy_mj < row.host_ci_high_mj
        assert row.host_quality
    idle = [entry["host_idle_w"] for entry in entries if "idle_w" in entry]
    assert idle == pytest.approx([HOST_W] * len(idle), rel=0.15)
    assert idle
    without = recover([
        {key: value for key, value in entry.items() if not key.startswith("host_")} for entry in entries
    ])  # fmt: skip
    assert (without.closure, without.differential) == (books.closure, books.differential)
    for row, bare in zip(map(asdict, books.rows), map(asdict, without.rows), strict=True):
        assert set(of_host(bare).values()) == {None}
        assert json.dumps(bare) == json.dumps(row | of_host(bare))


def test_the_host_of_generations(measured):
    """GIVEN 48 W THEN a generation has them over its time, and each new token its part; no rate depends on it."""
    loaded, workload, meter = measured
    entries = []
    settings = GenerateSettings(new_tokens=16, seconds=1.0, passes=2)
    generate(loaded, workload, meter, settings, middle_step=lambda: "no step", journal=entries.append)
    document = recover_generation(json.loads(json.dumps(entries)))
    seconds = sum(mark["end_s"] - mark["begin_s"] for mark in document["marks"]) / len(document["marks"])
    host = document["host"]
    assert host["energy_j"]["value"] / seconds == pytest.approx(HOST_W, rel=0.15)
    assert host["joules_per_generated_token"]["value"] == pytest.approx(host["energy_j"]["value"] / 16)
    bare = recover_generation([{**entry, "host_mj": None} for entry in entries])
    assert bare == {**document, "host": None}


def test_a_counter_lost_in_one_stage_stays_named_when_the_next_reads_it_again(fake_nvml, tmp_path, monkeypatch):
    """GIVEN a counter that is gone in `generate` and back in `profile` THEN run.json names the stage and why."""
    fake_nvml(MACHINE)
    monkeypatch.setenv(ROOT_VARIABLE, str(tmp_path / "powercap"))
    tree = one_socket(tmp_path / "powercap")
    settings, store = RunSettings("tiny-llama", meter="nvml"), RunStore.create("run", tmp_path)
    with tree.writing():
        meters = {stage: open_meters(settings, ["GPU-aaaa"]) for stage in ("generate", "profile", "benchmark")}
        context = Context(
            settings, None, None, None, None, meters, store, lambda *_: None, sensor={"idle_w": 70.0}
        )
        counter = tree.root / "intel-rapl:0" / "energy_uj"
        for stage in meters:
            with metered(context, stage) as meter:
                kept = counter.read_text()
                if stage == "generate":
                    counter.unlink()
                known = meter.host.read().energy_mj is not None
                counter.write_text(kept)
            assert known == (stage != "generate")
    sensor = json.loads((store.path / RUN_FILE).read_text())["sensor"]
    why = read(sensor["host_reason"])
    assert (why.code, why.values["stage"]) == ("in-stage", "generate")
    assert "cannot be read any more" in why.words
    assert (sensor["host_domains"], sensor["idle_w"]) == (["package-0", "dram"], 70.0)


def test_what_is_modelled_has_no_host(fake_nvml, tmp_path, monkeypatch):
    """GIVEN a counter of the host THEN it stands beside no modelled joules, and not beside its own."""
    fake_nvml(MACHINE)
    monkeypatch.setenv(ROOT_VARIABLE, str(tmp_path))
    with one_socket(tmp_path).writing():
        groups = [open_meters(RunSettings("gpt2", meter="modelled"), ["GPU-aaaa"]),
                  open_meters(RunSettings("gpt2", meter="rapl"), [])]  # fmt: skip
    assert [group.host.describe() for group in groups] == [{}, {}]
