"""The alternatives to a run's setting: a real model on modelled joules, and known joules in virtual time."""

from __future__ import annotations

import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import tiny_models
import torch

from energyscope.changes import lookup
from energyscope.changes.plan import BASE, Alternative
from energyscope.changes.runner import Prepared
from energyscope.errors import MeterError, UsageError
from energyscope.loading import load_model
from energyscope.metering.group import MeterGroup
from energyscope.metering.modelled import ModelledMeter
from energyscope.progress import silent
from energyscope.reasons import read, reason, split
from energyscope.stages.alternatives import AlternativesSettings, Budget, Passes, alternatives, recover
from energyscope.testing import SimulatedBoard, SimulatedCall, SimulatedGpu
from energyscope.workloads import load_evaluation, profile_inputs

SHORT = {"window_s": 0.03, "passes": 2, "budget_s": 24.0}


def state_of(model):
    """Return what must be the same afterwards: attributes, attention, hooks and weights."""
    weights = sum(float(parameter.double().abs().sum()) for parameter in model.parameters())
    hooks = [module for module in model.modules() if module._forward_hooks or "forward" in vars(module)]
    return sorted(vars(model)), model.config._attn_implementation, type(model), hooks, weights


def measured(loaded, *, progress=silent, length=8, **options):
    """Return the document and the journal of a short measurement on modelled joules."""
    entries: list = []
    settings = AlternativesSettings(**{**SHORT, **options.pop("settings", {})})
    with MeterGroup([ModelledMeter(65.0)]) as meter:
        prompt = profile_inputs(loaded, sequence_length=length)
        alternatives(loaded, prompt, meter, settings, journal=entries.append, progress=progress, **options)
    return recover(json.loads(json.dumps(entries))), entries


@pytest.fixture(scope="module")
def llama():
    return load_model("tiny-llama", device="cpu")


@pytest.fixture(scope="module")
def measurement(llama):
    """Return the document, the journal, the progress, and the model's state before and after."""
    steps, before = [], state_of(llama.model)
    document, entries = measured(llama, progress=lambda *step: steps.append(step), context_length=64)
    return SimpleNamespace(
        document=document, entries=entries, steps=steps, before=before, after=state_of(llama.model)
    )


def named(document):
    return {(row["phase"], row["what"], row["value"]): row for row in document["rows"]}


# --- a real model, on modelled joules ---------------------------------------------------------------------------


def test_both_phases_have_a_base_and_rows_with_all_figures(measurement):
    """Each row has joules, time, power and a ratio to the base of its phase; the base's is 1."""
    rows = named(measurement.document)
    assert {("decode", BASE, BASE), ("prefill", BASE, BASE)} <= set(rows)
    assert {what for _, what, _ in rows} == {BASE, "batch_size", "context_length", "kv_cache", "attention"}
    for row in rows.values():
        for name in ("energy_mj", "time_us", "power_w", "joules_per_token", "tokens_per_s", "ratio"):
            assert row[name]["value"] > 0
        assert row["windows"] == SHORT["passes"]
        assert row["static_mj"] is None
        assert row["power_w"]["value"] == pytest.approx(65.0)
    assert all(row["ratio"]["value"] == 1.0 for (_, what, _), row in rows.items() if what == BASE)


def test_joules_per_token_are_of_all_sequences(measurement):
    """A step of a batch makes a token of each sequence; a pass over prompts takes all of their tokens."""
    rows = named(measurement.document)
    decode, prefill = rows["decode", "batch_size", "4"], rows["prefill", "batch_size", "4"]
    assert decode["joules_per_token"]["value"] == pytest.approx(decode["energy_mj"]["value"] / 1e3 / 4)
    assert prefill["joules_per_token"]["value"] == pytest.approx(prefill["energy_mj"]["value"] / 1e3 / (4 * 8))
    assert decode["tokens_per_s"]["value"] == pytest.approx(4e6 / decode["time_us"]["value"])


def test_one_thing_differs_from_the_base(measurement):
    """Each row's settings are the base's but for what it names."""
    rows = named(measurement.document)
    for (phase, what, value), row in rows.items():
        for name in ("batch_size", "context_length", "execution", "kv_cache", "attention"):
            expected = value if name == what else str(rows[phase, BASE, BASE][name])
            assert str(row[name]) == expected


