"""The characterisation of a sensor, against a fake NVML library whose character is known."""

from __future__ import annotations

import pytest
from sensor_stand_ins import IDLE_W, MACHINE, UUID, FakeLoad, hurry

from energyscope.metering.choice import open_meter
from energyscope.sensing import sensor
from energyscope.sensing.sensor import characterise, idle_facts


def test_idle_facts_of_a_counter(fake_nvml):
    """The short form gives the period, the jitter, the quantum, the cost of a read and the idle power."""
    fake_nvml(MACHINE)
    with open_meter("auto", gpu_uuid=UUID) as meter:
        facts = idle_facts(meter, 1.0)
    assert facts["idle_w"] == pytest.approx(IDLE_W, rel=0.03)
    assert facts["tick_period_s"] == pytest.approx(0.1, rel=0.03)
    assert facts["tick_jitter_s"] < 0.005
    assert 0.0005 < facts["read_cost_s"] < 0.02
    assert facts["energy_quantum_mj"] >= 1


def test_the_modelled_meter_has_no_idle_power():
    """Time x watts knows no idle power: None, and no time is spent."""
    with open_meter("modelled", gpu_uuid=None) as meter:
        assert idle_facts(meter, 60.0)["idle_w"] is None


@pytest.fixture
def short(monkeypatch):
    """Leave out the comparison of ways to poll, which has tests of its own."""
    hurry(monkeypatch)
    monkeypatch.setattr(sensor, "effect_of_polling", lambda *arguments, **options: {})


@pytest.mark.slow
@pytest.mark.usefixtures("short")
def test_the_fields_of_power_are_told_apart(fake_nvml):
    """GIVEN a mean over 0.6 s and an instant field THEN both are found, and the counter agrees with power."""
    machine = fake_nvml(MACHINE + "at 0 average_s 0.6\n")
    found = characterise(UUID, FakeLoad(machine), [])
    assert found["power_fields"]["average"]["shape"] == "moving average"
    assert found["power_fields"]["average"]["averaging_s"] == pytest.approx(0.6, abs=0.12)
    assert (found["power_fields"]["instant"]["averaging_s"] or 0) < 0.2
    assert found["power_fields"]["instant"]["lag_s"] < 0.12
    assert found["counter_power"]["ratio"] == pytest.approx(1, abs=0.02)
    assert found["counter_power"]["seconds"] == pytest.approx(sensor.AGREEMENT_S, abs=0.3)


@pytest.mark.slow
@pytest.mark.usefixtures("short")
def test_what_a_board_does_not_answer_is_none_with_a_reason(fake_nvml):
    """GIVEN a board without counter and averaged field THEN both are None, with the reason."""
    machine = fake_nvml(MACHINE + "at 0 fail nvmlDeviceGetTotalEnergyConsumption 3\nat 0 fail field185 3\n")
    found = characterise(UUID, FakeLoad(machine), [])
    assert found["power_fields"]["average"]["averaging_s"] is None
    assert "does not answer" in found["power_fields"]["average"]["reason"]
    assert found["counter_power"]["ratio"] is None
    assert "no readable energy counter" in found["counter_power"]["reason"]
