"""The document is made of the journal alone: the last window of a pass, what was skipped, and who was there."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from energyscope.changes.document import document
from energyscope.changes.plan import BASE, Alternative

OWN = Alternative(BASE, BASE, "decode", 2, 64, "eager", "dynamic", "sdpa")
STATIC = Alternative("kv_cache", "static", "decode", 2, 64, "eager", "static", "sdpa")


def header(*plan, notes=()):
    planned = [{"key": alternative.key, "setting": asdict(alternative)} for alternative in plan]
    return {"header": {"base": {"precision": "bf16"}, "modelled": False, "notes": list(notes), "planned": planned}}


def window(alternative, number, energy_mj):
    figures = {"energy_mj": energy_mj, "time_us": 500.0, "power_w": 200.0, "timing_share": 0.001, "reason": None}
    return {"subject": alternative.key, "pass": number, "window": figures, "guard": []}


def rows(entries):
    return {row["what"]: row for row in document(entries)["rows"]}


def five(alternative, energy_mj):
    return [window(alternative, number, energy_mj * (1 + 0.001 * number)) for number in range(5)]


def test_energy_is_of_the_batch_and_joules_are_of_a_token():
    """GIVEN 100 mJ a step of two sequences THEN a token takes 50 mJ, and both sequences make 4,000 a second."""
    row = rows([header(OWN), *five(OWN, 100.0)])[BASE]
    assert row["energy_mj"]["value"] == pytest.approx(100.2)
    assert row["joules_per_token"]["value"] == pytest.approx(0.0501)
    assert row["tokens_per_s"]["value"] == pytest.approx(4000.0)
    assert (row["quality"], row["windows"], row["static_mj"]) == ("A", 5, None)


def test_a_pass_without_tokens_has_none_to_share_its_energy():
    """GIVEN a pass over sound, which has no tokens, THEN its energy is known and joules of a token are not."""
    sound = replace(OWN, phase="prefill", context_length=0)
    row = rows([header(sound), *five(sound, 100.0)])[BASE]
    assert row["energy_mj"]["value"] == pytest.approx(100.2)
    assert row["joules_per_token"] is None
    assert row["tokens_per_s"] is None


def test_a_window_taken_again_replaces_the_one_before():
    """GIVEN a second window of a pass THEN only that one counts."""
    entries = [header(OWN), *five(OWN, 100.0)]
    entries.insert(1, window(OWN, 0, 900.0))
    assert rows(entries)[BASE]["energy_mj"]["value"] == pytest.approx(100.2)


def test_ratios_are_paired_by_pass():
    """GIVEN a pass in which both took twice as much THEN the ratio is exactly what it is in each pass."""
    scales = [1.0, 1.0, 2.0, 1.0, 1.0]
    both = [window(OWN, number, 100 * scale) for number, scale in enumerate(scales)]
    both += [window(STATIC, number, 80 * scale) for number, scale in enumerate(scales)]
    ratio = rows([header(OWN, STATIC), *both])["kv_cache"]["ratio"]
    assert ratio["value"] == pytest.approx(0.8)
    assert ratio["high"] - ratio["low"] < 0.01


def test_what_failed_later_has_no_row():
    """GIVEN windows of an alternative that was then skipped THEN it is among the skipped only."""
    skipped = {"what": "kv_cache", "value": "static", "phase": "decode", "reason": "it would recompile"}
    entries = [header(OWN, STATIC), *five(OWN, 100.0), window(STATIC, 0, 80.0), {"skipped": skipped}]
    assert set(rows(entries)) == {BASE}
    assert document(entries)["skipped"] == [skipped]


def test_static_energy_is_idle_power_times_time():
    """GIVEN 100 W idle and 500 us a step THEN 50 mJ are static; set-ups and notes are carried along."""
    setup = {"setup": STATIC.key, "setup_s": 2.5, "reasons": ["in two parts"]}
    entries = [header(OWN, STATIC, notes=["a"]), setup, {"idle_w": 100.0, "bystanders": [], "pass": 0}]
    entries += [*five(OWN, 100.0), *five(STATIC, 80.0), {"note": "b"}]
    row = rows(entries)["kv_cache"]
    assert row["static_mj"] == pytest.approx(50.0)
    assert (row["setup_s"], row["reasons"]) == (2.5, "in two parts")
    recovered = document(entries)
    assert (recovered["idle_w"], recovered["notes"]) == (100.0, ["a", "b"])


LOOKUP = Alternative("prompt_lookup", "3", "decode", 1, 64, "eager", "dynamic", "sdpa", proposed=3)
SINGLE = Alternative(BASE, BASE, "decode", 1, 64, "eager", "dynamic", "sdpa")


def test_with_prompt_lookup_joules_are_of_the_tokens_that_steps_make():
    """GIVEN 8 steps of 120 mJ that verify and 2 of 100 mJ for 20 tokens, THEN 58 mJ a token, 0.58 as much."""
    counts = {"tokens": [20] * 4, "steps": [10] * 4, "proposed": [8] * 4, "prompt_tokens": 64, "same": 3}
    setup = {"setup": LOOKUP.key, "setup_s": None, "acceptance": {**counts, "largest_gap": 0.1}}
    entries = [header(SINGLE, LOOKUP), setup, *five(SINGLE, 100.0), *five(LOOKUP, 120.0)]
    row = rows(entries)["prompt_lookup"]
    assert row["energy_mj"]["value"] == pytest.approx(120.24)  # of a step that verifies
    assert row["joules_per_token"]["value"] == pytest.approx(0.0581, abs=1e-4)
    assert row["ratio"]["value"] == pytest.approx(0.58)
    assert row["tokens_per_s"]["value"] == pytest.approx(4000.0)  # 500 us a step, and two tokens of it
    assert row["acceptance"]["tokens_per_step"]["value"] == pytest.approx(2.0)
    assert (row["acceptance"]["same"], row["acceptance"]["texts"], row["acceptance"]["largest_gap"]) == (3, 4, 0.1)
    assert rows(entries)[BASE]["acceptance"] is None


def test_prompt_lookup_without_its_base_has_no_joules_a_token():
    """GIVEN a journal cut before the base THEN other steps' energy is unknown, and so is that of a token."""
    counts = {"tokens": [20], "steps": [10], "proposed": [8], "prompt_tokens": 64, "same": 1, "largest_gap": None}
    setup = {"setup": LOOKUP.key, "setup_s": None, "acceptance": counts}
    row = rows([header(SINGLE, LOOKUP), setup, *five(LOOKUP, 120.0)])["prompt_lookup"]
    assert row["joules_per_token"] is row["ratio"] is row["tokens_per_s"] is None


