"""The same pass under several power limits or locked clocks: what each takes in joules and time, and the best."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from energyscope.grouping import group_by
from energyscope.intervals import Interval, from_entry, ratio, serialize
from energyscope.metering.nvml.limits import Limit
from energyscope.scaling.cells import (
    GROUPED,
    RESIDUAL,
    WHOLE,
    Entry,
    Observation,
    setting_of,
    shape_of,
    with_whole,
)
from energyscope.scaling.efficiency import mean_of, pass_row

WITHOUT_LIMIT = tuple(field for field in GROUPED if field != "limit")


def limits(observations: Iterable[Observation]) -> list[Entry]:
    """Return each pass that was measured under two limits at least, as plain data.

    ``rows`` are by limit: first as the board was found (empty), then the highest. ``energy_ratio`` and
    ``time_ratio`` are over the first row. ``least_energy`` is the limit of the least energy, where the interval of
    its ratio is below 1 (None: nowhere), ``least_edp`` that of the least energy x time (Gonzalez and Horowitz, as
    in `efficiencies`). ``parts`` have the ratios at the limit of ``least_energy`` of each part that both have.
    """
    alike = group_by(with_whole(observations), lambda item: (*setting_of(item, "limit"), *item.key))
    return [_entry(group) for group in alike.values() if len({item.text("limit") for item in group}) > 1]


def _entry(observations: Sequence[Observation]) -> Entry:
    by_limit = group_by(observations, lambda item: str(item.text("limit")))
    by_limit = {limit: by_limit[limit] for limit in sorted(by_limit, key=_rank)}
    rows = [_row(limit, measured) for limit, measured in by_limit.items()]
    rows = [{**row, **_over(row, rows[0])} for row in rows]
    rows[0]["energy_ratio"] = serialize(Interval(1.0, 1.0, 1.0))  # of itself, which a quotient does not know
    least = min(rows, key=lambda row: float(row["energy_mj"]["value"]))
    saving = from_entry(least["energy_ratio"])
    saves = saving is not None and saving.known and saving.excludes(1.0)
    first = observations[0]
    return {
        **{field: first.text(field) for field in WITHOUT_LIMIT},
        **shape_of(first.any_cell),
        "rows": rows,
        "least_energy": least["limit"] if saves else None,
        "least_edp": min(rows, key=lambda row: float(row["edp_mj_s"]["value"]))["limit"],
        "parts": _parts(next(iter(by_limit.values())), by_limit[least["limit"]]) if saves else [],
    }


def _rank(limit: str) -> tuple[bool, bool, float]:
    """Return what limits are sorted by: none, then power limits, then clocks, the highest of each first."""
    held = Limit.of(limit)
    return bool(limit), held.power_w is None, -(held.power_w or held.clock_mhz or 0.0)


def _row(limit: str, observations: Sequence[Observation]) -> Entry:
    return {"limit": limit, **pass_row([item.cells[WHOLE] for item in observations])}


def _over(row: Entry, first: Entry) -> Entry:
    """Return energy and time over those of the first row."""
    energies = from_entry(row["energy_mj"]), from_entry(first["energy_mj"])
    energy = ratio(energies[0], energies[1]) if energies[0] and energies[1] else None
    return {"energy_ratio": serialize(energy), "time_ratio": row["latency_us"] / first["latency_us"]}


def _parts(found: Sequence[Observation], held: Sequence[Observation]) -> list[dict[str, Any]]:
    """Return the ratios of the parts' energies and times, held over as found, the largest first."""
    common = set(found[0].parts).intersection(*(item.cells for item in (*found, *held))) - set(RESIDUAL)
    parts = []
    for subject in sorted(common, key=lambda name: -found[0].cells[name].energy_mj):
        (before, before_us), (now, now_us) = (
            mean_of([item.cells[subject] for item in own]) for own in (found, held)
        )
        quotient = ratio(now, before)
        parts.append({"subject": subject, "energy_ratio": serialize(quotient), "time_ratio": now_us / before_us})
    return parts
