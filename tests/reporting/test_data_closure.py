from __future__ import annotations

from typing import Any

import pytest

from energyscope.reporting.data.closure import closure_sentences, closures, missing_time


def _level(energy: float, state: str | None = "closed", **more: Any) -> dict[str, Any]:
    return {"energy": energy, "energy_low": energy - 0.01, "energy_high": energy + 0.01, "with_glue": True,
            "state": state, **more}  # fmt: skip


def test_every_quantity_has_its_interval() -> None:
    """GIVEN a level with all four quantities, THEN each comes with its limits, the model first."""
    entry = _level(0.98) | {
        f"{name}{end}": value
        for name in ("time", "static", "dynamic")
        for end, value in (("", 0.97), ("_low", 0.96), ("_high", 0.98))
    }
    rows = closures({"closure": {"layers": _level(1.0), "model": entry}})
    assert [row.name for row in rows] == ["model", "layers"]
    for item in (rows[0].time, rows[0].static, rows[0].dynamic):
        assert item is not None
        assert (item.value, item.low, item.high) == (0.97, 0.96, 0.98)
    assert rows[1].time is None


@pytest.mark.parametrize(
    ("energy", "state", "said"),
    [
        (0.99, "closed", "The books close: the components and the glue add up to 99.0 % [98.0, 100.0] of"),
        (0.85, "under-captured", "so 15 % of it belongs to nothing that was measured."),
        (1.08, "over-captured", "Too much is as wrong as too little"),
        (0.96, None, "before closures were judged, and its execution is not known."),
    ],
)
def test_the_model_is_read_first(energy: float, state: str | None, said: str) -> None:
    """GIVEN any state of the model's closure, THEN the first sentence says it, over-capture like under-capture."""
    assert said in closure_sentences(closures({"closure": {"model": _level(energy, state)}}))[0]


def test_levels_below_are_named() -> None:
    """GIVEN levels that do not close, THEN they are named with state and size; where all close, that is said."""
    found = {"model": _level(1.0), "layers": _level(1.1, "over-captured"), "mlp": _level(0.99)}
    assert closure_sentences(closures({"closure": found}))[1] == (
        "Below the model, these do not close: layers (over-captured, 110 %)."
    )
    del found["layers"]
    assert closure_sentences(closures({"closure": found}))[1] == "So do the levels below: mlp."


def _wide(energy: float, state: str) -> dict[str, Any]:
    return _level(energy, state) | {"energy_low": energy - 0.75, "energy_high": energy + 0.75}


@pytest.mark.parametrize("state", ["uncertain", "closed"])
def test_a_wide_interval_closes_nothing(state: str) -> None:
    """GIVEN 83 % [8, 158], THEN the books are not called closed, of an older run that noted so neither."""
    rows = closures({"closure": {"model": _wide(0.83, state), "mlp": _wide(1.0, state)}})
    assert [row.state for row in rows] == ["uncertain", "uncertain"]
    first, second = closure_sentences(rows)
    assert first == (
        "Whether the books close cannot be told: the components and the glue add up to 83 % [8, 158] of the "
        "measured energy of the model."
    )
    assert second == "Nor can it be told of the levels below: mlp."


def test_levels_below_do_not_follow_a_model_that_is_open() -> None:
    """GIVEN an open model, or an uncertain level, THEN the levels below are not said to close as it does."""
    found = {"model": _level(0.85, "under-captured"), "mlp": _level(1.0)}
    assert closure_sentences(closures({"closure": found}))[1] == "Below the model, these close: mlp."
    found = {"model": _level(1.0), "mlp": _level(1.0), "attention": _wide(0.9, "uncertain")}
    assert closure_sentences(closures({"closure": found}))[1] == (
        "Below the model, it cannot be told whether these close: attention (90 % [15, 165])."
    )


def test_what_closes_by_chance_is_said() -> None:
    """GIVEN energy that closes since static and dynamic err in opposite directions, THEN the level is named."""
    found = {"model": _level(0.99, static=1.13, dynamic=0.94), "mlp": _level(1.0, static=1.02, dynamic=0.98)}
    rows = closures({"closure": found})
    assert closure_sentences(rows)[-1] == (
        "Static and dynamic energy err in opposite directions in model (static 113 %, dynamic 94 %)."
    )


def test_waiting_is_named_where_only_static_energy_is_missing() -> None:
    """GIVEN dynamic energy that closes and static that does not, THEN it is idle time, and the host its cause only
    where the run shows that the host sets the pace; else nothing.
    """
    (waiting,) = closures({"closure": {"model": _level(0.85, static=0.7, dynamic=0.99)}})
    (both,) = closures({"closure": {"model": _level(0.85, static=0.8, dynamic=0.85)}})
    assert "waits for the host" in missing_time(waiting, host_bound=True)
    assert missing_time(waiting).endswith("what differs is idle time.")
    assert missing_time(both) == ""


def test_a_run_without_closure_has_no_sentence() -> None:
    """GIVEN no closure, or one whose energy is unknown, THEN there is no row and nothing is said."""
    assert closures({"closure": {"model": {"energy": None}}}) == []
    assert closure_sentences(closures({})) == []


@pytest.mark.parametrize(
    ("energy", "execution", "state"),
    [
        (0.829, "eager", "under-captured"),
        (0.96, "eager", "closed"),
        (0.96, "cuda-graph", "under-captured"),
        (0.83, "unknown", "under-captured"),
        (0.96, "unknown", None),
    ],
)
def test_a_run_of_before_closures_were_judged_has_todays_verdict(
    energy: float, execution: str, state: str | None
) -> None:
    """GIVEN a closure without a state, THEN today's rule judges it, unless its execution, unknown, would tell."""
    (row,) = closures({"settings": {"execution": execution}, "closure": {"model": _level(energy, None)}})
    assert row.state == state