def test_what_limits_a_step_is_told():
    """GIVEN windows at the power limit, the memory busiest, THEN the row says both; without states, neither."""
    shares = {"sm": 0.9, "tensor": 0.1, "cuda_cores": 0.2, "dram": 0.8, "memory_w": 90.0, "reason": None}
    capped = [
        {**entry, "throttle": 4, "window": {**entry["window"], "activity": shares}} for entry in five(OWN, 9.0)
    ]
    row, unknown = (rows([header(OWN), *windows])[BASE] for windows in (capped, five(OWN, 9.0)))
    assert (row["at_power_limit"], row["limited_by"]) == (True, "memory")
    assert (unknown["at_power_limit"], unknown["limited_by"]) == (None, None)


def test_rows_are_in_the_order_of_the_plan():
    """GIVEN windows in any order THEN the base comes first."""
    assert list(rows([header(OWN, STATIC), *five(STATIC, 80.0), *five(OWN, 100.0)])) == [BASE, "kv_cache"]


def test_without_the_base_there_is_no_ratio():
    """GIVEN a journal cut before the base's first window THEN the ratio is unknown, never 1."""
    assert rows([header(OWN, STATIC), *five(STATIC, 80.0)])["kv_cache"]["ratio"] is None


def test_unknown_joules_are_none():
    """GIVEN windows without energy THEN energy and ratio are None, time is known, and there is no grade."""
    spoilt = [window(STATIC, number, None) for number in range(5)]
    row = rows([header(OWN, STATIC), *five(OWN, 100.0), *spoilt])["kv_cache"]
    assert row["energy_mj"] is row["joules_per_token"] is row["ratio"] is None
    assert row["time_us"]["value"] == pytest.approx(500.0)
    assert row["quality"] == "invalid"


def test_nothing_gives_nothing():
    """GIVEN a header alone, or no entry, THEN there is no document."""
    assert document([]) is None
    assert document([header(OWN)]) is None
