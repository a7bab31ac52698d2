"""The passes of a profile, on virtual time: what is measured when, what is taken again, what is given up."""

from __future__ import annotations

import errno
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from simulated import NOTHING, REFUSAL, REFUSED, RefusingGpu, StandInRig, measure, target

from energyscope.errors import MeterError
from energyscope.metering.group import MeterGroup
from energyscope.progress import silent
from energyscope.reasons import reason, split
from energyscope.stages.instruments import Instruments
from energyscope.stages.sampling_budget import (
    LONGER_MODEL,
    PREHEAT_S,
    REWARM_S,
    SamplingBudget,
)
from energyscope.stages.session import Session, in_whole_passes
from energyscope.testing import SimulatedBoard, SimulatedCall, SimulatedGpu, SimulatedSensor

MODEL = SimulatedCall(20.0, 80.0)  # 250 W
CALL = SimulatedCall(16.0, 50.0)  # 320 W
SLOWER = SimulatedCall(17.0, 80.0)
HUNGRY = SimulatedCall(45.0, 50.0)  # 900 W, above the board's 700
ROUNDS = {"node:model": [MODEL], "node:a": [CALL], "node:b": [CALL], "node:c": [CALL]}
PASSES = 5


@pytest.fixture
def gpu():
    return SimulatedGpu(SimulatedSensor(period_s=0.05))


def order(session, number):
    return [entry["subject"] for entry in session.entries if "window" in entry and entry["pass"] == number]


def scattered(share):
    """Return a round whose energy is off by a share, up in even and down in odd visits."""
    return lambda visit: [replace(CALL, energy_mj=CALL.energy_mj * (1 + share * (-1) ** visit))]


# --- passes ---------------------------------------------------------------------------------------------------


def test_every_pass_begins_with_the_model_and_visits_all_in_another_order(gpu):
    """GIVEN quiet targets THEN each has a window a pass, in changing order, the model first and last."""
    session = measure(gpu, ROUNDS)
    orders = [order(session, number) for number in range(PASSES)]
    assert all(keys[0] == "node:model" for keys in orders)
    assert {tuple(sorted(keys)) for keys in orders} == {tuple(sorted(ROUNDS))}
    assert len({tuple(keys) for keys in orders}) > 1
    assert order(session, PASSES) == ["node:model"]


@pytest.mark.parametrize("number", [1, 3, PASSES])
def test_a_session_that_was_stopped_goes_on_after_its_whole_passes(number):
    """GIVEN passes from before THEN the others follow, with idle power and pauses, and the joules are right."""
    rounds = {**ROUNDS, "node:a": [HUNGRY]}
    whole = measure(SimulatedGpu(SimulatedSensor(period_s=0.05)), rounds)
    earlier = [entry for entry in whole.entries if entry["pass"] < number]
    board = SimulatedGpu(SimulatedSensor(period_s=0.05))
    board.sleep(max(entry.get("begin_s", 0.0) for entry in earlier) + 100.0)
    steps = []
    session = measure(board, rounds, earlier=earlier, progress=lambda *step: steps.append(step))
    assert [done for _, _, done, _ in steps[:2]] == [number * len(rounds)] * 2
    assert session.entries[: len(earlier)] == earlier
    assert {entry["pass"] for entry in session.entries[len(earlier) :] if "window" in entry} >= {PASSES}
    assert min(entry["pass"] for entry in session.entries[len(earlier) :]) >= number
    for name in ("model", "a", "b"):
        assert session.row(name).energy_mj == pytest.approx(whole.row(name).energy_mj, rel=0.01)
        assert session.row(name).passes >= PASSES
    assert all(entry.get("rest_us") for entry in session.windows("node:a")[-2:])


def test_the_order_follows_the_seed(gpu):
    """The same seed gives the same order, another seed another."""
    orders = [
        [order(measure(SimulatedGpu(), ROUNDS, seed=seed), number) for number in range(PASSES)]
        for seed in (1, 1, 2)
    ]
    assert orders[0] == orders[1] != orders[2]


def test_idle_power_is_measured_around_every_pass(gpu):
    """Each pass begins with settled idle power, and one more follows the last window."""
    session = measure(gpu, ROUNDS)
    idle = [index for index, entry in enumerate(session.entries) if "idle_w" in entry]
    assert [session.entries[index]["pass"] for index in idle] == list(range(PASSES + 1))
    assert [session.entries[index]["idle_w"] for index in idle] == pytest.approx([100] * (PASSES + 1), rel=0.01)
    assert idle[0] == 0
    assert idle[-1] == len(session.entries) - 1