def test_the_document_says_what_was_measured(measurement):
    """The base, the modelled joules, and what was left out with reasons stand beside the rows."""
    document = measurement.document
    assert document["base"] == {
        "precision": "fp32",
        "execution": "eager",
        "batch_size": 1,
        "context_length": 64,
        "kv_cache": "dynamic",
        "attention": "sdpa",
        "prompt_tokens": 8,
    }
    assert document["modelled"]
    assert document["idle_w"] is None
    reasons = {(entry["phase"], entry["value"]): read(entry["reason"]) for entry in document["skipped"]}
    assert reasons["decode", "cuda-graph"].code == "cuda-graph-needs-gpu"
    assert reasons["prefill", "torch-compile"].code == "compiles-decode-only"
    assert reasons["decode", "torch-compile"].values["budget_s"] == 24


def test_the_model_is_left_as_it_was(measurement):
    """Attention implementation, attributes, hooks and weights are those of before."""
    assert measurement.before == measurement.after


def test_every_pass_measures_everything_in_another_order(measurement):
    """Each pass has one window of each alternative and base, shuffled."""
    windows = [entry for entry in measurement.entries if "window" in entry]
    orders = [  # a stalled window is taken again at the end
        list(dict.fromkeys(entry["subject"] for entry in windows if entry["pass"] == number))
        for number in range(SHORT["passes"])
    ]
    assert sorted(orders[0]) == sorted(orders[1])
    assert orders[0] != orders[1]
    assert len(orders[0]) == len(measurement.document["rows"])


class StallingGpu(SimulatedGpu):
    """Its host stalls in one window: the calls take twice as long."""

    stalls_at = 7

    def run(self, round_, seconds, *, rest_s=None):
        self.windows_run = getattr(self, "windows_run", 0) + 1
        if self.windows_run == self.stalls_at:
            round_ = [SimulatedCall(call.energy_mj + call.time_us * 0.1, 2 * call.time_us) for call in round_]
        return super().run(round_, seconds, rest_s=rest_s)


def test_a_window_in_which_the_host_stalled_is_taken_again():
    """GIVEN one window of twice the time THEN it is taken again at the end, and does not widen the interval."""
    document, _ = simulated(StallingGpu())
    assert {row["quality"] for row in document["rows"]} == {"A"}


def test_a_cut_journal_gives_what_was_finished(measurement):
    """GIVEN a journal without its last pass THEN rows have one window each, no interval, and no grade."""
    half = [entry for entry in measurement.entries if entry.get("pass") != 1]
    document = recover(half)
    assert {row["windows"] for row in document["rows"]} == {1}
    assert {row["quality"] for row in document["rows"]} == {"invalid"}
    assert all(row["energy_mj"]["low"] is None for row in document["rows"])
    assert recover(half[:1]) is None
    assert recover([]) is None


def test_progress_names_what_is_measured_within_its_total(measurement):
    """Progress is the stage's and never runs past its total."""
    assert all(step[0] == "alternatives" and step[2] <= step[3] for step in measurement.steps)
    assert any("batch size 4" in step[1] for step in measurement.steps)


def test_setting_up_is_none_of_the_steps(measurement):
    """GIVEN a bar whose steps are windows, THEN setting up is named and counts none, nor is it their pace."""
    setting_up = [step for step in measurement.steps if step[1].startswith("setting up ")]
    assert {step[2:] for step in setting_up} == {(0, 1)}
    assert len({step[3] for step in measurement.steps if step not in setting_up}) == 1


def test_a_context_beyond_the_positions_is_skipped_with_what_fits(llama):
    """GIVEN 512 positions WHEN contexts of 32 and 4,096 are asked for THEN one is measured, one explained."""
    document, _ = measured(llama, context_length=64, settings={"context_lengths": (32, 4096), "batch_sizes": (2,)})
    contexts = [row["value"] for row in document["rows"] if row["what"] == "context_length"]
    assert contexts == ["32"]
    (skipped,) = [skipped for skipped in document["skipped"] if skipped["what"] == "context_length"]
    assert skipped["reason"] == reason("context-beyond-positions", positions=512)


def test_a_static_cache_as_the_runs_own_is_compared_with_a_dynamic_one(llama):
    """GIVEN a run on a static cache THEN the dynamic one is the alternative."""
    document, _ = measured(llama, context_length=16, kv_cache="static", settings={"batch_sizes": (1,)})
    assert document["base"]["kv_cache"] == "static"
    assert named(document)["decode", "kv_cache", "dynamic"]["kv_cache"] == "dynamic"


