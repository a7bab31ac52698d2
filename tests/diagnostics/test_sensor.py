"""The characterisation of a sensor, against a simulated GPU and a fake NVML library whose character is known."""

from __future__ import annotations

import pytest
from sensor_stand_ins import IDLE_W, MACHINE, STEP, UUID, FakeLoad, hurry, simulated

from energyscope.diagnostics import sensor
from energyscope.diagnostics.sensor import idle_facts, step_test
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
    """GIVEN a mean over 0.6 s and an instant field THEN both are found in a short step, after the idle power."""
    gpu = simulated(monkeypatch, averaging_s=0.6)
    begin_s = gpu.now()
    facts = step_test(UUID, gpu, STEP)
    assert gpu.now() - begin_s < 5
    assert facts["idle_w"] == pytest.approx(IDLE_W, rel=0.03)
    assert facts["power_fields"]["average"]["shape"] == "moving average"
    assert facts["power_fields"]["average"]["averaging_s"] == pytest.approx(0.6, abs=0.12)
    assert (facts["power_fields"]["instant"]["averaging_s"] or 0) < 0.2
    assert facts["power_fields"]["instant"]["lag_s"] < 0.12
    assert "counter_power" not in facts


def test_counter_and_power_are_compared_where_that_is_asked_for(monkeypatch):
    """GIVEN a counter of all the power drawn THEN both agree, over the seconds that were asked for."""
    facts = step_test(UUID, simulated(monkeypatch), STEP, agreement_s=5.0)
    assert facts["counter_power"]["ratio"] == pytest.approx(1, abs=0.02)
    assert facts["counter_power"]["seconds"] == pytest.approx(5.0, abs=0.3)
    assert facts["power_fields"]["average"]["averaging_s"] == pytest.approx(1.0, abs=0.15)


@pytest.mark.slow
def test_what_a_board_does_not_answer_is_none_with_a_reason(fake_nvml, monkeypatch):
    """GIVEN a board without counter and averaged field THEN both are None, with the reason."""
    hurry(monkeypatch)
    machine = fake_nvml(MACHINE + "at 0 fail nvmlDeviceGetTotalEnergyConsumption 3\nat 0 fail field185 3\n")
    facts = step_test(UUID, FakeLoad(machine), [], agreement_s=1.0)
    assert facts["power_fields"]["average"]["averaging_s"] is None
    assert facts["power_fields"]["average"]["reason"].code == "field-silent"
    assert facts["counter_power"]["ratio"] is None
    assert facts["counter_power"]["reason"].code == "no-energy-counter"


def test_where_nvml_cannot_be_read_only_what_nvidia_smi_says_is_known(monkeypatch):
    """GIVEN a meter over nvidia-smi THEN its idle power is known, no field is asked for, and nothing fails."""
    gpu = simulated(monkeypatch)
    gpu.name = "nvidia-smi"
    monkeypatch.setattr(sensor, "Probe", None)
    facts = step_test(UUID, gpu, STEP, agreement_s=5.0)
    assert facts["idle_w"] == pytest.approx(IDLE_W, rel=0.03)
    assert "power_fields" not in facts
