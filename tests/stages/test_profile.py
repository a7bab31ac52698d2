"""The profile stage measures every component of a real model, and its journal alone gives the same books."""

from __future__ import annotations

import json
from collections import Counter

import pytest
import tiny_models
import torch
from simulated import measure

from energyscope.accounting import records
from energyscope.accounting.records import idle_power, passes_of
from energyscope.errors import UsageError
from energyscope.loading import load_model
from energyscope.metering import waiting
from energyscope.metering.group import MeterGroup
from energyscope.metering.modelled import ModelledMeter
from energyscope.progress import silent
from energyscope.reasons import reason, split
from energyscope.replay.graphs import NotCapturableError
from energyscope.stages import profile as stage
from energyscope.stages.profile import ProfileSettings, anchors_drift, notes_of, profile, recover
from energyscope.stages.sampling_budget import SamplingBudget
from energyscope.testing import SimulatedBoard, SimulatedCall, SimulatedGpu
from energyscope.workloads import profile_inputs

PASSES = 3


@pytest.fixture(scope="module", params=["distilbert", "gpt2", "llama"])
def measured(request, tmp_path_factory):
    """Return a profile of a tiny model of each family, with its journal and its progress."""
    steps = []
    loaded = loaded_model(tmp_path_factory.mktemp("model"), request.param)
    books, entries = profiled(loaded, progress=lambda *step: steps.append(step))
    return books, entries, steps


def loaded_model(folder, family, **changes):
    return load_model(str(tiny_models.save_model(folder, family, **changes)))


def test_outputs_that_are_nan_are_named(tmp_path):
    """GIVEN weights of NaN in the second layer's MLP THEN a note names it, and not what only passes them on."""
    loaded = loaded_model(tmp_path, "gpt2")
    torch.nn.init.constant_(loaded.model.transformer.h[1].mlp.c_fc.weight, float("nan"))
    _, entries = profiled(loaded, granularity="medium", passes=1)
    assert notes_of(entries) == [reason("outputs-are-nan", component="transformer.h.1.mlp")]


def profiled(loaded, *, passes=PASSES, progress=silent, meter=None, earlier=(), **settings):
    """Return the books of a short profile on modelled joules, and its journal."""
    entries = []
    settings = {"granularity": "fine", **settings}
    sampling_budget = SamplingBudget(passes, window_s=0.03, budget_s=0.1, preheat_s=0.0)
    with MeterGroup([meter or ModelledMeter(65.0)]) as meters:
        books = profile(
            loaded,
            profile_inputs(loaded, sequence_length=8),
            meters,
            ProfileSettings(sampling_budget=sampling_budget, **settings),
            earlier=earlier,
            journal=entries.append,
            progress=progress,
        )
    return books, entries


def test_every_component_has_a_row_with_energy(measured):
    """All rows carry energy, time, windows and a grade; the root is the first."""
    rows = measured[0].rows
    assert rows[0].kind == "model"
    assert all(row.energy_mj > 0 and row.time_us > 0 for row in rows)
    assert {row.windows for row in rows} == {PASSES}


def test_what_is_timed_in_the_model_adds_up_to_it(measured):
    """GIVEN windows of the same passes THEN leaves and overhead are the whole model."""
    assert measured[0].closure["leaves"]["energy"] == pytest.approx(1.0)


def test_sub_components_are_means_and_blocks_are_not(measured):
    """At fine granularity only sub-components inside layers are marked as their kind's mean."""
    for row in measured[0].rows:
        assert row.reused == (row.level == "sub-component" and row.layer is not None)


def test_modelled_joules_have_no_static_share(measured):
    """Time x watts cannot be split: static and dynamic energy are unknown, not 0."""
    assert all(row.static_mj is None and row.dynamic_mj is None for row in measured[0].rows)
    assert idle_power(measured[1]) is None


def test_the_model_is_the_anchor_of_every_pass(measured):
    """The whole model is measured in every pass."""
    assert [anchor["index"] for anchor in passes_of(measured[1])] == list(range(PASSES))
    assert all(anchor["anchor_mj"] > 0 for anchor in passes_of(measured[1]))


