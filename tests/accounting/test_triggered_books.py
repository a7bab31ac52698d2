"""What the reads around components stand for: a rise of the counter, or nothing that could be told."""

from __future__ import annotations

import pytest

from energyscope.accounting.triggered import is_triggered, judge, recover, sum_reads
from energyscope.reasons import reason, split

TICK_S = 0.1
COMPONENT = {
    "kind": "mlp", "layer": 0, "level": "block", "parent": "model", "calls": 1, "varied": False, "flops": 10.0,
    "bytes": 4.0, "work_reason": None, "parameters": 3, "weight_bytes": 12,
}  # fmt: skip
TREE = [
    {**COMPONENT, "name": "model", "kind": "model", "level": "model", "parent": None},
    {**COMPONENT, "name": "mlp"},
]


def journal(passes, *, ticks_s=(TICK_S,), idle_w=None, bystanders=()):
    """Return the entries of a profile whose every pass holds the given reads by component."""
    header = {
        "sampling": "triggered", "meter": "nvml", "ticks_s": list(ticks_s), "phase": "prefill",
        "precision": "fp32", "execution": "eager", "batch_size": 1, "context_length": 8, "device": "cuda:0",
        "passes": len(passes), "tree": TREE, "notes": [],
    }  # fmt: skip
    idle = {"pass": 0, "idle_w": idle_w, "bystanders": list(bystanders)}
    taken = [{"pass": number, "reads": [read]} for number, reads in enumerate(passes) for read in reads]
    return [{"header": header}, idle, *taken]


def read(component, seconds, *rises_mj, power_w=200.0):
    powers = [power_w] * len(rises_mj)
    return {"component": component, "time_us": seconds * 1e6, "rises_mj": list(rises_mj), "power_w": powers}


def rows(*passes, **options):
    return {row.component: row for row in recover(journal(passes, **options)).rows}


@pytest.mark.parametrize(
    ("rise_mj", "seconds", "tick_s", "why"),
    [
        (0.0, 1e-4, TICK_S, reason("shorter-than-tick", tick_s=TICK_S)),
        (20_000.0, 1e-4, TICK_S, reason("shorter-than-tick", tick_s=TICK_S)),
        (0.0, 0.5, TICK_S, reason("no-tick-between-reads")),
        (0.0, 1e-4, None, reason("no-tick-between-reads")),
        (-5.0, 0.5, TICK_S, reason("counter-reset")),
        (None, 0.5, TICK_S, reason("counter-silent")),
        (162e6, 0.5, TICK_S, reason("counter-jumped", kj=162.0, seconds=0.5)),
    ],
)
def test_a_rise_that_is_no_energy_is_none_with_a_reason(rise_mj, seconds, tick_s, why):
    """Unknown is None and never 0, also where a tick happened to fall into a short component."""
    assert judge(rise_mj, seconds * 1e6, tick_s) == (None, why)


@pytest.mark.parametrize("tick_s", [TICK_S, None])
def test_a_rise_over_whole_ticks_is_the_energy(tick_s):
    """GIVEN a component longer than the tick, or a counter without one, THEN its energy is the counter's rise."""
    assert judge(30_000.0, 0.15e6, tick_s) == (30_000.0, None)


def test_calls_and_devices_add_up():
    """GIVEN two calls on two devices THEN energy, time and power are sums over what they should be."""
    total = sum_reads([read("mlp", 0.2, 30.0, 5.0), read("mlp", 0.3, 40.0, 6.0)], [TICK_S, TICK_S])
    assert (total.energy_mj, total.devices_mj, total.naive_mj) == (81.0, [70.0, 11.0], 81.0)
    assert total.time_us == pytest.approx(0.5e6)
    assert total.power_w == 400.0
    assert not total.short


def test_one_silent_device_makes_the_sum_unknown():
    """WHEN one of two devices cannot tell THEN the sum is None, and the other is still listed."""
    total = sum_reads([read("mlp", 0.15, 30.0, 5.0)], [TICK_S, 0.2])
    assert (total.energy_mj, total.devices_mj) == (None, [30.0, None])
    assert total.short


