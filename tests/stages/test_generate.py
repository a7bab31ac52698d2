"""The generate stage on bundled models: every phase has its figures, and an interrupted run keeps what it has."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from clocks import HostOfGpu
from task_models import task_model

from energyscope.errors import DeviceError, ModelError
from energyscope.generation import generator, measurement
from energyscope.generation.measurement import text_entries
from energyscope.loading import load_model
from energyscope.metering import waiting
from energyscope.metering.group import MeterGroup
from energyscope.metering.modelled import ModelledMeter
from energyscope.reasons import reason
from energyscope.replay import marks, replayer
from energyscope.stages import generate as module
from energyscope.stages.generate import GenerateSettings, generate, load_entry, recover
from energyscope.testing import SimulatedBoard, SimulatedSensor
from energyscope.workloads import profile_inputs
from energyscope.workloads.decoding import decode_step

WATTS = 50.0
NEW = 16
SHORT = GenerateSettings(new_tokens=NEW, seconds=0.5, passes=2)
PHASES = ["load", "tokenize", "prefill", "decode", "detokenize"]

NO_STEP = "no step was asked for"


def measure(
    loaded, settings=SHORT, *, meters=None, batch_size=2, length=16, progress=None, step=NO_STEP, earlier=()
):
    """Return the journal of a run, as it comes back from its file."""
    entries = []
    with MeterGroup(meters or [ModelledMeter(WATTS)]) as meter:
        workload = profile_inputs(loaded, batch_size=batch_size, sequence_length=length)
        options = {"earlier": earlier, **({"progress": progress} if progress else {})}
        generate(loaded, workload, meter, settings, middle_step=lambda: step, journal=entries.append, **options)
    return json.loads(json.dumps(entries))


def taken(entries):
    """Return the numbers of the generations after which the step was taken."""
    return [entry["pass"] for entry in entries if "step_context" in entry]


@pytest.fixture(scope="module", params=["tiny-llama", "tiny-gpt2"])
def loaded(request):
    return load_model(request.param, device="cpu")


@pytest.fixture(scope="module", params=["dynamic", "static"])
def journal(loaded, request):
    return measure(loaded, replace(SHORT, kv_cache=request.param))


@pytest.fixture(scope="module")
def document(journal):
    return recover(journal)


@pytest.mark.parametrize("reads", ["text", "sound"])
def test_a_generation_beside_an_encoder(reads, monkeypatch):
    """GIVEN a decoder beside an encoder THEN all phases, the loop and its step are measured; sound has no text."""
    t5 = replace(task_model("sequence-to-sequence"), tokenizer=load_model("tiny-gpt2", device="cpu").tokenizer)
    if reads == "sound":  # as far as the stage can tell: there are no ids that a text could be made of
        monkeypatch.setattr(module, "text_entries", lambda texts, _, *others: text_entries(texts, [], *others))
    step = decode_step(t5, context_length=9, read=16)
    found = recover(measure(t5, step=step, batch_size=1))
    phases = {phase["phase"]: phase for phase in found["phases"]}
    assert list(phases) == PHASES
    assert phases["prefill"]["tokens"] == 16
    assert all(phases[name]["energy_j"] for name in ("prefill", "decode", "detokenize"))
    assert (phases["tokenize"]["energy_j"] is None) == (reads == "sound")
    assert phases["tokenize"]["reason"] == (reason("reads-no-text") if reads == "sound" else None)
    assert found["loop"]["per_token"]["energy_mj"], "of its loop alone"
    assert found["step"]["context_length"] == 9
    assert found["settings"]["beside_encoder"]


def value(figure):
    return figure["value"]


def test_every_phase_has_its_figures(document):
    """All five phases in their order; of those that ran, energy is watts x seconds, and tokens are counted."""
    assert [phase["phase"] for phase in document["phases"]] == PHASES
    load, *others = document["phases"]
    assert (load["energy_j"], load["method"]) == (None, None)
    assert load["reason"].code == "loading-not-metered"
    for phase in others:
        assert value(phase["energy_j"]) == pytest.approx(WATTS * value(phase["seconds"]), rel=1e-3)
        assert value(phase["power_w"]) == pytest.approx(WATTS, rel=1e-3)
        assert phase["energy_j"]["low"] <= value(phase["energy_j"]) <= phase["energy_j"]["high"]
        assert value(phase["joules_per_token"]) == pytest.approx(value(phase["energy_j"]) / phase["tokens"])
        assert sum(phase["devices_j"]) == pytest.approx(value(phase["energy_j"]), rel=1e-6)
        assert (phase["static_j"], phase["dynamic_j"], phase["reason"]) == (None, None, None)
    assert [phase["method"] for phase in others] == ["repeated", "regressed", "regressed", "repeated"]
    assert [phase["tokens"] for phase in others][1:] == [2 * 16, 2 * (NEW - 1), 2 * NEW]


def test_marks_are_those_of_the_generations(document):
    """Each generation has its begin, its first token, as many tokens as were asked for, and its end, in order."""
    marks = document["marks"]
    assert len(marks) == document["settings"]["generations"] >= SHORT.least
    for mark in marks:
        assert len(mark["tokens_s"]) == NEW
        moments = [mark["begin_s"], *mark["tokens_s"], mark["end_s"]]
        assert moments == sorted(moments)
        assert mark["prefill_end_s"] == mark["tokens_s"][0]
    assert all(mark["end_s"] < after["begin_s"] for mark, after in pairwise(marks))


def test_steps_make_up_the_decode(document):
    """Steps from the first to the last, each once; together they are the decode's seconds and energy."""
    steps, decode = document["steps"], document["phases"][3]
    assert [step["first"] for step in steps] == [1] + [step["last"] + 1 for step in steps[:-1]]
    assert steps[-1]["last"] == NEW - 1
    sizes = [step["last"] - step["first"] + 1 for step in steps]
    seconds = sum(size * value(step["seconds"]) for size, step in zip(sizes, steps, strict=True))
    millijoules = sum(size * value(step["energy_mj"]) for size, step in zip(sizes, steps, strict=True))
    assert seconds == pytest.approx(value(decode["seconds"]))
    assert millijoules == pytest.approx(value(decode["energy_j"]) * 1e3)


