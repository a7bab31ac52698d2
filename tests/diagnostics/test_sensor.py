"""The characterisation of a sensor, against a simulated GPU and a fake NVML library whose character is known."""

from __future__ import annotations

import pytest
from sensor_stand_ins import IDLE_W, MACHINE, STEP, UUID, FakeLoad, hurry, simulated

from energyscope.diagnostics import sensor
from energyscope.diagnostics.sensor import characterise, idle_facts
from energyscope.metering.choice import open_meter


def test_idle_facts_of_a_counter(monkeypatch):
    """The short form gives the period, the jitter, the quantum and the idle power."""
    facts = idle_facts(simulated(monkeypatch), 1.0)
    assert facts["idle_w"] == pytest.approx(IDLE_W, rel=0.03)
    assert facts["tick_period_s"] == pytest.approx(0.1, rel=0.03)
    assert facts["tick_jitter_s"] < 0.005
    assert facts["energy_quantum_mj"] >= 1


def test_the_modelled_meter_has_no_idle_power():
    """Time x watts knows no idle power: None, and no time is spent."""
    with open_meter("modelled", gpu_uuid=None) as meter:
        assert idle_facts(meter, 60.0)["idle_w"] is None


def test_the_fields_of_power_are_told_apart(monkeypatch):
    """GIVEN a mean over 0.6 s and an instant field THEN both are found, and the counter agrees with power."""
    monkeypatch.setattr(sensor, "effect_of_polling", lambda *arguments, **options: {})
    facts = characterise(UUID, simulated(monkeypatch, averaging_s=0.6), STEP)
    assert facts["power_fields"]["average"]["shape"] == "moving average"
    assert facts["power_fields"]["average"]["averaging_s"] == pytest.approx(0.6, abs=0.12)
    assert (facts["power_fields"]["instant"]["averaging_s"] or 0) < 0.2
    assert facts["power_fields"]["instant"]["lag_s"] < 0.12
    assert facts["counter_power"]["ratio"] == pytest.approx(1, abs=0.02)
    assert facts["counter_power"]["seconds"] == pytest.approx(sensor.AGREEMENT_S, abs=0.3)


@pytest.mark.slow
def test_what_a_board_does_not_answer_is_none_with_a_reason(fake_nvml, monkeypatch):
    """GIVEN a board without counter and averaged field THEN both are None, with the reason."""
    hurry(monkeypatch)
    monkeypatch.setattr(sensor, "effect_of_polling", lambda *arguments, **options: {})
    machine = fake_nvml(MACHINE + "at 0 fail nvmlDeviceGetTotalEnergyConsumption 3\nat 0 fail field185 3\n")
    facts = characterise(UUID, FakeLoad(machine), [])
    assert facts["power_fields"]["average"]["averaging_s"] is None
    assert facts["power_fields"]["average"]["reason"].code == "field-silent"
    assert facts["counter_power"]["ratio"] is None
    assert facts["counter_power"]["reason"].code == "no-energy-counter"
