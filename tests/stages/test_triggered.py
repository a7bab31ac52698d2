"""Triggered sampling of real tiny models: reads around every component, in its place, and nothing invented."""

from __future__ import annotations

import json

import pytest
import tiny_models
import torch
from clocks import Clock, HostOfGpu

from energyscope.accounting.triggered import recover
from energyscope.components import component_tree
from energyscope.loading import load_model
from energyscope.metering import modelled, waiting
from energyscope.metering.group import MeterGroup
from energyscope.metering.meter import Reading, WithoutProcess
from energyscope.metering.modelled import ModelledMeter
from energyscope.reasons import reason, split
from energyscope.stages import triggered as stage
from energyscope.stages.profile import ProfileSettings
from energyscope.stages.sampling_budget import SamplingBudget
from energyscope.stages.triggered import by_depth, reads_around, tick_period_s, triggered
from energyscope.testing import SimulatedBoard, SimulatedSensor
from energyscope.workloads import profile_inputs

PASSES = 3
FINE = ProfileSettings(granularity="fine", sampling_budget=SamplingBudget(PASSES))


@pytest.fixture(scope="module", params=["distilbert", "gpt2", "llama"])
def loaded(request, tmp_path_factory):
    return load_model(str(tiny_models.save_model(tmp_path_factory.mktemp("model"), request.param)), device="cpu")


def measure(loaded, meters, settings=FINE, journal=None, progress=None):
    entries = [] if journal is None else journal
    options = {} if progress is None else {"progress": progress}
    with MeterGroup(meters) as meter:
        workload = profile_inputs(loaded, sequence_length=8)
        return triggered(loaded, workload, meter, settings, journal=entries.append, **options)


class Steps(WithoutProcess):
    """A meter whose counter goes up by one at each read, and which keeps what was synchronised when."""

    name, modelled, device = "steps", False, "GPU-steps"

    def __init__(self):
        self.reads = 0
        self.log = []

    def read(self):
        self.reads += 1
        self.log.append("read")
        return Reading(float(self.reads), 100.0 + self.reads)


def test_every_component_has_its_own_time_and_modelled_energy(loaded):
    """On the modelled meter, each component's energy is its time x the watts, measured on that very component."""
    books = measure(loaded, [ModelledMeter(50.0)])
    names = [component.name for component in component_tree(loaded.model, loaded.adapter, "fine")]
    assert [row.component for row in books.rows] == names
    for row in books.rows:
        # joules since the machine was started, some millions, are subtracted from each other
        assert row.energy_mj == pytest.approx(50.0 * row.time_us / 1e3, rel=1e-4)
        assert (row.power_w, row.reused, row.execution, row.windows) == (50.0, False, "eager", PASSES)
        assert row.static_mj is None


def test_a_parent_holds_its_parts_and_none_of_their_reads(loaded, monkeypatch):
    """GIVEN a meter whose reads take long THEN a parent's time does not grow by those of its parts."""
    clock = Clock()
    for module in (stage, modelled):
        monkeypatch.setattr(module, "time", clock)

    class Slow(ModelledMeter):
        def read(self):
            clock.sleep(0.01)
            return super().read()

    rows = {row.component: row for row in measure(loaded, [Slow(50.0)]).rows}
    parts = [row for row in rows.values() if row.parent == "model"]
    assert len(parts) > 3
    assert rows["model"].time_us < 20_000 * len(parts) / 2  # two reads of 10 ms around each part


def test_functions_are_read_too(loaded):
    """The attention core, which is no module, is read around each of its calls."""
    cores = [row for row in measure(loaded, [ModelledMeter(50.0)]).rows if row.kind == "attention.core"]
    assert len(cores) == 2
    assert all(row.energy_mj > 0 for row in cores)


def test_the_device_is_waited_for_before_each_read(loaded):
    """Each call of a component is bracketed: wait, read, the component, wait, read."""
    meter = Steps()
    tree = component_tree(loaded.model, loaded.adapter, "medium")
    level = by_depth(tree)[1]
    inputs = dict(profile_inputs(loaded, sequence_length=8).inputs)
    with torch.inference_mode():
        reads = reads_around(
            level, lambda: loaded.model(**inputs), lambda: [meter.read()], lambda: meter.log.append("wait")
        )
    assert meter.log == ["wait", "read", "wait", "read"] * len(level)
    assert sorted(entry["component"] for entry in reads) == sorted(entry.name for entry in level)
    assert all(entry["rises_mj"] == [1.0] for entry in reads)
    assert reads[0]["power_w"] == [101.5]


