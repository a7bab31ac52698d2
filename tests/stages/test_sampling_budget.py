"""What a sampling budget comes to in seconds and windows, beside what a session on virtual time really takes."""

from __future__ import annotations

import pytest
from simulated import measure, target

from energyscope.accounting.records import idle_of
from energyscope.replay.targets import Target
from energyscope.stages.sampling_budget import SamplingBudget, first_windows, most_retaken, replay_time
from energyscope.testing import SimulatedCall, SimulatedGpu, SimulatedSensor

MODEL = SimulatedCall(20.0, 80.0)
CALL = SimulatedCall(16.0, 50.0)
ROUNDS = {"node:model": [MODEL], "node:a": [CALL], "node:b": [CALL], "node:c": [CALL]}


@pytest.fixture
def gpu():
    return SimulatedGpu(SimulatedSensor(period_s=0.05))


def scattered(share):
    """Return a round whose energy is off by a share, up in even and down in odd visits."""
    return lambda visit: [SimulatedCall(CALL.energy_mj * (1 + share * (-1) ** visit), CALL.time_us)]


def test_the_expected_time_is_what_quiet_passes_take(gpu):
    """GIVEN calls that need no more windows THEN the estimate is right to 10 %."""
    begin = gpu.now()
    measure(gpu, ROUNDS)
    plan = [target(key) for key in ROUNDS]
    expected = replay_time(plan, SamplingBudget(), gpu.window_s, modelled=False)
    assert expected.least_s == pytest.approx(gpu.now() - begin, rel=0.1)


def test_no_effort_takes_longer_than_expected(gpu):
    """GIVEN targets that scatter beyond what any budget narrows THEN the time is the longest estimated."""
    begin = gpu.now()
    measure(gpu, {key: scattered(0.2) for key in ROUNDS})
    expected = replay_time([target(key) for key in ROUNDS], SamplingBudget(), gpu.window_s, modelled=False)
    assert expected.most_s == pytest.approx(gpu.now() - begin, rel=0.1)


def test_a_host_that_sets_the_pace_takes_no_longer_than_expected(gpu):
    """GIVEN an eager run whose host never waits THEN longer windows of the model and times in turn are counted."""
    begin = gpu.now()
    measure(gpu, {key: scattered(0.2) for key in ROUNDS}, eager=True)
    plan = [target(key) for key in ROUNDS]
    expected = replay_time(plan, SamplingBudget(), gpu.window_s, modelled=False, eager=True)
    assert expected.most_s == pytest.approx(gpu.now() - begin, rel=0.1)
    assert expected.least_s == replay_time(plan, SamplingBudget(), gpu.window_s, modelled=False).least_s


def test_idle_power_is_measured_three_times_where_that_is_enough(gpu):
    """GIVEN a session whose idle power matters less THEN it idles three times, and takes as long as estimated."""
    begin, sampling_budget = gpu.now(), SamplingBudget(idle_each_pass=False)
    session = measure(gpu, ROUNDS, sampling_budget=sampling_budget)
    assert idle_of(session.entries).half_w is not None
    assert len([entry for entry in session.entries if "idle_w" in entry]) == 3
    expected = replay_time([target(key) for key in ROUNDS], sampling_budget, gpu.window_s, modelled=False)
    assert expected.least_s == pytest.approx(gpu.now() - begin, rel=0.1)


def test_a_brief_session_takes_no_longer_than_expected(gpu):
    """GIVEN several scenes THEN what is estimated at most is what the first windows take, and so it is."""
    begin, sampling_budget = gpu.now(), SamplingBudget(phases=2)
    measure(gpu, {key: scattered(0.2) for key in ROUNDS}, sampling_budget=sampling_budget)
    expected = replay_time([target(key) for key in ROUNDS], sampling_budget, gpu.window_s, modelled=False)
    assert expected.windows == expected.windows_most
    assert expected.least_s == expected.most_s == pytest.approx(gpu.now() - begin, rel=0.1)


def test_the_first_windows_are_those_of_all_passes():
    """Each target has one a pass, also among other phases, and the model one more."""
    assert first_windows(2, SamplingBudget()) == 5 + 5 + 1
    assert first_windows(2, SamplingBudget(phases=2)) == 5 + 5 + 1
    assert first_windows(2, SamplingBudget(passes=2, phases=2)) == 2 + 2 + 1


def test_long_calls_make_windows_longer():
    """GIVEN passes longer than a window THEN windows of the whole model take as long, of its parts as before."""
    model, part = Target("node:model", "node", ("model",)), Target("node:mlp", "node", ("mlp",))
    usual, long = (
        replay_time([model, part], SamplingBudget(), 0.4, modelled=True, pass_s=pass_s) for pass_s in (0.4, 2.4)
    )
    assert long.least_s == pytest.approx(usual.least_s + 11 * 1.0)


def test_targets_that_are_timed_together_share_windows():
    """GIVEN many targets THEN a pass over all of them takes as long as one over the model alone, in the model."""
    plan = [Target(f"node:{number}", "node", (str(number),)) for number in range(40)]
    one, all_, long = (
        replay_time(plan[:count], SamplingBudget(), 0.15, modelled=True, together=True, pass_s=pass_s)
        for count, pass_s in ((1, 0.0), (40, 0.0), (40, 10.0))
    )
    assert one == all_
    assert all_.windows == 5
    assert long.least_s > 5 * 10.0


def test_a_tenth_of_all_windows_is_not_taken_again():
    """Retaking more would cut off the tail of ordinary scatter; a shared host without a GPU is given more."""
    assert most_retaken(100, modelled=False) == 8
    assert most_retaken(100, modelled=True) == 30
    assert most_retaken(5, modelled=False) == 0
