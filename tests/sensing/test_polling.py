"""What polling costs, on loads whose cost is known."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest
from sensor_stand_ins import CALL_S, LOAD_W, MACHINE, UUID, FakeLoad, hurry

from energyscope.errors import MeterError
from energyscope.metering.nvml.board import Board
from energyscope.metering.ticks import Calls
from energyscope.sensing.polling import effect_of_polling, run_loaded, slow_down

pytestmark = pytest.mark.alone


class Slowed:
    """A replayer whose calls take longer while something else is on."""

    def __init__(self, by):
        self.by = by
        self.beside = False

    def run(self, round_, seconds):
        call_s = CALL_S * (1 + self.by) if self.beside else CALL_S
        return Calls(np.array([0.0, seconds]), np.array([0.0, seconds / call_s]))

    def synchronize(self):
        return None

    @contextmanager
    def something(self):
        self.beside = True
        yield
        self.beside = False


@pytest.mark.parametrize("by", [0.0, 0.02])
def test_a_slow_down_is_found(by):
    """GIVEN calls that take 2 % longer beside something THEN the change is 2 %, and 0 where they do not."""
    replayer = Slowed(by)
    change = slow_down(replayer, [], replayer.something, rounds=3, seconds=1.0)
    assert change.change == pytest.approx(by, abs=1e-6)
    assert change.exceeds(0.01) is (by > 0.01)


def test_energy_is_counted_between_two_ticks(fake_nvml):
    """GIVEN 400 W and calls of 100 us THEN one takes 40 mJ, read only near two of the load's ticks."""
    load = FakeLoad(fake_nvml(MACHINE))
    found = run_loaded(Board(UUID), load, [], 1.0)
    assert found.energy_mj == pytest.approx(LOAD_W * CALL_S * 1e3, rel=0.02)
    assert found.time_us == pytest.approx(CALL_S * 1e6, rel=0.01)


def test_a_counter_that_stands_still_under_load_is_an_error(fake_nvml):
    """WHEN the counter does not change under a load THEN that is said, and no energy of 0 is made of it."""
    load = FakeLoad(fake_nvml(MACHINE + "at 0 frozen 1\n"))
    with pytest.raises(MeterError, match="frozen"):
        run_loaded(Board(UUID), load, [], 0.3)


@pytest.mark.slow
def test_an_honest_counter_is_not_changed_by_polling(fake_nvml, monkeypatch):
    """GIVEN a counter that does not mind being read THEN neither way of polling changes time or energy."""
    hurry(monkeypatch)
    found = effect_of_polling(UUID, FakeLoad(fake_nvml(MACHINE)), [], seconds=0.8)
    assert set(found) == {"sampler", "without a pause"}
    for change in found.values():
        assert change["time"]["change"] == pytest.approx(0, abs=0.01)
        assert change["energy"]["change"] == pytest.approx(0, abs=0.04)


@pytest.mark.slow
def test_without_a_counter_only_time_is_compared(fake_nvml, monkeypatch):
    """GIVEN a board without a counter THEN counted energy is None with the reason, and time is still compared."""
    hurry(monkeypatch)
    machine = fake_nvml(MACHINE + "at 0 fail nvmlDeviceGetTotalEnergyConsumption 3\n")
    found = effect_of_polling(UUID, FakeLoad(machine), [], seconds=0.6)
    assert set(found) == {"sampler"}
    assert found["sampler"]["energy"] is None
    assert "no energy counter" in found["sampler"]["reason"]
    assert found["sampler"]["time"]["change"] == pytest.approx(0, abs=0.01)
