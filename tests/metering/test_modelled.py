"""The modelled meter's joules are time x stated watts, and say so."""

from __future__ import annotations

import pytest

from energyscope.errors import UsageError
from energyscope.metering.modelled import ModelledMeter
from energyscope.metering.window import estimate_window
from energyscope.reasons import reason
from energyscope.testing import steady_calls


@pytest.mark.parametrize("watts", [0, -1, float("nan")])
def test_watts_must_be_positive(watts):
    """Zero, negative and undefined watts are refused."""
    with pytest.raises(UsageError, match="above 0"):
        ModelledMeter(watts)


def test_modelled_energy_is_time_times_watts():
    """Through the estimator, the modelled meter's energy is exactly time x watts."""
    calls = steady_calls(100.0, 100.2, 1e-4)
    window = estimate_window(ModelledMeter(50.0).ticks(97.0, 100.2), calls)
    assert window.energy_mj == pytest.approx(50 * 1e-4 * 1e3, rel=1e-6)
    assert window.power_w == pytest.approx(50)


def test_it_says_what_it_is():
    """The description says MODELLED and the watts that were stated."""
    described = ModelledMeter(50.0).describe()
    assert described["notes"] == [reason("modelled-joules", watts=50.0)]
    assert "MODELLED" in described["notes"][0].words
    assert described["choice"] == reason("asked-for")


def test_a_moment_of_it_is_exact():
    """Between two reads, the energy is the time between them x the watts."""
    meter = ModelledMeter(50.0)
    first, second = meter.read(), meter.read()
    assert second.energy_mj - first.energy_mj == pytest.approx(5e4 * (second.at_s - first.at_s), abs=1e-3)
    assert second.power_w == 50.0
