"""The windows of a journal have names of their own, which say what ran and in which pass."""

from __future__ import annotations

import pytest

from energyscope.runs.windows import windows_of

FIGURES = {"calls": 10, "energy_mj": 4.0, "time_us": 50.0, "seconds": 0.4, "naive_mj": 4.4}


def window(subject, number, begin_s, stage="profile", **more):
    return {
        "stage": stage, "subject": subject, "pass": number, "ran_s": [begin_s, begin_s + 0.4], "window": FIGURES,
        **more,
    }  # fmt: skip


def test_every_window_of_every_stage_has_a_name():
    """Profile, alternatives, benchmark, generations, step, loop and texts; idle times and headers have none."""
    row = {"precision": "fp16", "batch_size": 32, "sequence_length": 128, "trial": 2, "iterations": 9,
           "energy_per_inference_mj": 7.0, "mean_latency": 0.01}  # fmt: skip
    spread = {"pass": 1, "windows": [FIGURES, FIGURES], "ran_s": [5.0, 6.0]}
    entries = [
        {"stage": "benchmark", "row": row, "ran_s": [0.0, 1.0]},
        {"stage": "generate", "phase": "load", "begin_s": 0.0, "end_s": 1.0, "devices": []},
        {"stage": "generate", "generation": {"begin_s": 2.0, "tokens_s": [2.5], "end_s": 3.0}, "ticks": []},
        {"stage": "generate", "step_context": 192, "begin_s": 3.0, "end_s": 6.0, **spread},
        {"stage": "generate", "loop_tokens": 64, **spread},
        {"stage": "generate", "phase": "tokenize", "tokens": 3, **spread},
        {"stage": "profile", "pass": 0, "idle_w": 100.0, "bystanders": []},
        window("node:model", 0, 7.0, scene="decode@1024"),
        window("decode:batch_size:16", 3, 8.0, stage="alternatives"),
    ]
    windows = windows_of(entries)
    assert list(windows) == [
        "fp16@32x128#2", "generation#1", "step@192#1", "loop@64#1", "tokenize#1", "decode@1024/node:model#0",
        "decode:batch_size:16#3",
    ]  # fmt: skip
    assert windows["fp16@32x128#2"] == {
        "begin_s": 0.0, "end_s": 1.0, "calls": 9, "energy_mj": 7.0, "time_us": pytest.approx(1e4),
    }  # fmt: skip
    assert windows["step@192#1"]["energy_mj"] == 8.0  # of both devices
    assert windows["generation#1"] == {
        "begin_s": 2.0, "end_s": 3.0, "calls": 1, "energy_mj": None, "time_us": None,
    }  # fmt: skip


def test_a_window_taken_again_has_a_name_of_its_own():
    """GIVEN a window that was taken twice in a pass THEN neither's ticks are taken for the other's."""
    windows = windows_of([window("node:a", 0, 1.0), window("node:a", 0, 2.0), window("node:a", 1, 3.0)])
    assert {name: values["begin_s"] for name, values in windows.items()} == {
        "prefill/node:a#0": 1.0, "prefill/node:a#0.2": 2.0, "prefill/node:a#1": 3.0,
    }  # fmt: skip


def test_what_was_subtracted_is_a_window_too():
    """GIVEN a target whose inputs were restored THEN the restoring by itself has a name, times and energy."""
    overhead = {"ran_s": [2.0, 2.5], "window": {**FIGURES, "energy_mj": 1.0}}
    windows = windows_of([window("node:a", 0, 1.0, overhead=overhead)])
    assert list(windows) == ["prefill/node:a#0", "prefill/node:a#0/overhead"]
    assert windows["prefill/node:a#0/overhead"]["begin_s"] == 2.0
    assert windows["prefill/node:a#0/overhead"]["energy_mj"] == 1.0


def test_older_journals_name_the_windows_whose_time_they_hold():
    """GIVEN no ``ran_s`` THEN begin and length say it, except where the length is that of two replays."""
    old = {"stage": "profile", "begin_s": 1.0, "pass": 0}
    row = {"precision": "fp32", "batch_size": 1, "sequence_length": 8, "trial": 1, "iterations": 9,
           "energy_per_inference_mj": 7.0, "mean_latency": 0.01}  # fmt: skip
    entries = [
        {**old, "subject": "node:a", "window": FIGURES},
        {**old, "subject": "node:b", "window": {**FIGURES, "naive_mj": None}},
        {"stage": "benchmark", "row": row},
    ]
    windows = windows_of(entries)
    assert list(windows) == ["prefill/node:a#0"]
    assert windows["prefill/node:a#0"]["end_s"] == pytest.approx(1.4)
