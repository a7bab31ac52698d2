"""Power over time, from a counter's ticks."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from energyscope.reporting.data.power_trace import DECODE, MOST_POINTS, PREFILL, close_up, power_trace


def table(
    readings: list[tuple[float, float | None]], device: str = "cuda:0", power: float | None = None
) -> pd.DataFrame:
    return pd.DataFrame(
        [{"time_s": time, "device": device, "energy_mj": energy, "power_w": power} for time, energy in readings]
    )


def marks(*begins: float, prefill: float = 0.1, length: float = 1.0, tokens: int = 10) -> dict[str, Any]:
    return {
        "marks": [
            {"begin_s": begin, "prefill_end_s": begin + prefill, "end_s": begin + length,
             "tokens_s": [begin + prefill + index * (length - prefill) / (tokens - 1) for index in range(tokens)]}
            for begin in begins
        ]
    }  # fmt: skip


def test_power_is_the_counters_rise() -> None:
    """GIVEN 30 J in 0.1 s, THEN the power is 300 W, whatever the board's own field says."""
    found = power_trace(table([(9.9, 0.0), (10.0, 30e3), (10.1, 40e3)], power=1.0), marks(9.9, length=0.2))
    assert found is not None
    assert [point.power_w for point in found.points] == pytest.approx([300.0, 100.0])
    assert (found.begin_s, found.end_s) == pytest.approx((0.0, 0.2))


def test_readings_between_ticks_are_joined() -> None:
    """GIVEN the same reading twice, THEN the power is that between the readings that differ."""
    found = power_trace(table([(0.0, 0.0), (0.05, 0.0), (0.1, 20e3)]), marks(0.0, length=0.1))
    assert found is not None
    assert [(point.begin_s, point.end_s, point.power_w) for point in found.points] == [
        (0.0, 0.1, pytest.approx(200))
    ]


def test_without_a_counter_the_boards_power_is_drawn() -> None:
    """GIVEN a meter that only tells watts, THEN these are drawn."""
    found = power_trace(table([(0.0, None), (0.1, None), (0.2, None)], power=250.0), marks(0.0, length=0.2))
    assert found is not None
    assert [point.power_w for point in found.points] == [250.0, 250.0]


def test_only_the_marked_part_is_kept_and_bands_move_with_it() -> None:
    """GIVEN a minute of trace and one generation in it, THEN some seconds remain, and bands lie on the power."""
    readings = [(0.1 * index, 20e3 * index) for index in range(600)]
    found = power_trace(table(readings), marks(30.0))
    assert found is not None
    assert found.end_s < 2.3
    assert [band.phase for band in found.bands] == [PREFILL, DECODE]
    assert found.bands[0].begin_s == pytest.approx(0.5, abs=0.11)
    assert found.bands[1].begin_s == pytest.approx(found.bands[0].begin_s + 0.1)
    assert len(found.tokens_s) == 10


def test_several_devices_stay_apart() -> None:
    """GIVEN two devices whose rows alternate, THEN each has its own line."""
    both = pd.concat([table([(0.0, 0.0), (0.1, 10e3)]), table([(0.0, 5e3), (0.1, 45e3)], "cuda:1")])
    found = power_trace(both.sort_values("time_s"), marks(0.0, length=0.1))
    assert found is not None
    assert found.devices == ["cuda:0", "cuda:1"]
    assert [point.power_w for point in found.points] == pytest.approx([100.0, 400.0])


def test_a_long_trace_is_thinned_and_keeps_its_energy() -> None:
    """GIVEN ten times as many points as are drawn, THEN neighbours are joined and the joules remain."""
    readings = [(0.1 * index, 20e3 * index + (5e3 if index % 2 else 0)) for index in range(10 * MOST_POINTS + 1)]
    length = readings[-1][0]
    found = power_trace(table(readings), marks(0.0, length=length))
    assert found is not None
    assert len(found.points) <= MOST_POINTS
    joules = sum(point.power_w * (point.end_s - point.begin_s) for point in found.points)
    assert joules == pytest.approx((readings[-1][1] or 0.0) / 1e3, rel=1e-6)


@pytest.mark.parametrize(
    ("frame", "document"),
    [
        (None, marks(0.0)),
        (table([]), marks(0.0)),
        (table([(0.0, 0.0), (0.1, 1e3)]), {"marks": []}),
        (table([(0.0, 0.0), (0.1, 1e3)]), marks(500.0)),
        (table([(0.0, 0.0), (0.1, 1e3)]), {"marks": [{"begin_s": 0.0, "prefill_end_s": None, "end_s": 1.0}]}),
    ],
)
def test_no_trace_or_marks_elsewhere_are_none(frame: pd.DataFrame | None, document: dict[str, Any]) -> None:
    """Without a trace, without whole marks, or with marks beyond the trace, there is nothing to draw."""
    assert power_trace(frame, document) is None


def test_the_close_up_holds_whole_generations_and_can_be_read() -> None:
    """GIVEN ten generations, THEN at most three of them are shown larger, with no more tokens than can be told."""
    readings = [(0.1 * index, 20e3 * index) for index in range(200)]
    found = power_trace(table(readings), marks(*(1.0 + 1.1 * index for index in range(10)), tokens=90))
    assert found is not None
    near = close_up(found)
    assert near is not None
    assert 1 <= near.generations <= 3
    assert len(near.tokens_s) == 90 * near.generations <= 200
    assert near.begin_s < min(near.tokens_s)
    assert max(near.tokens_s) < near.end_s


def test_a_few_generations_need_no_close_up() -> None:
    """GIVEN three generations, THEN the whole trace is close enough."""
    readings = [(0.1 * index, 20e3 * index) for index in range(60)]
    found = power_trace(table(readings), marks(0.5, 1.6, 2.7))
    assert found is not None
    assert close_up(found) is None
