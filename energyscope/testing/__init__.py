"""Public tools for tests: a check of adapters, and sensors and a GPU whose true joules are known.

`SimulatedGpu` is a started meter, a replayer and a clock in one, on virtual time: nothing waits:

    gpu = SimulatedGpu(SimulatedSensor(period_s=0.1), SimulatedBoard(window_noise=0.01))
    calls = gpu.run([SimulatedCall(energy_mj=20.0, time_us=80.0)], seconds=0.5)
    (window,) = MeterGroup([gpu]).windows(calls)
    assert abs(window.energy_mj / 20.0 - 1) < 0.05

`SimulatedCounter` is one load on one sensor, for what reads ticks alone:

    counter, calls = SimulatedCounter(load_w=300.0), steady_calls(10.0, 10.5, call_s=1e-4)
    ticks = counter.ticks(7.0, 10.5, load=(10.0, 10.5))
    window = energyscope.metering.window.estimate_window(ticks, calls)
    assert abs(window.energy_mj / counter.true_energy_mj(1e-4) - 1) < 0.01

`check_adapter` is what authors of adapters test them with (`energyscope.testing.conformance`):

    assert check_adapter("llama").problems == []
"""

from energyscope.testing.conformance import Check, Conformance, check_adapter
from energyscope.testing.gpu import SimulatedBoard, SimulatedCall, SimulatedGpu
from energyscope.testing.power import PowerTrace
from energyscope.testing.sensor import SimulatedCounter, SimulatedSensor, Watch, steady_calls

__all__ = [
    "Check",
    "Conformance",
    "PowerTrace",
    "SimulatedBoard",
    "SimulatedCall",
    "SimulatedCounter",
    "SimulatedGpu",
    "SimulatedSensor",
    "Watch",
    "check_adapter",
    "steady_calls",
]