def test_rates_follow_from_the_phases(document):
    """Each rate is what its name says of the phases' tokens, seconds and joules."""
    prefill, decode = document["phases"][2:4]
    rates = {name: value(figure) for name, figure in document["rates"].items()}
    joules = value(prefill["energy_j"]) + value(decode["energy_j"])
    seconds = value(prefill["seconds"]) + value(decode["seconds"])
    assert rates["time_to_first_token_s"] == value(prefill["seconds"])
    assert rates["joules_per_prompt_token"] == pytest.approx(value(prefill["energy_j"]) / 32)
    assert rates["joules_per_generated_token"] == pytest.approx(value(decode["energy_j"]) / 30)
    assert rates["tokens_per_joule"] == pytest.approx(32 / joules)
    assert rates["tokens_per_s"] == pytest.approx(32 / seconds)
    assert rates["tokens_per_s_per_w"] == pytest.approx(30 / value(decode["energy_j"]))
    each = [(mark["tokens_s"][-1] - mark["tokens_s"][0]) / 15 for mark in document["marks"]]
    assert rates["time_per_output_token_s"] == pytest.approx(sum(each) / len(each))


def test_the_loop_is_a_part_of_each_token(document):
    """The loop has its own seconds and joules per token."""
    loop = document["loop"]
    seconds, millijoules = (value(loop["per_token"][figure]) for figure in ("seconds", "energy_mj"))
    assert (loop["windows"], loop["reason"]) == (2 * SHORT.passes, None)
    assert millijoules == pytest.approx(1e3 * WATTS * seconds, rel=1e-3)
    assert set(loop["per_call"]) == {"seconds", "energy_mj"}


def test_what_a_reader_must_know_is_said(document):
    """The document says that it is modelled, what was generated, and what the text was."""
    assert document["modelled"] is True
    assert document["idle_w"] is None
    assert document["settings"]["new_tokens"] == NEW
    assert "prompt-text-decoded" in document["notes"]
    json.dumps(document, allow_nan=False)