def test_targets_are_shuffled_between_passes(measured):
    """Each pass visits every target once, in another order."""
    orders = [
        [entry["subject"] for entry in measured[1] if entry.get("pass") == number and "window" in entry]
        for number in range(PASSES)
    ]
    once = [list(dict.fromkeys(order)) for order in orders]  # stalled windows are taken again at the end
    assert Counter(once[0]) == Counter(once[1])
    assert once[0] != once[1]


def test_the_journal_gives_the_same_books(measured):
    """GIVEN only the journal, through JSON, THEN the rows and the closure are the same."""
    again = recover(json.loads(json.dumps(measured[1])))
    assert again.rows == measured[0].rows
    assert again.closure == measured[0].closure


def test_a_journal_cut_short_still_gives_books(measured):
    """GIVEN half of the journal THEN what was measured has energy, and the rest is None with a reason."""
    half = measured[1][: len(measured[1]) // (PASSES + 2)]
    rows = recover(half).rows
    assert rows[0].energy_mj is not None
    missing = [row for row in rows if row.energy_mj is None]
    assert missing
    assert all(reason("ended-before-measured") in split(row.reasons) for row in missing)


def test_progress_counts_up_to_its_total(measured):
    """Progress never runs past its total and names what is measured."""
    done = [step[2] for step in measured[2]]
    assert done == sorted(done)
    assert all(step[2] < step[3] for step in measured[2])
    assert done[-1] == measured[2][-1][3] - 1
    assert {step[1] for step in measured[2]} == {
        "preheating",
        "model",
    }  # which stands for all: they are timed together


def test_a_repeated_window_replaces_the_first(measured):
    """GIVEN a second window of the same target and pass THEN only it counts."""
    entries = measured[1]
    again = json.loads(json.dumps(next(entry for entry in entries if entry.get("subject") == "node:model")))
    again["window"]["energy_mj"] *= 2
    assert recover([*entries, again]).rows[0].windows == PASSES
    assert records.energies([*entries, again])["node:model"][again["pass"]] == again["window"]["energy_mj"]


def test_the_header_says_what_is_needed_to_close_the_books(measured):
    """The first entry holds the settings, the plan and the tree, with each component's work."""
    header = measured[1][0]["header"]
    assert (header["meter"], header["device"], header["execution"], header["passes"]) == (
        "modelled",
        "cpu",
        "eager",
        PASSES,
    )
    assert {subject["what"] for subject in header["subjects"]} == {"node", "group", "glue"}
    assert header["in_model"] is True
    assert header["tree"][0]["name"] == "model"
    assert header["tree"][0]["flops"] > 0
    assert notes_of(measured[1]) == header["notes"]


def test_a_profile_in_the_model_goes_on_after_its_last_whole_pass(tmp_path):
    """GIVEN the journal of a first pass THEN it stays, and the second follows."""
    loaded = loaded_model(tmp_path, "gpt2")
    _, entries = profiled(loaded, passes=2, granularity="medium")
    second = next(index for index, entry in enumerate(entries) if entry.get("pass") == 1)
    cut = json.loads(json.dumps(entries[:second]))
    books, journal = profiled(loaded, passes=2, granularity="medium", earlier=cut)
    assert {entry["pass"] for entry in journal if "window" in entry} == {1}
    assert {row.windows for row in books.rows} == {2}
    assert books.closure["leaves"]["energy"] == pytest.approx(1.0)


class Counted(ModelledMeter):
    """A counter of the processor: its ticks are real, so that components are replayed."""

    name = "counted"
    modelled = False


@pytest.fixture
def brief_idling(monkeypatch):
    """Wait hardly for a counter's idle power."""
    for wait in ("SETTLE_S", "IDLE_S"):
        monkeypatch.setattr(waiting, wait, 0.02)


def test_each_kind_has_its_differential(tmp_path, brief_idling):
    """What the model saves without a kind is shared among the kind's rows, but those inside of their own kind."""
    loaded = loaded_model(tmp_path, "llama")
    books, entries = profiled(loaded, passes=2, meter=Counted(65.0), granularity="medium")
    assert entries[0]["header"]["in_model"] is False
    kinds = {row.kind for row in books.rows} - {"model"}
    assert set(books.differential) == kinds
    kind_of = {row.component: row.kind for row in books.rows}
    for kind in kinds:
        rows = [row for row in books.rows if row.kind == kind]
        shared = {row.component: row.differential_mj for row in rows if kind_of.get(row.parent) != kind}
        assert sum(shared.values()) == pytest.approx(books.differential[kind]["energy_mj"])
        assert all(row.differential_mj is None for row in rows if row.component not in shared)


def test_a_sample_of_the_layers_stands_in_for_the_others(tmp_path, brief_idling):
    """GIVEN five layers WHEN three are sampled THEN the others' rows are reused values of the nearest one."""
    loaded = loaded_model(tmp_path, "gpt2", n_layer=5)
    books, _ = profiled(loaded, passes=2, granularity="medium", layers="sample", meter=Counted(65.0))
    layers = [row for row in books.rows if row.level == "layer"]
    assert [row.reused for row in layers] == [False, True, False, True, False]
    assert layers[1].energy_mj == layers[0].energy_mj
    assert reason("measured-on", component="transformer.h.0") in split(layers[1].reasons)
    assert "model" in books.closure


def test_a_function_that_the_model_does_not_call_is_left_out_with_a_note(tmp_path):
    """GIVEN an attention that multiplies by itself THEN its cores are no rows, and a note says so."""
    loaded = loaded_model(tmp_path, "gpt2", attn_implementation="eager")
    loaded.model.set_attn_implementation("eager")
    books, entries = profiled(loaded, passes=1)
    assert not any(row.kind == "attention.core" for row in books.rows)
    (note,) = notes_of(entries)
    assert (note.code, note.values["components"]) == ("components-not-called", 2)


def test_graphs_on_a_cpu_are_refused_before_anything_runs(tmp_path):
    """GIVEN a model on the CPU THEN CUDA graphs are bad usage, and nothing is journalled."""
    loaded, entries = loaded_model(tmp_path, "gpt2"), []
    workload, settings = profile_inputs(loaded, sequence_length=8), ProfileSettings(execution="cuda-graph")
    meter = MeterGroup([ModelledMeter(65.0)])
    with pytest.raises(UsageError, match="needs an NVIDIA GPU"):
        profile(loaded, workload, meter, settings, journal=entries.append)
    assert entries == []


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (
            NotCapturableError("cannot be captured in a CUDA graph: it waits"),
            reason("not-capturable", error="cannot be captured in a CUDA graph: it waits"),
        ),
        (torch.OutOfMemoryError("CUDA out of memory."), reason("no-memory-for-graph")),
    ],
)
def test_a_model_that_a_graph_cannot_hold_gives_its_eager_inputs(tmp_path, monkeypatch, error, why):
    """GIVEN a model that cannot be captured THEN its components get eager execution's inputs, with a note."""

    def refuse(*_):
        raise error

    monkeypatch.setattr(stage, "capture_in_graph", refuse)
    loaded = loaded_model(tmp_path, "gpt2")
    tree = stage.component_tree(loaded.model, loaded.adapter, "coarse")
    inputs = profile_inputs(loaded, sequence_length=8).inputs
    captures, notes = stage.captures_of(tree, inputs, loaded, "cuda-graph")
    assert set(captures) == {component.name for component in tree}
    assert notes == [reason("eager-inputs", why=why)]


