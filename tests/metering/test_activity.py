"""What a GPU was busy with: the samples that count, what is subtracted, and the word for it."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from energyscope.metering.activity import BUSY, Activity, activity_of, busiest, limited_by, mean_activity, without
from energyscope.reasons import reason

QUIET = Activity(sm=0.0, tensor=0.0, cuda_cores=0.0, dram=0.0)
MATMUL = Activity(sm=0.9, tensor=0.7, cuda_cores=0.1, dram=0.2)


def state(begin_s, end_s, sm, **others):
    """Return a tick's state with a pair of samples."""
    shares = {"sm": sm, "tensor": 0.0, "cuda_cores": 0.0, "dram": 0.0}
    return {"after_s": end_s - 0.001, "activity": {"begin_s": begin_s, "end_s": end_s, **shares, **others}}


# --- the word -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shares", "word"),
    [
        ({"sm": 0.9, "tensor": 0.7, "cuda_cores": 0.2, "dram": 0.3}, "tensor cores"),
        ({"sm": 0.9, "tensor": 0.3, "cuda_cores": 0.2, "dram": 0.8}, "memory"),
        ({"sm": 0.9, "tensor": 0.0, "cuda_cores": 0.6, "dram": 0.5}, "CUDA cores"),
        ({"sm": 0.05, "tensor": 0.01, "cuda_cores": 0.01, "dram": 0.02}, "waiting"),
        ({"sm": 0.98, "tensor": 0.2, "cuda_cores": 0.3, "dram": 0.3}, "waiting"),
    ],
)
def test_the_part_nearest_to_its_peak_is_the_limit_unless_none_is_busy(shares, word):
    """A part at 40 % or more limits, of several the nearest to its peak; below, the board waits."""
    assert limited_by(Activity(**shares)) == word


def test_the_limit_begins_at_forty_percent():
    """At the threshold a part is busy, just below it is not."""
    assert limited_by(replace(QUIET, dram=BUSY)) == "memory"
    assert limited_by(replace(QUIET, dram=BUSY - 1e-6)) == "waiting"


@pytest.mark.parametrize("key", ["tensor", "cuda_cores", "dram"])
def test_a_part_that_is_unknown_leaves_the_limit_unknown(key):
    """What was not read might be the limit; without any reading nothing is said either."""
    assert limited_by(replace(MATMUL, **{key: None})) is None
    assert limited_by(None) is None
    assert limited_by(Activity(reason=reason("activity-unknown", why="lost"))) is None


# --- samples --------------------------------------------------------------------------------------------------


def test_only_pairs_of_samples_within_the_load_count():
    """GIVEN pairs that reach out of the load at either end THEN they are left out; the others weigh by time."""
    states = [state(0.9, 1.0, 0.1), state(1.0, 1.1, 0.5), state(1.1, 1.4, 0.9), state(1.4, 1.5, 0.2)]
    assert activity_of(states, 1.0, 1.45).sm == pytest.approx((0.5 * 0.1 + 0.9 * 0.3) / 0.4)


def test_a_load_without_a_pair_of_samples_says_so():
    """GIVEN counters and a load shorter than their interval THEN the shares are unknown, with a reason."""
    activity = activity_of([state(0.95, 1.05, 0.5)], 1.0, 1.08)
    assert activity == Activity(reason=reason("activity-not-sampled", seconds=0.08))


def test_a_board_without_counters_says_nothing():
    """GIVEN states without samples, or none, THEN nothing is known: the meter's notes have the reason."""
    assert activity_of([], 0.0, 1.0) is None
    assert activity_of([{"after_s": 0.5}], 0.0, 1.0) is None


def test_a_read_that_failed_gives_its_reason_only_where_no_other_did():
    """One failed read among good ones is passed over; where all failed, their reason is given."""
    why = reason("activity-unknown", why="busy")
    failed = {"after_s": 1.2, "activity": {"reason": why}}
    assert activity_of([failed, state(1.3, 1.4, 0.5)], 1.0, 2.0).reason is None
    assert activity_of([failed], 1.0, 2.0) == Activity(reason=why)


def test_the_memorys_power_is_that_of_the_second_half():
    """A reading in the first half still shows the load before; boards without counters may have this power."""
    states = [
        {"after_s": at, "activity": {"memory_w": watts}} for at, watts in ((1.1, 20.0), (1.6, 60.0), (1.9, 64.0))
    ]
    assert activity_of(states, 1.0, 2.0) == Activity(memory_w=62.0)


# --- sums and differences -------------------------------------------------------------------------------------


def test_a_pause_is_subtracted_by_its_time():
    """GIVEN calls at 0.8 with pauses of their own length THEN the window at 0.4 less the pauses is 0.8 again."""
    both, pause = Activity(0.45, 0.4, 0.05, 0.1, 50.0), Activity(0.0, 0.0, 0.0, 0.0, 20.0)
    alone = without(both, pause, 100.0, 50.0)
    assert asdict(alone) == pytest.approx(
        {"sm": 0.9, "tensor": 0.8, "cuda_cores": 0.1, "dram": 0.2, "memory_w": 80.0, "reason": None}
    )


def test_restored_inputs_are_subtracted_too():
    """GIVEN 20 us of copying at full bandwidth before 80 us of a matmul THEN the matmul's own is left."""
    both = replace(MATMUL, dram=0.36)  # (80 us x 0.2 + 20 us x 1.0) / 100 us
    assert without(both, replace(QUIET, dram=1.0), 100.0, 20.0).dram == pytest.approx(0.2)


def test_a_difference_stays_between_nothing_and_all():
    """Noise may take a share beyond its limits, which a share cannot be."""
    alone = without(replace(QUIET, sm=0.9), replace(QUIET, sm=0.1, dram=0.2), 100.0, 50.0)
    assert (alone.sm, alone.dram) == (1.0, 0.0)


@pytest.mark.parametrize("times", [(None, 50.0), (100.0, None), (50.0, 50.0)])
def test_without_times_nothing_is_left_to_say(times):
    """Where the call's own time is unknown, or none is left, so is its activity."""
    assert without(MATMUL, QUIET, *times) is None


def test_of_several_devices_the_busiest_speaks():
    """A component runs on one device while another waits; the memories' power adds up, and unknown is no sum."""
    both = busiest([replace(QUIET, memory_w=20.0), replace(MATMUL, memory_w=60.0)])
    assert both == replace(MATMUL, memory_w=80.0)
    assert busiest([None, MATMUL]) == MATMUL
    assert busiest([None, None]) is None


def test_a_mean_leaves_out_what_is_unknown():
    """Windows without shares are left out of the mean; their reason is kept where no window has any."""
    why = Activity(reason=reason("activity-not-sampled", seconds=0.08))
    mean = mean_activity([MATMUL, None, why, replace(MATMUL, sm=0.7)])
    assert (mean.sm, mean.tensor, mean.reason) == (pytest.approx(0.8), pytest.approx(0.7), None)
    assert mean_activity([None, why]).reason == why.reason
    assert mean_activity([None, None]) is None


def test_a_mean_over_components_weighs_their_times():
    """30 us at 0.9 and 10 us at 0.1 are 0.7 over the 40 us."""
    shares = [replace(MATMUL, sm=0.9), replace(MATMUL, sm=0.1)]
    assert mean_activity(shares, [30.0, 10.0]).sm == pytest.approx(0.7)
