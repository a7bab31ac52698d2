"""The same pass under several power limits or locked clocks: what each takes in joules and time, and the best."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import NormalDist
from typing import Any

from energyscope.grouping import group_by
from energyscope.intervals import Interval, from_entry, ratio, serialize
from energyscope.metering.interval import NORMAL_QUANTILE, repeatable
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

    ``rows`` are by limit: first the board's default (empty), then the highest. ``energy_ratio`` and ``time_ratio``
    are over the first row, with what equal cells differ by in their limits. ``least_energy`` is the limit of the
    least energy, where its ratio is below 1 beyond errors, those of choosing it included (None: nowhere),
    ``least_edp`` that of the least energy x time (Gonzalez and Horowitz, as in `efficiencies`). ``parts`` have the
    ratios at the limit of ``least_energy`` of each part that both have.
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
    saves = _saves(from_entry(least["energy_ratio"]), chosen_of=len(rows) - 1)
    first = observations[0]
    return {
        **{field: first.text(field) for field in WITHOUT_LIMIT},
        **shape_of(first.any_cell),
        "rows": rows,
        "least_energy": least["limit"] if saves else None,
        "least_edp": min(rows, key=lambda row: float(row["edp_mj_s"]["value"]))["limit"],
        "parts": _parts(next(iter(by_limit.values())), by_limit[least["limit"]]) if saves else [],
    }


def _saves(ratio_of_least: Interval | None, chosen_of: int) -> bool:
    """Tell whether the least of so many ratios is below 1, although it was chosen for being the least.

    By Bonferroni: each of them would have to be so by chance in 2.5 % / ``chosen_of`` of cases alone.
    """
    if ratio_of_least is None or ratio_of_least.high is None:
        return False
    wider = NormalDist().inv_cdf(1 - 0.025 / chosen_of) / NORMAL_QUANTILE
    return ratio_of_least.value + wider * ratio_of_least.above < 1.0


def _rank(limit: str) -> tuple[bool, bool, float]:
    """Return what limits are sorted by: none, then power limits, then clocks, the highest of each first."""
    held = Limit.of(limit)
    return bool(limit), held.power_w is None, -(held.power_w or held.clock_mhz or 0.0)


def _row(limit: str, observations: Sequence[Observation]) -> Entry:
    return {"limit": limit, **pass_row([item.cells[WHOLE] for item in observations])}


def _over(row: Entry, first: Entry) -> Entry:
    """Return energy and time over those of the first row."""
    energies = [_between_cells(from_entry(each["energy_mj"])) for each in (row, first)]
    energy = ratio(energies[0], energies[1]) if energies[0] and energies[1] else None
    return {"energy_ratio": serialize(energy), "time_ratio": row["latency_us"] / first["latency_us"]}


def _between_cells(energy: Interval | None) -> Interval | None:
    """Return an energy with limits that have in them what equal cells differ by."""
    return None if energy is None else Interval(energy.value, *repeatable(energy.value, energy.low, energy.high))


def _parts(found: Sequence[Observation], held: Sequence[Observation]) -> list[dict[str, Any]]:
    """Return the ratios of the parts' energies and times, held over found, the largest part first."""
    common = set(found[0].parts).intersection(*(item.cells for item in (*found, *held))) - set(RESIDUAL)
    parts = []
    for subject in sorted(common, key=lambda name: -found[0].cells[name].energy_mj):
        (before, before_us), (now, now_us) = (
            mean_of([item.cells[subject] for item in own]) for own in (found, held)
        )
        own = [_between_cells(energy) for energy in (now, before)]
        quotient = ratio(own[0], own[1]) if own[0] and own[1] else None
        parts.append({"subject": subject, "energy_ratio": serialize(quotient), "time_ratio": now_us / before_us})
    return parts