# --- drift ----------------------------------------------------------------------------------------------------


def anchors(**board):
    """Return the entries of a session in virtual time, and the minutes from the first anchor to the last."""
    rounds = {"node:model": [SimulatedCall(20.0, 80.0)], "node:a": [SimulatedCall(16.0, 50.0)]}
    session = measure(SimulatedGpu(board=SimulatedBoard(**board)), rounds)
    times = [entry["begin_s"] for entry in session.windows("node:model")]
    return [{"stage": "profile", **entry} for entry in session.entries], (times[-1] - times[0]) / 60


def test_a_drift_of_the_board_shows_in_the_anchors():
    """GIVEN power that grows by 6 % a minute THEN the anchors' trend says so, and that it is no chance."""
    entries, minutes = anchors(drift=0.06)
    trend = anchors_drift(entries)
    assert trend["change"] == pytest.approx(0.06 * minutes, rel=0.05)
    assert trend["low"] < trend["change"] < trend["high"]
    assert trend["significant"]


def test_scatter_is_no_drift():
    """GIVEN a board that scatters by 0.3 % THEN no drift is claimed; other stages' entries do not count."""
    entries, _ = anchors(window_noise=0.003)
    assert not anchors_drift(entries)["significant"]
    assert anchors_drift([{**entry, "stage": "ablate"} for entry in entries]) is None
