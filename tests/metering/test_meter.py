"""What the contract of a meter brings along."""

from __future__ import annotations

import numpy as np
import pytest

from energyscope.errors import MeterError
from energyscope.metering.meter import WithoutProcess, require_ticks
from energyscope.metering.modelled import ModelledMeter
from energyscope.metering.ticks import Ticks


def test_a_frozen_counter_is_an_error():
    """No tick at all is an error that says what to do."""
    nothing = np.zeros(0)
    with pytest.raises(MeterError, match="doctor"):
        require_ticks(Ticks(nothing, nothing, nothing), 5.0)


def test_a_counter_that_ticks_is_believed():
    """A single tick is enough: nothing is raised."""
    ticks = ModelledMeter(1.0).ticks(1.0, 1.004)
    assert len(ticks) == 1
    require_ticks(ticks, 5.0)


def test_a_meter_without_a_process_knows_no_states_and_no_neighbours():
    """What is not watched is empty, not invented."""
    with WithoutProcess() as meter:
        assert meter.states(0.0, 1.0) == []
        assert meter.bystanders(own_bytes=1) == []