def test_a_budget_that_is_too_small_leaves_the_bases(llama):
    """GIVEN a tenth of a second THEN the run's own setting is measured, and all else is skipped for time."""
    document, _ = measured(llama, context_length=16, settings={"budget_s": 0.1})
    assert {row["what"] for row in document["rows"]} == {BASE}
    skipped = [entry for entry in document["skipped"] if entry["what"] not in {"execution", "prompt_lookup"}]
    reasons = [read(entry["reason"]) for entry in skipped]
    assert reasons
    assert {(why.code, why.values["budget_s"]) for why in reasons} == {("beyond-time-budget", 0.1)}


def test_a_classifier_has_its_pass_only(tmp_path):
    """GIVEN a model that generates no text THEN only its pass is measured, without a cache."""
    loaded = load_model(str(tiny_models.save_model(tmp_path, "distilbert")))
    document, _ = measured(loaded, settings={"batch_sizes": (2,), "budget_s": 12.0})
    assert {row["phase"] for row in document["rows"]} == {"prefill"}
    assert {row["what"] for row in document["rows"]} == {BASE, "batch_size", "attention"}
    assert document["base"]["context_length"] is None
    assert document["rows"][0]["kv_cache"] is None


def test_graphs_and_long_contexts_are_refused_before_anything_is_measured(llama):
    """GIVEN a run that cannot be on a CPU or with this model THEN it is bad usage, and nothing is journalled."""
    entries: list = []
    prompt = profile_inputs(llama, sequence_length=8)
    for wrong in ({"execution": "cuda-graph"}, {"context_length": 512}):
        with pytest.raises(UsageError), MeterGroup([ModelledMeter(65.0)]) as meter:
            alternatives(llama, prompt, meter, AlternativesSettings(), journal=entries.append, **wrong)
    assert entries == []


def test_prompt_lookup_is_measured_on_the_data(llama, monkeypatch):
    """GIVEN evaluation data THEN steps of 4 and 8 rows have rows, with what is accepted; without, the reason."""
    settings = {"batch_sizes": (1,), "context_lengths": (64,), "budget_s": 25.0}
    monkeypatch.setattr(lookup, "NEW_TOKENS", 8)
    evaluation = load_evaluation(llama, max_examples=60)
    document, _ = measured(llama, context_length=64, settings=settings, evaluation=evaluation)
    rows = named(document)
    plain = rows["decode", BASE, BASE]["energy_mj"]["value"]
    for value in ("3", "7"):
        row = rows["decode", "prompt_lookup", value]
        assert (row["proposed"], row["batch_size"], row["windows"]) == (int(value), 1, SHORT["passes"])
        assert row["acceptance"]["texts"] == row["acceptance"]["same"] == 16
        tokens = row["acceptance"]["tokens_per_step"]["value"]
        assert 1 < tokens < 1 + row["proposed"]
        per_step = 1e3 * tokens * row["joules_per_token"]["value"]
        assert min(row["energy_mj"]["value"], plain) <= per_step <= max(row["energy_mj"]["value"], plain)
    assert "lookup-on-this-data" in document["notes"]
    without, _ = measured(llama, context_length=64, settings={**settings, "budget_s": 0.1})
    assert reason("lookup-without-text") in [entry["reason"] for entry in without["skipped"]]


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.skipif(shutil.which("g++") is None, reason="compiling on a CPU needs a C++ compiler")
def test_a_compiled_step_is_measured_and_forgotten(llama):
    """GIVEN time enough THEN the compiled step has a row with the seconds of compiling, on a static cache."""
    before = state_of(llama.model)
    document, _ = measured(
        llama, context_length=16, settings={"batch_sizes": (1,), "context_lengths": (16,), "budget_s": 300.0}
    )
    row = named(document)["decode", "execution", "torch-compile"]
    assert (row["execution"], row["kv_cache"]) == ("torch-compile", "static")
    assert row["setup_s"] > 0.1
    assert row["windows"] == SHORT["passes"]
    assert "compiled-in-parts" not in {note.code for note in split(row["reasons"])}
    assert state_of(llama.model) == before


