"""Warm-up and timed loops, on the CPU."""

import gc

import pytest
import torch
from clocks import Clock

from energyscope.benchmarking import loop
from energyscope.benchmarking.loop import is_stable, timed, warm_up

CPU = torch.device("cpu")


CLOCK = Clock(look_s=1e-6)


@pytest.fixture(autouse=True)
def _own_time(monkeypatch):
    """Loops go by a clock that no busy host holds up."""
    monkeypatch.setattr(loop, "time", CLOCK)


def counting(seconds=0.0):
    """A call that counts how often it ran, and takes some seconds."""

    def call():
        call.times += 1
        CLOCK.sleep(seconds)

    call.times = 0
    return call


def test_every_pass_is_timed_and_counted():
    """GIVEN 7 passes of 2 ms THEN 7 latencies, each no shorter, and 7 calls at the end of the loop."""
    call = counting(0.002)
    timing = timed([call], CPU, iterations=7, batch_size=3)
    assert call.times == 7
    assert timing.latencies_s.shape == (7,)
    assert timing.latencies_s.min() >= 0.002
    assert timing.calls.count[-1] == 7
    assert timing.calls.seconds == pytest.approx(timing.latencies_s.sum())
    assert timing.throughput == pytest.approx(3 * 7 / timing.calls.seconds)


def test_inputs_take_turns():
    """GIVEN two inputs THEN five passes feed them in turn."""
    first, second = counting(), counting()
    timed([first, second], CPU, iterations=5, batch_size=1)
    assert (first.times, second.times) == (3, 2)


def test_a_loop_fills_the_meters_window_whatever_was_asked():
    """GIVEN fewer passes than the meter's window holds THEN the loop goes on until it is filled."""
    timing = timed([counting(0.002)], CPU, iterations=2, batch_size=1, least_s=0.05)
    assert timing.calls.seconds >= 0.05
    assert len(timing.latencies_s) > 2


def test_a_time_limit_ends_a_loop_but_not_before_the_window_is_filled():
    """GIVEN a limit THEN fewer passes; GIVEN a window beyond the limit THEN the window decides."""
    short = timed([counting(0.002)], CPU, iterations=10_000, batch_size=1, most_s=0.04)
    assert 1 <= len(short.latencies_s) <= 20
    longer = timed([counting(0.002)], CPU, iterations=10_000, batch_size=1, least_s=0.06, most_s=0.02)
    assert longer.calls.seconds >= 0.06


def test_at_least_one_pass_is_timed():
    """GIVEN a pass that is longer than the limit THEN it is timed all the same."""
    assert len(timed([counting(0.01)], CPU, iterations=5, batch_size=1, most_s=1e-6).latencies_s) == 1


def test_no_collection_happens_inside_of_a_loop_and_the_setting_comes_back():
    """Python's collector is off while passes are timed."""
    seen = []
    timed([lambda: seen.append(gc.isenabled())], CPU, iterations=3, batch_size=1)
    assert seen == [False] * 3
    assert gc.isenabled()


def test_a_warm_up_has_at_least_its_steps_and_ends_stable():
    """GIVEN passes of equal length THEN the warm-up ends soon after its steps, and says that it is stable."""
    call = counting(0.001)
    warmed = warm_up([call], CPU, steps=20)
    assert 20 <= warmed.iterations == call.times <= 120  # the medians of three chunks of 50 ms
    assert warmed.stable is True


def test_a_warm_up_goes_on_while_the_latency_changes():
    """GIVEN passes that become faster and faster THEN the time limit ends the warm-up, which is not stable."""
    state = {"seconds": 0.02}

    def faster():
        CLOCK.sleep(state["seconds"])
        state["seconds"] *= 0.985

    warmed = warm_up([faster], CPU, steps=5, most_s=0.4)
    assert warmed.iterations > 5
    assert warmed.stable is False


def test_the_steps_asked_for_are_done_unless_a_trial_has_no_time():
    """GIVEN 40 steps of 5 ms THEN all are done; a limit of 0.05 s ends them earlier."""
    assert warm_up([counting(0.005)], CPU, steps=40).iterations >= 40
    assert warm_up([counting(0.005)], CPU, steps=40, most_s=0.05).iterations < 40


def test_no_warm_up_is_none():
    """GIVEN zero steps THEN nothing runs, and nothing is said of stability."""
    call = counting()
    warmed = warm_up([call], CPU, steps=0)
    assert (warmed.iterations, warmed.stable, call.times) == (0, None, 0)


@pytest.mark.parametrize(
    ("medians", "stable"),
    [([1.0, 1.0], False), ([2.0, 1.0, 1.01, 1.0], True), ([1.0, 1.03, 1.0], False)],
)
def test_stable_means_three_alike_in_a_row(medians, stable):
    """Two chunks are too few, and 3 % is too much; what came before does not matter."""
    assert is_stable(medians) is stable