def test_the_model_is_left_as_it_was(loaded):
    """Hooks are gone afterwards, also WHEN the pass was interrupted within a component."""
    tree = component_tree(loaded.model, loaded.adapter, "fine")

    def stop():
        raise KeyboardInterrupt

    inputs = dict(profile_inputs(loaded, sequence_length=8).inputs)
    for level in by_depth(tree):
        with pytest.raises(KeyboardInterrupt):
            reads_around(level, lambda: loaded.model(**inputs), stop, lambda: None)
    assert not [module for module in loaded.model.modules() if module._forward_hooks or module._forward_pre_hooks]
    assert not [module for module in loaded.model.modules() if "forward" in vars(module)]


def test_levels_hold_all_components_and_no_part_of_each_other(loaded):
    """Each component is on one level, below its parent."""
    tree = component_tree(loaded.model, loaded.adapter, "fine")
    depth = {component.name: number for number, level in enumerate(by_depth(tree)) for component in level}
    assert len(depth) == len(tree)
    assert all(depth[component.name] == depth[component.parent] + 1 for component in tree if component.parent)


def test_the_journal_gives_the_same_books(loaded):
    """GIVEN only the journal, through JSON, THEN the rows are the same; a cut one keeps what was finished."""
    entries = []
    books = measure(loaded, [ModelledMeter(50.0)], journal=entries)
    again = json.loads(json.dumps(entries))
    assert recover(again).rows == books.rows
    rows = recover(again[:4]).rows  # the header, idling, and two levels of the first pass
    assert rows[0].energy_mj is not None
    assert [row for row in rows if row.energy_mj is None and row.reasons == reason("ended-before-measured")]


def test_progress_counts_up_to_its_total(loaded):
    """Progress names the pass and never runs past its total."""
    steps = []
    measure(loaded, [ModelledMeter(50.0)], progress=lambda *step: steps.append(step))
    assert [step[2] for step in steps] == list(range(steps[0][3]))
    assert steps[0][1].startswith("pass 1, 1 components")


@pytest.fixture
def counter(monkeypatch):
    """Return a function that makes a GPU of 200 W whose counter ticks; all goes by its time, not the host's."""

    def make(period_s):
        gpu = HostOfGpu(SimulatedSensor(period_s=period_s, phase_s=0.0), SimulatedBoard(idle_w=200.0))
        gpu.rule(monkeypatch, stage, waiting)
        return gpu

    return make


def test_below_the_tick_there_is_no_energy(loaded, counter):
    """GIVEN a counter that ticks every 100 ms THEN microseconds have time and power, and None for energy."""
    gpu = counter(0.1)
    rows = measure(loaded, [gpu], ProfileSettings(granularity="medium", sampling_budget=SamplingBudget(2))).rows
    assert [row for row in rows if row.energy_mj is not None or row.dynamic_mj is not None] == []
    assert {row.quality for row in rows} == {"invalid"}
    assert all("shorter-than-tick" in [part.code for part in split(row.reasons)] for row in rows)
    assert all(row.power_w == pytest.approx(200, rel=0.02) and row.time_us > 0 for row in rows)
    assert rows[0].static_mj == pytest.approx(200 * rows[0].time_us / 1e3, rel=0.1)


def test_beyond_the_tick_there_is_energy(loaded, counter):
    """GIVEN a component that takes several ticks THEN its energy is the counter's rise."""
    gpu = counter(0.02)
    hold = loaded.model.register_forward_hook(lambda *_: gpu.sleep(0.2))
    try:
        rows = measure(
            loaded, [gpu], ProfileSettings(granularity="coarse", sampling_budget=SamplingBudget(2))
        ).rows
    finally:
        hold.remove()
    assert rows[0].energy_mj == pytest.approx(200 * rows[0].time_us / 1e3, rel=0.2)
    assert reason("triggered-sampling") in split(rows[0].reasons)
    assert rows[1].energy_mj is None


def test_a_tick_is_a_change_of_the_counter():
    """GIVEN a counter that changes every millisecond, watched every 21 ms, THEN its tick is the former."""
    assert tick_period_s({"tick_period_s": 0.021, "update_period_s": 0.001}) == 0.001
    assert tick_period_s({"tick_period_s": 0.1}) == 0.1
    assert tick_period_s({}) is None
