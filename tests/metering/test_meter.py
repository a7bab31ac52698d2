"""The common base of meters without a process."""

from __future__ import annotations

from energyscope.metering.meter import WithoutProcess


def test_a_meter_without_a_process_knows_no_states_and_no_neighbours():
    """What is not watched is empty, not invented."""
    with WithoutProcess() as meter:
        assert meter.states(0.0, 1.0) == []
        assert meter.bystanders(own_bytes=1) == []