def test_an_interrupted_run_keeps_what_it_has(journal):
    """GIVEN a journal cut anywhere THEN the document holds what was finished, and reasons for the rest."""
    whole = recover(journal)
    for length in range(1, len(journal)):
        cut = recover(journal[:length])
        assert [phase["phase"] for phase in cut["phases"]] == PHASES
        assert all(phase["energy_j"] or phase["reason"] for phase in cut["phases"])
        assert cut["loop"]["per_token"] or cut["loop"]["reason"]
        assert cut["marks"] == whole["marks"][: len(cut["marks"])]
    assert recover([]) is None
    assert recover(journal[:1])["phases"][2]["reason"].code == "ended-before-generation"


def test_a_stage_that_was_begun_again_counts_from_there(journal):
    """GIVEN the entries of an interrupted try, and of other stages THEN only the last try is read."""
    others = [{"stage": "profile", "header": {}}, *journal[:4]]
    assert recover([*others, *journal]) == recover(journal)


def test_the_load_comes_from_its_entry(journal):
    """GIVEN a journalled load THEN its energy is the counter's rise over it, between bounds."""
    with MeterGroup([ModelledMeter(WATTS)]) as meter:
        entry = json.loads(json.dumps(load_entry(10.0, 12.5, meter)))
    load = recover([entry, *journal])["phases"][0]
    assert (load["method"], load["reason"]) == ("traced", None)
    assert value(load["energy_j"]) == pytest.approx(125.0)
    assert load["energy_j"]["low"] <= 125.0 <= load["energy_j"]["high"]
    assert value(load["power_w"]) == pytest.approx(WATTS)


def test_progress_counts_up_to_its_total(loaded):
    """Progress is named, never runs backwards or past its total."""
    steps = []
    measure(loaded, progress=lambda *step: steps.append(step))
    assert {step[0] for step in steps} == {"generate"}
    assert all(done < total for _, _, done, total in steps)
    assert [step[2] for step in steps] == sorted(step[2] for step in steps)


def test_one_token_is_a_prefill_alone(loaded):
    """GIVEN one new token THEN the prefill is known, and the decode is None with its reason."""
    document = recover(measure(loaded, replace(SHORT, new_tokens=1)))
    prefill, decode = document["phases"][2:4]
    assert value(prefill["energy_j"]) > 0
    assert (decode["energy_j"], decode["seconds"]) == (None, None)
    assert decode["reason"].code == "one-new-token"
    assert document["steps"] == []
    assert document["rates"]["time_per_output_token_s"] is None


def test_without_a_tokenizer_the_phases_say_why(loaded):
    """GIVEN a model without a tokenizer THEN tokenize and detokenize are None, with the loader's reason."""
    bare = replace(loaded, tokenizer=None, tokenizer_reason="there are no files")
    document = recover(measure(bare))
    for number in (1, 4):
        assert document["phases"][number]["energy_j"] is None
        assert document["phases"][number]["reason"] == "there are no files"


def test_at_the_last_position_the_loop_is_shorter(loaded):
    """GIVEN a prompt with few positions left THEN the loop is taken from generations that still fit."""
    limit = loaded.model.config.max_position_embeddings
    entries = measure(loaded, replace(SHORT, new_tokens=4), batch_size=1, length=limit - 4)
    assert {entry["loop_tokens"] for entry in entries if "loop_tokens" in entry} == {1, 4}