def test_the_board_is_preheated(gpu):
    """The model runs for some seconds before the first idle time."""
    begin, moments = gpu.now(), []
    measure(gpu, ROUNDS, keep=lambda entry: moments.append(gpu.now()))
    assert moments[0] - begin > PREHEAT_S


def test_a_window_is_kept_before_the_next_one_starts(gpu):
    """The journal has each window as soon as it is finished, and what was set up for it is undone by then."""
    moments, kept = [], []

    def keep(entry):
        moments.append(gpu.now())
        kept.append(entry)

    session = measure(gpu, ROUNDS, keep=keep)
    begins = [(entry["begin_s"], index) for index, entry in enumerate(kept) if "window" in entry]
    assert all(moments[index] >= begin for begin, index in begins)
    assert all(begin >= moments[index - 1] for begin, index in begins)
    assert session.replay_setup.inside == []
    assert kept == session.entries


def test_progress_never_runs_past_its_total(gpu):
    """GIVEN adaptive passes THEN the total grows with them, and the last step is the last of the total."""
    steps = []
    measure(gpu, {**ROUNDS, "node:a": scattered(0.02)}, progress=lambda *step: steps.append(step))
    assert all(done < total for _, _, done, total in steps)
    assert [done for _, _, done, _ in steps[1:]] == list(range(len(steps) - 1))
    assert steps[-1][2] + 1 == steps[-1][3]


# --- several scenes -------------------------------------------------------------------------------------------


def test_a_session_among_others_is_brief(gpu):
    """GIVEN targets that scatter WHEN a run has two scenes THEN each has its first windows, and none beyond."""
    session = measure(gpu, {key: scattered(0.05) for key in ROUNDS}, sampling_budget=SamplingBudget(phases=2))
    assert {len(session.windows(key)) for key in ROUNDS if key != "node:model"} == {PASSES}


def test_a_budget_makes_a_session_among_others_as_long_as_one_alone(gpu):
    """GIVEN a budget by the user THEN several scenes get the windows that one scene gets."""
    rounds = {key: scattered(0.05) for key in ROUNDS}
    alone, among = (
        measure(SimulatedGpu(), rounds, sampling_budget=SamplingBudget(budget_s=6.0, phases=scenes))
        for scenes in (1, 2)
    )
    assert len(alone.entries) == len(among.entries) > 50


def test_the_model_without_a_kind_has_as_many_windows_as_every_target(gpu):
    """GIVEN several phases THEN what judges the others is measured no less: five windows."""
    rounds = {**ROUNDS, "without:a": [MODEL]}
    session = measure(gpu, rounds, sampling_budget=SamplingBudget(phases=4))
    assert len(session.windows("without:a")) == len(session.windows("node:a")) == PASSES == 5


def test_a_warm_board_is_not_heated_again():
    """GIVEN a scene after another one THEN its board is warm, and it begins sooner."""
    durations = []
    for preheat_s in (PREHEAT_S, REWARM_S):
        gpu = SimulatedGpu()
        begin = gpu.now()
        measure(gpu, ROUNDS, sampling_budget=SamplingBudget(preheat_s=preheat_s))
        durations.append(gpu.now() - begin)
    assert durations[0] - durations[1] == pytest.approx(PREHEAT_S - REWARM_S, abs=0.3)


# --- adaptive passes ------------------------------------------------------------------------------------------


def test_further_passes_visit_only_what_lacks_windows(gpu):
    """GIVEN one target that scatters by 1 % THEN it alone, and the model as an anchor, get more windows."""
    session = measure(gpu, {**ROUNDS, "node:a": scattered(0.01)})
    taken = Counter(entry["subject"] for entry in session.entries if "window" in entry)
    assert taken["node:b"] == taken["node:c"] == PASSES
    assert taken["node:a"] == 10  # (2.776 x 1.095 % / 1 %)^2 = 9.2
    assert taken["node:model"] == 11
    assert all(set(order(session, number)) == {"node:model", "node:a"} for number in range(PASSES, 10))