@pytest.mark.slow
def test_a_compiler_that_fails_costs_only_the_compiled_step(llama, tmp_path, monkeypatch):
    """GIVEN a machine without a working compiler THEN it says so, others are measured, the model stays."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))  # not what other tests compiled
    monkeypatch.setattr(torch._inductor.config.cpp, "cxx", (str(tmp_path / "no-compiler"),))
    before = state_of(llama.model)
    document, _ = measured(
        llama, context_length=16, settings={"batch_sizes": (1,), "context_lengths": (16,), "budget_s": 300.0}
    )
    reasons = {(entry["phase"], entry["value"]): read(entry["reason"]) for entry in document["skipped"]}
    failed = reasons["decode", "torch-compile"]
    assert failed.code == "measurement-failed"
    assert "compiler" in failed.words
    assert len(document["rows"]) >= 3
    assert state_of(llama.model) == before


# --- known joules, in virtual time ------------------------------------------------------------------------------

OWN = Alternative(BASE, BASE, "decode", 1, 1024, "eager", "dynamic", "sdpa")
BATCH = Alternative("batch_size", "16", "decode", 16, 1024, "eager", "dynamic", "sdpa")
STATIC = Alternative("kv_cache", "static", "decode", 1, 1024, "eager", "static", "sdpa")
JOULES = {
    OWN.key: SimulatedCall(1000.0, 5000.0),
    BATCH.key: SimulatedCall(2400.0, 8000.0),
    STATIC.key: SimulatedCall(1000.0, 5000.0),
}


class Simulated:
    """Replays calls of known joules; what ``failing`` names raises when it is set up, or when it runs."""

    def __init__(self, gpu, *, failing=None, running=None, setup_s=0.0):
        self.gpu, self.failing, self.running, self.setup_s = gpu, failing or {}, running or {}, setup_s
        self.dropped = []

    def prepare(self, alternative):
        self.gpu.sleep(self.setup_s)
        if alternative.key in self.failing:
            raise self.failing[alternative.key]
        return Prepared(None, 0.0, JOULES[alternative.key].time_us / 1e6)

    def expected_seconds(self, alternative):
        return self.setup_s

    def run(self, alternative, seconds):
        if alternative.key in self.running:
            raise self.running[alternative.key]
        return self.gpu.run([JOULES[alternative.key]], seconds)

    def drop(self, alternative):
        self.dropped.append(alternative.key)

    def synchronize(self):
        self.gpu.synchronize()

    def own_bytes(self):
        return [None]


def header(*plan):
    base = {"precision": "bf16", "execution": "eager", "batch_size": 1, "context_length": 1024}
    planned = [{"key": alternative.key, "setting": {**vars(alternative)}} for alternative in plan]
    return {"header": {"base": base, "modelled": False, "notes": [], "planned": planned}}


def simulated(gpu, plan=(OWN, BATCH, STATIC), settings=None, **failures):
    """Return the document of passes in virtual time, and what was set up."""
    entries = [header(*plan)]
    arranged = Simulated(gpu, **failures)
    Passes(arranged, MeterGroup([gpu]), settings or AlternativesSettings(), entries.append, silent, gpu).run(plan)
    return recover([{"stage": "alternatives", **entry} for entry in entries]), arranged


def test_known_joules_come_out():
    """GIVEN steps of known joules THEN energy, static share and ratio are theirs, with grade A."""
    document, _ = simulated(SimulatedGpu(board=SimulatedBoard(idle_w=100.0)))
    rows = named(document)
    batch = rows["decode", "batch_size", "16"]
    assert batch["energy_mj"]["value"] == pytest.approx(2400.0, rel=0.01)
    assert batch["joules_per_token"]["value"] == pytest.approx(0.15, rel=0.01)
    assert batch["ratio"]["value"] == pytest.approx(0.15, rel=0.01)
    assert batch["static_mj"] == pytest.approx(800.0, rel=0.01)
    assert batch["power_w"]["value"] == pytest.approx(300.0, rel=0.01)
    assert document["idle_w"] == pytest.approx(100.0, rel=0.01)
    assert {row["quality"] for row in rows.values()} == {"A"}


def test_the_intervals_hold_what_is_true():
    """GIVEN a drifting, noisy board, many times, THEN nine of ten intervals hold the true joules and ratio."""
    held = []
    for seed in range(60):
        board = SimulatedBoard(window_noise=0.01, time_noise=0.005, seed=seed)
        rows = named(simulated(SimulatedGpu(board=board))[0])
        ratio, energy = rows["decode", "batch_size", "16"]["ratio"], rows[OWN.phase, BASE, BASE]["energy_mj"]
        same = rows["decode", "kv_cache", "static"]["ratio"]
        held.append([
            ratio["low"] <= 0.15 <= ratio["high"],
            energy["low"] <= 1000.0 <= energy["high"],
            same["low"] <= 1.0 <= same["high"],
        ])  # fmt: skip
    assert np.mean(held, axis=0).min() >= 0.88


def test_a_drift_cancels_in_the_ratio():
    """GIVEN power that grows by 20 % a minute THEN equal steps have a ratio within 2 % of 1: passes are paired."""
    rows = named(simulated(SimulatedGpu(board=SimulatedBoard(drift=0.2)))[0])
    assert rows["decode", "kv_cache", "static"]["ratio"]["value"] == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (torch.OutOfMemoryError("CUDA out of memory."), reason("largest-size-that-fits", largest=1)),
        (
            RuntimeError("Failed to find a C compiler\nmore"),
            reason("measurement-failed", error="RuntimeError: Failed to find a C compiler"),
        ),
    ],
)
def test_what_cannot_be_set_up_is_skipped_with_its_reason(error, why):
    """GIVEN a batch that cannot be set up THEN it is skipped with one line, and the rest is measured."""
    document, arranged = simulated(SimulatedGpu(), failing={BATCH.key: error})
    assert set(named(document)) == {("decode", BASE, BASE), ("decode", "kv_cache", "static")}
    (skipped,) = document["skipped"]
    assert (skipped["what"], skipped["value"], skipped["phase"]) == ("batch_size", "16", "decode")
    assert skipped["reason"] == why
    assert arranged.dropped == [BATCH.key]


def test_what_fails_in_a_window_is_skipped_and_costs_nothing_else():
    """GIVEN a recompilation in a window THEN that alternative has no row, and the others have all windows."""
    document, arranged = simulated(SimulatedGpu(), running={STATIC.key: RuntimeError("it would recompile")})
    assert set(named(document)) == {("decode", BASE, BASE), ("decode", "batch_size", "16")}
    assert {row["windows"] for row in document["rows"]} == {5}
    assert [skipped["reason"] for skipped in document["skipped"]] == [
        reason("measurement-failed", error="RuntimeError: it would recompile")
    ]
    assert arranged.dropped == [STATIC.key]


def test_without_its_base_a_phase_is_left_out():
    """GIVEN a base that cannot be set up THEN its alternatives are skipped, since there is nothing to compare."""
    document, _ = simulated(SimulatedGpu(), failing={OWN.key: RuntimeError("no")})
    assert document is None


def test_a_lost_meter_ends_the_stage():
    """GIVEN a meter that is lost THEN that is no reason to skip an alternative."""
    with pytest.raises(MeterError):
        simulated(SimulatedGpu(), running={BATCH.key: MeterError("the counter is gone")})


def test_others_on_the_device_lower_the_grades():
    """GIVEN another process on the GPU THEN rows have grade C at best, and name it."""
    gpu = SimulatedGpu()
    gpu.others = [reason("other-process", pid=42)]
    for row in simulated(gpu)[0]["rows"]:
        assert row["quality"] == "C"
        assert reason("other-process", pid=42) in split(row["reasons"])


def test_what_is_planned_counts():
    """GIVEN 10 s and five windows of 1 s planned at second 2 THEN 3 s are left, and 4 s are refused."""
    budget = Budget(10.0, 5, begin_s=100.0)
    budget.plan(1.0)
    assert budget.refused(102.0, 0.5, 0.4) is None
    assert budget.refused(102.0, 2.0, 0.4) == reason("beyond-time-budget", needed_s=4.0, left_s=3.0, budget_s=10.0)
    assert budget.refused(150.0, 1.0, 1.0).values["left_s"] == 0, "never a negative time"


def test_a_little_over_the_budget_is_not_exceeded():
    """The passes end only where the time is exceeded by a third."""
    budget = Budget(10.0, 5, begin_s=0.0)
    assert not budget.exceeded(12.0)
    assert budget.exceeded(14.0)


def test_slow_set_ups_use_the_budget_up():
    """GIVEN set-ups of 40 s and 90 s in all THEN the base and one alternative are set up, and that is said."""
    document, _ = simulated(SimulatedGpu(), setup_s=40.0)
    assert set(named(document)) == {("decode", BASE, BASE), ("decode", "batch_size", "16")}
    assert document["skipped"][0]["reason"].code == "beyond-time-budget"