def test_what_does_not_fit_is_one_error(loaded, monkeypatch):
    """GIVEN no memory THEN DeviceError names the batch that fits; any other failure is ModelError in one line."""

    def refuse(error):
        def generate(**options):
            if len(options["input_ids"]) > 1:
                raise error
            return torch.zeros(1, 32, dtype=torch.long)

        monkeypatch.setattr(loaded.model, "generate", generate)

    refuse(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate"))
    with pytest.raises(DeviceError, match=r"batch of 2 x \(16 \+ 16\) tokens does not fit.*a batch of 1 does"):
        measure(loaded)
    refuse(ValueError("no such cache here\nmore"))
    with pytest.raises(ModelError, match=r"cannot generate with a dynamic cache: no such cache here$"):
        measure(loaded)


def test_a_meter_that_averages_gives_seconds_alone(loaded):
    """GIVEN a meter whose power lags THEN phases have seconds alone, there is no step, and both say why."""

    class Late(ModelledMeter):
        settle_s = 0.05

    entries = measure(loaded, meters=[Late(WATTS)], step=decode_step(loaded, batch_size=2, context_length=16))
    document, why = recover(entries), reason("meter-slower-than-phase", settle_s=0.05)
    prefill = document["phases"][2]
    assert value(prefill["seconds"]) > 0
    assert (prefill["energy_j"], prefill["method"], prefill["reason"]) == (None, None, why)
    assert taken(entries) == []
    assert document["step"]["reason"] == why


def test_the_model_is_left_as_it_was_when_the_journal_fails(loaded):
    """GIVEN a disk that fills up within the loop THEN the model computes again what it did before."""

    def full(entry):
        if "loop_tokens" in entry:
            raise OSError("no space left")

    workload = profile_inputs(loaded, batch_size=1, sequence_length=16)
    with MeterGroup([ModelledMeter(WATTS)]) as meter, pytest.raises(OSError, match="no space") as caught:
        generate(loaded, workload, meter, SHORT, middle_step=lambda: NO_STEP, journal=full)
    assert caught.value.__traceback__ is not None  # it still holds the frames
    assert "forward" not in vars(loaded.model)


def test_two_meters_add_up(loaded):
    """GIVEN two meters THEN energies are their sums, with each one's own beside them."""
    document = recover(measure(loaded, meters=[ModelledMeter(30.0), ModelledMeter(20.0)]))
    for phase in document["phases"][1:]:
        assert value(phase["power_w"]) == pytest.approx(50.0, rel=1e-3)
        assert phase["devices_j"][0] == pytest.approx(1.5 * phase["devices_j"][1], rel=1e-3)


@pytest.fixture
def counter(monkeypatch):
    """A GPU of 200 W throughout, by whose time all goes: a pass takes 10 ms of it, however busy the host is."""
    monkeypatch.setattr(module, "PREHEAT_S", 0.2)
    gpu = HostOfGpu(SimulatedSensor(period_s=0.02), SimulatedBoard(idle_w=200.0))
    gpu.look_s = 2e-3
    gpu.rule(monkeypatch, module, generator, measurement, waiting, replayer, marks)
    loaded = load_model("tiny-llama", device="cpu")
    loaded.model.model.register_forward_hook(lambda *_: gpu.sleep(0.01))
    return loaded, gpu


def test_on_a_counter_that_ticks(counter):
    """GIVEN a board that draws 200 W throughout THEN the traced phases have its power, all of it static."""
    loaded, gpu = counter
    document = recover(measure(loaded, replace(SHORT, seconds=3.0, new_tokens=32), meters=[gpu]))
    assert document["modelled"] is False
    assert document["idle_w"] == pytest.approx(200, rel=0.03)
    decode = document["phases"][3]
    assert value(decode["power_w"]) == pytest.approx(200, rel=0.05)
    assert decode["static_j"] == pytest.approx(document["idle_w"] * value(decode["seconds"]))
    assert decode["dynamic_j"] == pytest.approx(value(decode["energy_j"]) - decode["static_j"])
    assert value(document["phases"][1]["power_w"]) == pytest.approx(200, rel=0.05)
    loop_s = value(document["loop"]["per_token"]["seconds"])
    assert 0 < loop_s < value(document["rates"]["time_per_output_token_s"])


def test_on_a_counter_the_parts_of_a_resumed_trace_are_one(counter):
    """GIVEN a process that ended after six generations THEN those of the next one add to them."""
    loaded, gpu = counter
    settings = replace(SHORT, seconds=3.0, new_tokens=32)
    journal = measure(loaded, settings, meters=[gpu])
    cut = journal[: 1 + [number for number, entry in enumerate(journal) if "generation" in entry][5]]
    gpu.sleep(60.0)
    document = recover(whole := [*cut, *measure(loaded, settings, meters=[gpu], earlier=cut)])
    marks, decode = document["marks"], document["phases"][3]
    assert marks[6]["begin_s"] - marks[5]["end_s"] > 60.0
    assert len(marks) == pytest.approx(len(recover(journal)["marks"]), abs=2)
    assert [entry["trace_part"] for entry in whole if "generation" in entry] == [0] * 6 + [1] * (len(marks) - 6)
    assert value(decode["power_w"]) == pytest.approx(200, rel=0.02)
    assert document["idle_w"] == pytest.approx(200, rel=0.03)


def test_the_step_in_the_middle_is_measured_in_turn_with_the_generations(loaded):
    """Windows of the step follow generations, about ten in all if these are short; they have the meter's power."""
    step = decode_step(loaded, batch_size=2, context_length=16 + NEW // 2)
    entries = measure(loaded, step=step)
    order = ["generation" if "generation" in entry else "step" for entry in entries
             if "generation" in entry or "step_context" in entry]  # fmt: skip
    assert order[:2] == ["generation", "step"]
    assert ("step", "step") not in pairwise(order)
    assert 2 <= len(taken(entries)) <= module.STEPS + 1
    figures = recover(entries)["step"]
    assert figures["windows"] == len(taken(entries))
    assert figures["context_length"] == 16 + NEW // 2
    assert value(figures["energy_mj"]) == pytest.approx(WATTS * value(figures["seconds"]) * 1e3, rel=1e-6)
    assert (figures["static_mj"], figures["dynamic_mj"]) == (None, None), "a modelled meter has no idle power"


def test_long_generations_have_a_step_each(loaded):
    """GIVEN generations that take longer than a tenth of the time THEN each is followed by the step."""
    step = decode_step(loaded, batch_size=2, context_length=16)
    entries = measure(loaded, replace(SHORT, seconds=0.05), step=step)
    assert taken(entries) == list(range(1, 1 + sum("generation" in entry for entry in entries)))


def test_windows_of_the_step_do_not_shorten_the_generations(loaded, monkeypatch):
    """GIVEN steps that take longer than all the time for generations THEN that time is still for generations."""
    real = module.step_entry

    def slow(*given):
        time.sleep(0.3)
        return real(*given)

    monkeypatch.setattr(module, "step_entry", slow)
    step = decode_step(loaded, batch_size=2, context_length=16)
    entries = measure(loaded, replace(SHORT, least=2), step=step)
    generated = [entry["generation"] for entry in entries if "generation" in entry]
    assert sum(mark["end_s"] - mark["begin_s"] for mark in generated) > 0.5 * SHORT.seconds


def test_a_step_that_is_missing_has_its_reason(loaded):
    """GIVEN a step that could not be prepared THEN the document says why, and the trace is as ever."""
    document = recover(measure(loaded, step="no memory was left"))
    assert document["step"]["energy_mj"] is None
    assert document["step"]["reason"] == "no memory was left"
    assert value(document["phases"][3]["energy_j"]) > 0


def test_a_generation_without_room_beside_the_step_does_without_it(loaded, monkeypatch):
    """GIVEN memory that ends once the step's cache is there THEN the step goes, and not the run."""
    real, seen = module.GreedyGenerator.timed, []

    def timed(self, new_tokens):
        seen.append(new_tokens)
        if len(seen) == 3:  # after the warm-up and the first one
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate")
        return real(self, new_tokens)

    monkeypatch.setattr(module.GreedyGenerator, "timed", timed)
    document = recover(measure(loaded, step=decode_step(loaded, batch_size=2, context_length=16)))
    assert document["step"]["reason"] == reason("no-memory-for-step")
    assert value(document["phases"][3]["energy_j"]) > 0


def test_the_step_on_a_counter_that_ticks(counter):
    """GIVEN a board that draws 200 W throughout THEN the step has its power, and nothing beyond idle power."""
    loaded, gpu = counter
    step = decode_step(loaded, batch_size=2, context_length=32)
    settings = replace(SHORT, seconds=3.0, new_tokens=32)
    document = recover(measure(loaded, settings, meters=[gpu], step=step))
    own = document["step"]
    assert value(own["energy_mj"]) == pytest.approx(200.0 * value(own["seconds"]) * 1e3, rel=0.02)
    assert own["static_mj"] == pytest.approx(value(own["energy_mj"]), rel=0.03)
    assert abs(value(own["dynamic_mj"])) < 0.03 * value(own["energy_mj"])
    assert value(document["phases"][3]["power_w"]) == pytest.approx(200.0, rel=0.02)