def test_the_model_gets_further_windows_too(gpu):
    """GIVEN a model that scatters by 1 % THEN its own interval is narrowed as the components' are."""
    session = measure(gpu, {**ROUNDS, "node:model": _scattered_model})
    assert len(session.windows("node:model")) > PASSES + 2
    assert len(session.windows("node:a")) == PASSES


def _scattered_model(visit):
    return [replace(MODEL, energy_mj=MODEL.energy_mj * (1 + 0.01 * (-1) ** (visit // 2)))]


def test_a_components_budget_bounds_its_windows(gpu):
    """GIVEN a spread that no budget narrows THEN windows stop at the budget's seconds, never below the passes."""
    rounds = {**ROUNDS, "node:a": scattered(0.2)}
    generous = measure(gpu, rounds, sampling_budget=SamplingBudget(budget_s=4.1, window_s=0.44))
    assert len(generous.windows("node:a")) == 8  # 4.1 s / (0.44 s + 0.06 s)
    mean = measure(SimulatedGpu(), rounds, sampling_budget=SamplingBudget(budget_s=0.1))
    assert len(mean.windows("node:a")) == PASSES
    assert mean.row("a").quality == "invalid"


def test_the_target_decides_how_many(gpu):
    """GIVEN a spread of 1 % WHEN 5 % is aimed at THEN the first passes suffice."""
    session = measure(
        gpu, {**ROUNDS, "node:a": scattered(0.01)}, sampling_budget=SamplingBudget(target_interval=0.05)
    )
    assert len(session.windows("node:a")) == PASSES


def test_windows_without_a_value_do_not_go_on_for_ever():
    """GIVEN windows that are too short for the sensor THEN they are tried up to the budget, and have a reason."""
    gpu = SimulatedGpu(SimulatedSensor(period_s=0.2))
    session = measure(gpu, ROUNDS, sampling_budget=SamplingBudget(window_s=0.2, budget_s=2.0))
    assert all(entry["window"]["energy_mj"] is None for entry in session.entries if "window" in entry)
    assert Counter(entry["pass"] for entry in session.windows("node:a")) == dict.fromkeys(range(7), 2)
    row = session.row("a")
    assert row.energy_mj is None
    assert row.quality == "invalid"
    assert "few-ticks" in {entry.code for entry in split(row.reasons)}


# --- stalls ---------------------------------------------------------------------------------------------------


def stalled_in(*visits):
    return lambda visit: [SLOWER if visit in visits else CALL]


def test_a_stalled_window_is_taken_again(gpu):
    """GIVEN a window in which the calls took 1.6 times as long THEN another replaces it, and is named."""
    session = measure(gpu, {**ROUNDS, "node:b": stalled_in(2)})
    assert Counter(entry["pass"] for entry in session.windows("node:b")) == {0: 1, 1: 1, 2: 2, 3: 1, 4: 1}
    row = session.row("b")
    assert row.energy_mj == pytest.approx(CALL.energy_mj, rel=0.002)
    assert row.windows == PASSES
    assert reason("retaken-windows", windows=1) in split(row.reasons)


def test_a_stall_does_not_ask_for_further_passes(gpu):
    """A stalled window is replaced before its spread decides how many windows are wanted."""
    session = measure(gpu, {**ROUNDS, "node:b": stalled_in(1)})
    assert max(entry["pass"] for entry in session.entries) == PASSES


def test_only_a_share_of_the_windows_is_taken_again(gpu):
    """GIVEN two stalls in 21 windows, of which 8 % may be repeated, THEN only the slower one is."""
    worst = lambda visit: [SimulatedCall(18.0, 100.0) if visit == 3 else CALL]  # noqa: E731
    session = measure(
        gpu,
        {**ROUNDS, "node:a": worst, "node:b": stalled_in(3)},
        sampling_budget=SamplingBudget(target_interval=1.0),
    )
    assert len(session.windows("node:a")) == PASSES + 1
    assert len(session.windows("node:b")) == PASSES


# --- contamination --------------------------------------------------------------------------------------------


def heated(gpu, *visits):
    """Return a round during whose given visits the board slows down for heat."""

    def round_(visit):
        gpu.board = replace(gpu.board, throttle=0x20 if visit in visits else 0)
        return [CALL]

    return round_


def test_a_contaminated_window_is_taken_again_at_once(gpu):
    """GIVEN heat in one window WHEN it is gone in the next THEN that one counts and the guard is clean."""
    session = measure(gpu, {**ROUNDS, "node:a": heated(gpu, 2)})
    assert [entry["pass"] for entry in session.windows("node:a")] == [0, 1, 2, 2, 3, 4]
    assert session.row("a").quality == "A"
    assert reason("retaken-windows", windows=1) in split(session.row("a").reasons)


def test_what_is_contaminated_twice_is_kept_and_graded(gpu):
    """GIVEN heat in both THEN there is no third window, and the grade is C with the reason."""
    session = measure(gpu, {**ROUNDS, "node:a": heated(gpu, 2, 3)})
    assert [entry["pass"] for entry in session.windows("node:a")] == [0, 1, 2, 2, 3, 4]
    row = session.row("a")
    assert row.quality == "C"
    assert reason("slowed-by-heat") in split(row.reasons)
    assert row.energy_mj == pytest.approx(CALL.energy_mj, rel=0.002)


def test_a_changed_power_limit_is_noticed(gpu):
    """GIVEN another power limit in one window THEN it is taken again."""

    def round_(visit):
        gpu.board = replace(gpu.board, power_limit_w=600.0 if visit in (1, 2) else 700.0)
        return [CALL]

    session = measure(gpu, {**ROUNDS, "node:a": round_})
    assert reason("power-limit-changed", before_w=700.0, now_w=600.0) in split(session.row("a").reasons)


def test_a_power_limit_that_stays_changed_costs_no_second_windows(gpu):
    """GIVEN a new limit for good THEN one window is taken again, and all that were taken at it are graded."""

    def round_(visit):
        if visit == 1:
            gpu.board = replace(gpu.board, power_limit_w=600.0)
        return [CALL]

    session = measure(gpu, {**ROUNDS, "node:a": round_})
    taken = Counter((entry["subject"], entry["pass"]) for entry in session.entries if "window" in entry)
    assert [key for key, times in taken.items() if times > 1] == [("node:a", 1)]
    changed = reason("power-limit-changed", before_w=700.0, now_w=600.0)
    assert all(changed in split(row.reasons) for row in session.books().rows)


def seen_in(gpu, *passes):
    """Return a journal that lets somebody else use the GPU when some passes' idle times are looked at."""
    idle = []

    def keep(entry):
        if "idle_w" in entry:
            idle.append(entry)
        gpu.others[:] = [reason("other-process", pid=7)] if len(idle) in passes else []

    return keep


def test_windows_beside_another_process_are_taken_again_once(gpu):
    """GIVEN a process in one idle time THEN the windows before and after it are redone, and nothing is graded."""
    session = measure(gpu, ROUNDS, keep=seen_in(gpu, 2))
    taken = Counter((entry["subject"], entry["pass"]) for entry in session.entries if "window" in entry)
    assert {number for (_, number), times in taken.items() if times == 2} == {1, 2}
    assert max(taken.values()) == 2
    assert {row.quality for row in session.books().rows} == {"A"}


def test_another_process_that_stays_is_graded(gpu):
    """GIVEN a process in every idle time THEN all is redone once, and every grade is C with the reason."""
    gpu.others.append(reason("other-process", pid=7))
    session = measure(gpu, ROUNDS)
    taken = Counter((entry["subject"], entry["pass"]) for entry in session.entries if "window" in entry)
    assert set(taken.values()) == {2}
    assert {row.quality for row in session.books().rows} == {"C"}
    assert all(reason("other-process", pid=7) in split(row.reasons) for row in session.books().rows)


# --- what cannot be measured ----------------------------------------------------------------------------------


def test_what_cannot_be_captured_is_tried_once():
    """GIVEN a target that a graph cannot hold THEN it is unknown with the reason, and the others are measured."""
    session = measure(RefusingGpu(), {**ROUNDS, "node:a": [REFUSED]})
    assert session.replay_setup.visits["node:a"] == 1
    row = session.row("a")
    assert row.energy_mj is None
    assert row.time_us is None
    assert row.quality == "invalid"
    assert row.reasons == reason("not-capturable", error=REFUSAL)
    assert session.row("b").quality == "A"


def test_a_model_that_cannot_be_captured_is_tried_once():
    """GIVEN that it is the model itself THEN its components are measured without preheating on it."""
    session = measure(RefusingGpu(), {**ROUNDS, "node:model": [REFUSED]})
    assert session.replay_setup.visits["node:model"] == 1
    assert session.row("model").reasons == reason("not-capturable", error=REFUSAL)
    assert session.row("a").energy_mj == pytest.approx(CALL.energy_mj, rel=0.002)
    assert session.row("a").share_of_total is None
    assert "model" not in session.books().closure


def full(visit):
    """Return a round that finds no memory on its third visit and after."""
    if visit >= 2:
        raise torch.OutOfMemoryError("CUDA out of memory")
    return [CALL]


def test_a_component_without_memory_does_not_end_the_run(gpu):
    """GIVEN no memory for a component's third window THEN its first two stay, and the others are measured."""
    session = measure(gpu, {**ROUNDS, "node:a": full})
    assert session.replay_setup.visits["node:a"] == 2  # the third one failed, and there was no fourth
    row = session.row("a")
    assert row.windows == 2
    assert row.energy_mj == pytest.approx(CALL.energy_mj, rel=0.01)
    assert reason("no-memory-for-replay") in split(row.reasons)
    assert row.quality == "invalid"
    assert session.row("b").quality == "A"


def broken(visit):
    """Return a round that raises on its third visit and after, in code that is not ours."""
    if visit >= 2:
        torch.ones(2) @ torch.ones(3)
    return [CALL]


def test_a_component_that_raises_does_not_end_the_run(gpu):
    """GIVEN a component that fails in its third window THEN its first two stay, and the others are measured."""
    session = measure(gpu, {**ROUNDS, "node:a": broken})
    row = session.row("a")
    assert (row.windows, row.quality) == (2, "invalid")
    (failed,) = [part for part in split(row.reasons) if part.code == "replay-failed"]
    assert "RuntimeError: inconsistent tensor size" in failed.words
    assert session.row("b").quality == "A"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (RuntimeError("CUDA error: an illegal memory access was encountered"), RuntimeError),
        (OSError(errno.ENOSPC, "No space left on device"), OSError),
        (MeterError("the counter is frozen"), MeterError),
    ],
)
def test_what_others_meet_too_ends_the_run(gpu, error, kind):
    """GIVEN a lost GPU or meter, or a full disk, in a component's window THEN no other component is tried."""

    def fail(visit):
        raise error

    with pytest.raises(kind):
        measure(gpu, {**ROUNDS, "node:a": fail})


def test_a_model_without_memory_ends_the_run(gpu):
    """GIVEN no memory for the model itself THEN the error goes on to whoever can say what to do."""
    with pytest.raises(torch.OutOfMemoryError):
        measure(gpu, {**ROUNDS, "node:model": full})


def test_what_launches_no_work_costs_nothing(gpu):
    """GIVEN a round without work on the device THEN its energy is 0, which is a fact, and it is tried once."""
    session = measure(gpu, {**ROUNDS, "node:a": [NOTHING]})
    assert session.replay_setup.visits["node:a"] == 1
    row = session.row("a")
    assert (row.energy_mj, row.time_us, row.static_mj, row.quality) == (0.0, 0.0, 0.0, "A")
    assert row.reasons == reason("launches-nothing")


# --- the power cap --------------------------------------------------------------------------------------------


def test_a_hungry_component_is_measured_with_pauses(gpu):
    """GIVEN calls that alone reach the power cap THEN with pauses they show the joules they take in the model."""
    session = measure(gpu, {**ROUNDS, "node:a": [HUNGRY]})
    windows = session.windows("node:a")
    assert windows[0]["throttle"] & 0x04
    assert "rest_us" not in windows[0]
    assert windows[0]["window"]["energy_mj"] < 0.9 * HUNGRY.energy_mj  # at lower clocks
    paused = [entry for entry in windows if "rest_us" in entry]
    assert paused == windows[1:]
    assert [entry["pass"] for entry in paused] == list(range(PASSES))
    row = session.row("a")
    assert row.windows == PASSES
    assert row.energy_mj == pytest.approx(HUNGRY.energy_mj, rel=0.005)
    assert row.time_us == pytest.approx(HUNGRY.time_us, rel=0.005)
    assert row.clock_mhz == pytest.approx(1980)
    assert reason("replayed-with-pauses") in split(row.reasons)


def test_windows_from_before_the_pauses_are_made_up_for(gpu):
    """GIVEN a cap that is reached only in the third pass THEN five windows with pauses are taken all the same."""
    session = measure(gpu, {**ROUNDS, "node:a": lambda visit: [CALL if visit < 2 else HUNGRY]})
    paused = [entry["pass"] for entry in session.windows("node:a") if "rest_us" in entry]
    assert paused == [2, 3, 4, 5, 6]
    assert session.row("a").windows == PASSES
    assert session.row("a").energy_mj == pytest.approx(HUNGRY.energy_mj, rel=0.005)


def test_a_model_under_the_cap_is_measured_as_it_runs(gpu):
    """GIVEN a model that reaches the cap in some passes THEN it never gets pauses: how it runs is the question."""
    session = measure(gpu, {**ROUNDS, "node:model": lambda visit: [HUNGRY if visit > 4 else MODEL]})
    assert not any("rest_us" in entry for entry in session.windows("node:model"))
    assert any((entry["throttle"] or 0) & 0x04 for entry in session.windows("node:model"))


def test_a_component_at_the_capped_models_clocks_needs_no_pauses(gpu):
    """GIVEN a model under the cap too THEN a component at the same clocks runs as it does in the model."""
    session = measure(gpu, {**ROUNDS, "node:model": [HUNGRY], "node:a": [HUNGRY]})
    assert not any("rest_us" in entry for entry in session.entries)


# --- what the board is busy with ------------------------------------------------------------------------------

BUSY = {"sm": 0.9, "tensor": 0.8, "cuda_cores": 0.1, "dram": 0.2}


def activity_of(row):
    return row.sm_activity, row.tensor_activity, row.cuda_core_activity, row.dram_activity


@pytest.fixture
def counting_gpu():
    return SimulatedGpu(SimulatedSensor(), SimulatedBoard(gpm=True))


def test_each_component_has_its_own_activity(counting_gpu):
    """GIVEN a component that streams and others that compute THEN each row has its shares, and what limits it."""
    streaming = replace(CALL, activity={**BUSY, "tensor": 0.0, "dram": 0.85})
    rounds = {key: [replace(round_[0], activity=BUSY)] for key, round_ in ROUNDS.items()}
    session = measure(counting_gpu, {**rounds, "node:b": [streaming], "node:c": [CALL]})
    assert activity_of(session.row("a")) == pytest.approx(tuple(BUSY.values()))
    words = [session.row(name).limited_by for name in ("model", "a", "b", "c")]
    assert words == ["tensor cores", "tensor cores", "memory", "waiting"]


def test_pauses_are_not_in_the_activity(counting_gpu):
    """GIVEN a component that is replayed with pauses THEN its shares are those of its calls alone."""
    hungry = replace(HUNGRY, activity=BUSY)
    session = measure(counting_gpu, {**ROUNDS, "node:a": [hungry]})
    assert any("rest_us" in entry for entry in session.windows("node:a"))
    assert activity_of(session.row("a")) == pytest.approx(tuple(BUSY.values()), rel=0.02)
    assert session.row("a").limited_by == "tensor cores"


def test_restoring_inputs_is_not_in_the_activity(counting_gpu):
    """GIVEN 20 us of copies before each call of 50 us THEN the memory's share is the call's own."""
    share = (0.2 * 50 + 1.0 * 20) / 70
    both = SimulatedCall(CALL.energy_mj + 4.0, 70.0, activity={**BUSY, "dram": share})
    copies = [SimulatedCall(4.0, 20.0, activity={"sm": BUSY["sm"], "tensor": BUSY["tensor"], "dram": 1.0})]
    session = measure(counting_gpu, {**ROUNDS, "node:a": [both]}, overheads={"node:a": copies})
    assert session.row("a").dram_activity == pytest.approx(0.2, abs=0.01)


def test_a_host_that_stalls_is_in_the_activity():
    """GIVEN a host that holds every call up THEN the row says that the board waits: that takes energy too."""
    gpu = SimulatedGpu(SimulatedSensor(), SimulatedBoard(gpm=True, stalls=1.0, stall=3.0))
    session = measure(gpu, {**ROUNDS, "node:a": [replace(CALL, activity=BUSY)]})
    assert session.row("a").tensor_activity == pytest.approx(0.2, rel=0.02)
    assert session.row("a").limited_by == "waiting"


def test_a_board_without_counters_leaves_the_activity_unknown(gpu):
    """Nothing is known, and no row repeats the reason, which the meter's notes have."""
    row = measure(gpu, ROUNDS).row("a")
    assert activity_of(row) == (None,) * 4
    assert (row.limited_by, row.memory_power_w, row.reasons) == (None, None, "")


# --- what is not the component's own --------------------------------------------------------------------------


def test_restoring_inputs_is_subtracted(gpu):
    """GIVEN calls of which 4 mJ and 20 us restore their inputs THEN the component's are what is left."""
    both = SimulatedCall(CALL.energy_mj + 4.0, CALL.time_us + 20.0)
    session = measure(gpu, {**ROUNDS, "node:a": [both]}, overheads={"node:a": [SimulatedCall(4.0, 20.0)]})
    assert session.row("a").energy_mj == pytest.approx(CALL.energy_mj, rel=0.005)
    assert session.row("a").time_us == pytest.approx(CALL.time_us, rel=0.005)


def test_an_overhead_that_is_no_work_leaves_the_window_as_it_is(gpu):
    """GIVEN an overhead that launches nothing THEN nothing is subtracted."""
    session = measure(gpu, ROUNDS, overheads={"node:a": [NOTHING]})
    assert session.row("a").energy_mj == pytest.approx(CALL.energy_mj, rel=0.002)


def test_two_devices_are_summed_and_listed():
    """Every window holds the energy of both devices together, and of each."""
    gpu = SimulatedGpu()
    instruments = Instruments(StandInRig(ROUNDS, {}), gpu, MeterGroup([gpu, gpu]), gpu)
    session = Session(instruments, SamplingBudget(), lambda entry: None)
    session.run([target(key) for key in ROUNDS], silent)
    window = next(entry for entry in session.entries if entry.get("subject") == "node:a")
    assert window["devices"] == pytest.approx([CALL.energy_mj] * 2, rel=0.005)
    assert window["window"]["energy_mj"] == pytest.approx(2 * CALL.energy_mj, rel=0.005)


def test_no_noise_takes_more_windows_than_the_budget_allows():
    """GIVEN 3 % between windows THEN every target has at least the passes' windows and at most the budget's."""
    gpu = SimulatedGpu(SimulatedSensor(period_s=0.05), SimulatedBoard(window_noise=0.03))
    session = measure(gpu, ROUNDS)
    limit = SamplingBudget().limit(gpu.window_s, modelled=False)
    assert {len(session.windows(key)) for key in ROUNDS if key != "node:model"} <= set(range(PASSES, limit + 1))
    assert len(session.windows("node:model")) <= limit + 1  # the last anchor


# --- the host's pace ------------------------------------------------------------------------------------------


def test_shares_hold_where_the_hosts_pace_wanders():
    """GIVEN a pace that wanders by 15 % within seconds THEN shares of time, work and energy hold, totals do not.

    Component and model idle alike, by the host's launches: time shares are those of the calls.
    """
    rounds = {
        "node:model": [SimulatedCall(200.0, 800.0)],
        "node:a": [CALL],
        "node:b": [SimulatedCall(60.0, 150.0)],
    }
    errors, covered = [], []
    for seed in range(8):
        gpu = SimulatedGpu(SimulatedSensor(seed=seed), SimulatedBoard(seed=seed, wander=0.15, window_noise=0.003))
        rows = measure(gpu, rounds, seed=seed, eager=True).books().rows[1:]
        for row, (call,) in zip(rows, list(rounds.values())[1:], strict=True):
            time_share = call.time_us / 800.0
            work_share = (call.energy_mj - 0.1 * call.time_us) / (200.0 - 80.0)
            errors.append(row.time_share / time_share - 1)
            covered.append(row.time_share_ci_low <= time_share <= row.time_share_ci_high)
            covered.append(row.dynamic_share_ci_low <= work_share <= row.dynamic_share_ci_high)
            assert row.dynamic_quality in {"A", "B"}
            assert row.dynamic_share == pytest.approx(work_share, rel=0.03)
    assert max(map(abs, errors)) < 0.2
    assert sum(covered) >= 0.85 * len(covered)  # of 32


def test_overheads_are_not_timed_beside_the_model(gpu):
    """GIVEN blocks in turn THEN each component has some in every first pass, the model itself none."""
    session = measure(gpu, ROUNDS, eager=True)
    timed = Counter(entry["subject"] for entry in session.entries if "beside_model" in entry)
    assert timed == {"node:a": PASSES, "node:b": PASSES, "node:c": PASSES}


@pytest.mark.parametrize(
    ("eager", "phases", "times"), [(True, 1, LONGER_MODEL), (True, 2, LONGER_MODEL / 2), (False, 1, 1.0)]
)
def test_the_models_windows_are_longer_where_the_host_sets_the_pace(gpu, eager, phases, times):
    """GIVEN an eager session THEN the model's windows last longer than others, in a brief one half as much."""
    session = measure(gpu, ROUNDS, eager=eager, sampling_budget=SamplingBudget(phases=phases))
    model, other = ([e["window"]["seconds"] for e in session.windows(key)] for key in ("node:model", "node:a"))
    assert np.median(model) / np.median(other) == pytest.approx(times, rel=0.25)


@pytest.mark.parametrize(("call_us", "blocks"), [(500.0, 4), (60_000.0, 2)])
def test_long_calls_have_fewer_blocks_in_turn(gpu, call_us, blocks):
    """GIVEN a model that takes 60 ms a call THEN two blocks of each component are timed in turn, and not four."""
    rounds = {"node:model": [SimulatedCall(call_us * 0.3, call_us)], "node:a": [SimulatedCall(10.0, 100.0)]}
    session = measure(gpu, rounds, eager=True)
    assert {len(entry["beside_model"]) for entry in session.entries if "beside_model" in entry} == {blocks}


# --- two speeds, and loads that settle ------------------------------------------------------------------------


class TwoSpeeds(SimulatedGpu):
    """A GPU whose calls take 12 % less in some windows, as its canary says."""

    def __init__(self, fast, **board):
        super().__init__(board=SimulatedBoard(**board))
        self.fast, self.number = fast, 0

    def run(self, round_, seconds, *, rest_s=None):
        self.number += 1
        fast = self.number in self.fast
        calls = [replace(call, time_us=call.time_us * (0.88 if fast else 1.0)) for call in round_]
        done = super().run(calls, seconds, rest_s=rest_s)
        return done and replace(done, canary_s=(193e-6, 193e-6) if fast else (229e-6, 229e-6))


def test_windows_of_the_devices_other_state_are_taken_again():
    """GIVEN the first windows at another speed THEN they are taken again, and the model names both."""
    session = measure(TwoSpeeds(range(5, 10)), ROUNDS)
    row = session.row("model")
    assert row.energy_mj == pytest.approx(20.0, rel=0.001)
    assert row.time_us == pytest.approx(80.0, rel=0.001)
    assert reason("two-speeds", us=80.0, other_us=70.4) in [
        reason(note.code, **{key: round(value, 1) for key, value in note.values.items()})
        for note in split(row.reasons)
        if note.code == "two-speeds"
    ]


@pytest.mark.parametrize(("excess", "lasts_s"), [(0.02, 0.3), (0.02, 1.0), (0.0, 0.1)])
def test_a_load_runs_until_its_power_has_settled(excess, lasts_s):
    """GIVEN power 2 % too high at the begin of each load THEN it runs longer, and energies are right to 0.5 %."""
    board = SimulatedBoard(transient=excess, transient_s=lasts_s, window_noise=0.002)
    rounds = {**ROUNDS, **{f"node:{number}": [CALL] for number in range(12)}}
    session = measure(SimulatedGpu(SimulatedSensor(noise=0.002), board), rounds)
    rows = session.books().rows
    assert all(
        row.energy_mj == pytest.approx(rounds[f"node:{row.component}"][0].energy_mj, rel=0.005) for row in rows
    )


def test_what_was_timed_together_is_taken_again_together():
    """GIVEN slow windows in two passes, and room for one THEN all targets of the slower pass are timed again."""
    plan = [target("node:model"), target("node:a"), target("node:b")]
    slow = [("node:a", 1), ("node:b", 4), ("node:a", 4)]
    assert in_whole_passes(slow, plan, limit=5) == [(each.key, 4) for each in plan]
    assert in_whole_passes(slow, plan, limit=2) == []
