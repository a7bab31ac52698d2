"""Public doubles: sensors and a GPU whose true joules are known, for tests of whatever reads a meter."""

from energyscope.testing.gpu import SimulatedBoard, SimulatedCall, SimulatedGpu
from energyscope.testing.power import PowerTrace
from energyscope.testing.sensor import SimulatedCounter, SimulatedSensor, Watch, steady_calls

__all__ = [
    "PowerTrace",
    "SimulatedBoard",
    "SimulatedCall",
    "SimulatedCounter",
    "SimulatedGpu",
    "SimulatedSensor",
    "Watch",
    "steady_calls",
]