def test_short_components_have_time_and_power_only():
    """GIVEN passes of which one met a tick by chance THEN the energy is None, beside what it would have said."""
    row = rows(*([read("mlp", 1e-3, rise)] for rise in (0.0, 20_000.0, 0.0)))["mlp"]
    assert (row.energy_mj, row.energy_ci_low_mj, row.dynamic_mj, row.share_of_total) == (None, None, None, None)
    assert (row.quality, row.windows, row.passes) == ("invalid", 0, 3)
    assert row.naive_mj == pytest.approx(20_000 / 3)
    assert row.time_us == pytest.approx(1000)
    assert row.power_w == 200.0
    assert reason("shorter-than-tick", tick_s=TICK_S) in split(row.reasons)
    assert reason("power-without-energy") in split(row.reasons)


def test_without_power_nothing_is_said_of_it():
    """GIVEN a board that answers no power THEN the column is None and no reason speaks of it."""
    row = rows([read("mlp", 1e-3, 0.0, power_w=None)])["mlp"]
    assert row.power_w is None
    assert reason("power-without-energy") not in split(row.reasons)


def test_long_components_have_energy_with_an_interval():
    """GIVEN five passes that agree THEN mean, interval, shares, static and dynamic energy follow by hand."""
    energies = (100.0, 102.0, 98.0, 101.0, 99.0)
    by_component = rows(
        *([read("model", 0.4, 200.0), read("mlp", 0.2, energy)] for energy in energies), idle_w=0.1
    )
    row = by_component["mlp"]
    assert row.energy_mj == pytest.approx(100.0)
    assert row.energy_ci_high_mj - row.energy_mj == pytest.approx(2.776 * 2.5**0.5 / 5**0.5, rel=1e-3)
    assert row.share_of_total == pytest.approx(0.5)
    assert row.proportional_mj == pytest.approx(100.0)
    assert row.static_mj == pytest.approx(0.1 * 0.2 * 1e3)
    assert row.dynamic_mj == pytest.approx(80.0)
    assert (row.quality, row.meter, row.reused) == ("B", "nvml", False)
    assert split(row.reasons)[-1] == reason("triggered-sampling")


def test_a_pass_at_fault_is_left_out():
    """WHEN the counter was reset in one of four passes THEN the others give the energy, and the reason stays."""
    row = rows(*([read("mlp", 0.2, rise)] for rise in (100.0, -5e6, 101.0, 99.0)))["mlp"]
    assert row.energy_mj == pytest.approx(100.0)
    assert row.windows == 3
    assert row.naive_mj == pytest.approx(100.0)
    assert reason("counter-reset") in split(row.reasons)


def test_other_users_lower_the_grade():
    """WHEN another process was seen THEN no number is better than C, and the reason names it."""
    passes = [[read("mlp", 0.2, energy)] for energy in (100.0, 100.1, 99.9, 100.0, 100.0)]
    assert rows(*passes)["mlp"].quality == "A"
    row = rows(*passes, bystanders=[reason("other-process", pid=7)])["mlp"]
    assert row.quality == "C"
    assert reason("other-process", pid=7) in split(row.reasons)


def test_each_device_is_listed():
    """GIVEN two devices THEN the row lists their energies beside the sum."""
    row = rows([read("mlp", 0.2, 70.0, 11.0)], [read("mlp", 0.2, 70.0, 11.0)], ticks_s=(TICK_S, TICK_S))["mlp"]
    assert (row.energy_mj, row.devices_mj) == (81.0, "70;11")


def test_what_was_not_reached_says_so():
    """GIVEN a run that ended before a component was read THEN its row is empty, with that reason."""
    row = rows([read("model", 0.4, 200.0)])["mlp"]
    assert (row.energy_mj, row.time_us, row.passes, row.quality) == (None, None, 0, "invalid")
    assert row.reasons == reason("ended-before-measured")


def test_a_journal_of_replay_is_none():
    """Only a header that says so makes a journal one of triggered sampling."""
    assert is_triggered(journal([]))
    assert not is_triggered([{"header": {"phase": "prefill"}}, {"pass": 0, "reads": []}])
