"""The step beside the generations: its figures, and that nothing of it is read as a phase."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from generations import Load, generations

from energyscope.generation.document import recover
from energyscope.generation.loop import middle_context, step_figures
from energyscope.metering.tick_intervals import ticks_to_rows

HEADER = {
    "prompt_tokens": 128, "new_tokens": 128, "batch_size": 1, "kv_cache": "dynamic", "seed": 0, "modelled": False,
    "meters": 1, "settle_s": 0.0, "tokenizer_reason": None, "notes": [],
}  # fmt: skip


def window(energy_mj, time_us, reason=None, timing_share=0.0):
    return {
        "energy_mj": energy_mj, "time_us": time_us, "power_w": None, "naive_mj": None, "ticks": 5, "calls": 10,
        "seconds": 0.5, "reason": reason, "timing_share": timing_share, "power_spread": None,
    }  # fmt: skip


def step(number, *windows, span=(0.0, 0.0)):
    return {
        "step_context": 192, "pass": number, "begin_s": span[0], "end_s": span[1], "windows": list(windows),
    }  # fmt: skip


def test_what_something_else_drew_is_in_no_phase_of_the_document():
    """GIVEN half a second of 450 W after each generation THEN the phases are the truth, by the journal alone."""
    made = generations(Load(other_s=0.5), jitter_s=0.0003, noise=0.002)
    entries = [{"header": HEADER}, {"idle_w": 120.0}, {"ticks": [ticks_to_rows(made.ticks)]}]
    for mark, (begin_s, end_s) in zip(made.marks, made.excluded, strict=True):
        entries += [{"generation": asdict(mark)}, step(0, window(3000.0, 9000.0), span=(begin_s, end_s))]
    phases = recover([{"stage": "generate", **entry} for entry in entries])["phases"]
    energies = {phase["phase"]: phase["energy_j"] for phase in phases}
    for name, truth in (("prefill", made.prefill_j), ("decode", made.decode_j)):
        energy = energies[name]
        assert energy["low"] <= truth <= energy["high"]
        assert energy["value"] == pytest.approx(truth, rel=0.06)


def test_work_is_told_from_time_in_each_window():
    """GIVEN windows of other lengths at one idle power THEN what is beyond it does not scatter."""
    times = np.array([9.0, 11.0, 13.0, 10.0])  # ms
    entries = [step(number, window(118.0 * ms + 280.0, ms * 1e3)) for number, ms in enumerate(times)]
    figures = step_figures(entries, 118.0, "ended")
    assert figures["dynamic_mj"].value == pytest.approx(280.0)
    assert figures["dynamic_mj"].high - figures["dynamic_mj"].low < 1e-6
    assert figures["energy_mj"].high - figures["energy_mj"].low > 100.0
    assert figures["static_mj"] == pytest.approx(118.0 * times.mean())
    assert figures["reason"] is None


def test_windows_that_agree_by_luck_are_no_sharper_than_their_ticks():
    """GIVEN equal energies whose ticks are known to 2 % THEN the interval is not empty."""
    entries = [step(number, window(1000.0, 9000.0, timing_share=0.02)) for number in range(4)]
    energy = step_figures(entries, 118.0, "ended")["energy_mj"]
    assert energy.high - energy.low > 10.0


def test_a_window_without_energy_says_why():
    """The window's own reason, one that was kept, or that the run ended."""
    lost = window(None, 9000.0, reason="the counter was reset")
    assert step_figures([step(0, lost)], 118.0, "ended")["reason"] == "the counter was reset"
    assert step_figures([{"step_reason": "no room"}], 118.0, "ended")["reason"] == "no room"
    assert step_figures([], None, "ended")["reason"] == "ended"


def test_the_middle_is_half_of_the_new_tokens_behind_the_prompt():
    """128 tokens from a prompt of 128: 192 in the cache."""
    assert middle_context(128, 128) == 192
