"""What polling costs, on loads whose cost is known; load and counter go by a clock of their own."""

from __future__ import annotations

import numpy as np
import pytest
from clocks import ThreadClock
from sensor_stand_ins import CALL_S, LOAD_W, MACHINE, UUID, Counter, Load

from energyscope.diagnostics import polling
from energyscope.diagnostics.polling import effect_of_polling, paired_change, run_loaded
from energyscope.errors import MeterError


@pytest.fixture
def clock(monkeypatch):
    """Ticks are looked for by this clock, in the thread beside the load."""
    made = ThreadClock()
    monkeypatch.setattr(polling, "time", made)
    return made


def test_energy_is_counted_between_two_ticks(clock):
    """GIVEN 400 W and calls of 100 us THEN one takes 40 mJ, read only near two of the load's ticks."""
    load = Load()
    run = run_loaded(Counter(clock, load), load, [], 1.0)
    assert run.energy_mj == pytest.approx(LOAD_W * CALL_S * 1e3, rel=0.005)
    assert run.time_us == pytest.approx(CALL_S * 1e6, rel=1e-6)


def test_a_counter_that_stands_still_under_load_is_an_error(clock):
    """WHEN the counter does not change under a load THEN that is said, and no energy of 0 is made of it."""
    load = Load()
    with pytest.raises(MeterError, match="frozen"):
        run_loaded(Counter(clock, load, watts=0.0), load, [], 0.3)


@pytest.mark.slow
def test_an_honest_counter_is_not_changed_by_polling(clock, fake_nvml, monkeypatch):
    """GIVEN a counter that does not mind being read THEN neither way of polling changes time or energy."""
    fake_nvml(MACHINE)  # what the processes beside the load do poll
    load = Load()
    monkeypatch.setattr(polling, "ROUNDS", 2)
    monkeypatch.setattr(polling, "_counter", lambda uuid: Counter(clock, load))
    changes = effect_of_polling(UUID, load, [], seconds=2.0)
    assert set(changes) == {"sampler", "without a pause"}
    for change in changes.values():
        assert change["time"]["change"] == pytest.approx(0, abs=1e-6)
        assert change["energy"]["change"] == pytest.approx(0, abs=0.005)


def test_what_polling_costs_is_found(clock, monkeypatch):
    """GIVEN polling that slows calls by 2 % and loses 10 % of the energy THEN both are found, for either way."""
    load = Load(slower=0.02)
    monkeypatch.setattr(polling, "_counter", lambda uuid: Counter(clock, load, loses=0.1))
    monkeypatch.setattr(polling, "open_meter", lambda *_arguments, **_options: load.something())
    monkeypatch.setattr(polling, "Probe", load.something)
    for change in effect_of_polling(UUID, load, [], seconds=3.0).values():
        assert change["time"]["change"] == pytest.approx(0.02, abs=1e-6)
        assert change["energy"]["change"] == pytest.approx(1.02 * 0.9 - 1, abs=0.005)


@pytest.mark.slow
def test_without_a_counter_only_time_is_compared(fake_nvml, monkeypatch):
    """GIVEN a board without a counter THEN counted energy is None with the reason, and time is still compared."""
    monkeypatch.setattr(polling, "ROUNDS", 2)
    fake_nvml(MACHINE + "at 0 fail nvmlDeviceGetTotalEnergyConsumption 3\n")
    changes = effect_of_polling(UUID, Load(), [], seconds=0.6)
    assert set(changes) == {"sampler"}
    assert changes["sampler"]["energy"] is None
    assert changes["sampler"]["reason"].code == "no-energy-counter"
    assert changes["sampler"]["time"]["change"] == pytest.approx(0, abs=1e-6)


def test_pairs_cancel_a_drift():
    """GIVEN a board that slows by 1 % a pair and a treatment that costs 2 % THEN 2 % is found, and surely."""
    drift = 1.01 ** np.arange(8)
    wobble = 1 + 0.001 * np.array([1, -1, 1, -1, 1, -1, 1, -1])
    change = paired_change(list(1.02 * drift * wobble), list(drift))
    assert change.change == pytest.approx(0.02, abs=1e-3)
    assert 0 < change.low < 0.02 < change.high


def test_chance_is_no_change():
    """GIVEN pairs that differ by chance alone THEN the interval includes no change."""
    noise = 1 + 0.05 * np.random.default_rng(3).standard_normal(10)
    change = paired_change(list(noise), [1.0] * 10)
    assert change.low < 0 < change.high


def test_without_a_positive_pair_there_is_no_change():
    """Energies of 0, which a frozen counter gives, say nothing about a change."""
    assert paired_change([0.0], [1.0]) is None
    assert paired_change([], []) is None
