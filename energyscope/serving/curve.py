"""One load in figures: joules of a request, latencies and throughput, while its users are all at work.

    load    |-- users begin --|------------- steady -------------|-- last answers --|
            begin        +ramp, +one request               +seconds             end

Energy per request is the counter's rise in the steady part, by the requests that were answered in it, each by the
share of its time that lies there: half of a request counts half.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from energyscope.intervals import Interval
from energyscope.metering.grades import INVALID, grade
from energyscope.metering.interval import student_t
from energyscope.metering.tick_intervals import TickIntervals, tick_intervals
from energyscope.metering.ticks import Array, Ticks
from energyscope.reasons import Reason, join, reason
from energyscope.serving.amounts import new_tokens, prompt_spans, token_s, tokens_a_text
from energyscope.serving.requests import Answer, Served

SLOT_S = 0.4  # over which energy and requests are compared
FEWEST_SLOTS = 5
LAGS = 4  # slots whose noise may be correlated
KNEE = 0.9  # of the highest throughput: fewer users that reach it wait less
MANY = 50  # requests, of which a 99th percentile says something
PARTS, FEWEST_PARTS = 10, 4  # of a load's requests, whose medians are compared
ROUNDS = 2  # requests after each other that a steady part must have room for: users keep in step at first
FEW_TEXTS = 1.5  # tokens that a text brings, beyond which times of single tokens are not known
LATE_SHARE = 0.1  # of a load's requests that may queue up
EARLY = 0.2  # of a load with arrivals, before which its requests pile up
REQUEST = "request"  # kind of the loads that ask for the user's request


@dataclass(frozen=True)
class LoadRow:
    """A load as a row of ``serving.csv``; None where there is nothing to tell.

    Times are seconds, energies joules of one request: ``work_j`` beyond the idle engine's power, ``idle_j`` its
    share of that. Where an engine's pace changes, work is known better than the whole, most of which may be idle.
    ``ttft`` is the time to the first text, ``tpot`` per token after it, each with the median and the 99th
    percentile (None of few requests); ``late_p99_s`` is how late requests were sent. ``failed`` requests have no
    energy of their own: theirs is in that of the others. ``unsent`` were due after the load.
    """

    load: str
    kind: str
    users: int | None
    rate_per_s: float | None
    seconds: float
    requests: int
    failed: int
    unsent: int
    prompt_tokens: float | None = None
    new_tokens: float | None = None
    requests_per_s: float | None = None
    tokens_per_s: float | None = None
    ttft_p50_s: float | None = None
    ttft_p99_s: float | None = None
    tpot_p50_s: float | None = None
    tpot_p99_s: float | None = None
    late_p99_s: float | None = None
    power_w: float | None = None
    request_j: float | None = None
    request_low_j: float | None = None
    request_high_j: float | None = None
    work_j: float | None = None
    work_low_j: float | None = None
    work_high_j: float | None = None
    idle_j: float | None = None
    token_j: float | None = None
    slots: int = 0
    clock_mhz: float | None = None
    temperature_c: float | None = None
    quality: str = INVALID
    reasons: str = ""


def load_row(
    load: Served, ticks: Sequence[Ticks], idle_w: Interval | None, guards: Sequence[Reason] = ()
) -> LoadRow:
    """Return the figures of a load that sent requests. ``idle_w`` is the power of the loaded, idle engine (W)."""
    good = good_answers(load)
    failed = sum(answer.error is not None for answer in load.answers)
    asked = load.load
    arrivals = asked.arrivals_s
    row = LoadRow(
        load=asked.name,
        kind=asked.kind,
        users=asked.users,
        rate_per_s=len(arrivals) / asked.seconds if arrivals else None,
        seconds=load.end_s - load.begin_s,
        requests=len(good),
        failed=failed,
        unsent=load.unsent,
    )
    if not good:
        return replace(row, reasons=str(reason("no-answers")))
    notes = [*guards]
    if failed:
        notes.append(reason("failed-requests", failed=failed, requests=len(load.answers)))
    notes += _remarks(load, good)
    row = replace(row, **_latencies(good))
    return replace(row, **_energy(load, good, ticks, idle_w, row.new_tokens or 0.0, notes))


def _remarks(load: Served, answers: Sequence[Answer]) -> list[Reason]:
    """Return what makes a load's numbers weaker: requests that pile up, few rounds, texts of many tokens."""
    asked, found = load.load, []
    begin_s, end_s = _steady(load, answers)
    if asked.arrivals_s is not None:
        early, late = (
            sum(answer.due_s <= at_s < answer.ended_s for answer in load.answers) for at_s in (begin_s, end_s)
        )
        if late - early > max(LATE_SHARE * len(load.answers), 2):
            found.append(reason("slower-than-arrivals", waiting=late))
    elif end_s - begin_s < ROUNDS * _request_s(answers):
        found.append(reason("few-rounds"))
    tokens = float(np.median([tokens_a_text(answer) for answer in answers]))
    if tokens > FEW_TEXTS:
        found.append(reason("texts-of-many-tokens", tokens=tokens))
    return found


def knee(rows: Sequence[LoadRow]) -> LoadRow | None:
    """Return the load of fewest users that reaches nearly the highest throughput; None of fewer than two."""
    of_users = sorted(
        (row for row in rows if row.kind == REQUEST and row.users and row.requests_per_s),
        key=lambda row: row.users or 0,
    )
    if len(of_users) < 2:
        return None
    most = max(row.requests_per_s or 0.0 for row in of_users)
    return next(row for row in of_users if (row.requests_per_s or 0.0) >= KNEE * most)


def requests_per_s(load: Served) -> float | None:
    """Return how many requests are answered in a second while a load is steady; None where none is."""
    good = good_answers(load)
    return _rate(good, *_steady(load, good)) if good else None


def good_answers(load: Served) -> list[Answer]:
    """Return the answers that came whole."""
    return [answer for answer in load.answers if answer.error is None and answer.chunks_s]


def _rate(answers: Sequence[Answer], begin_s: float, end_s: float) -> float | None:
    if end_s <= begin_s:
        return None
    return float(_answered(answers, np.array([begin_s, end_s])).sum()) / (end_s - begin_s) or None


def _latencies(answers: Sequence[Answer]) -> dict[str, Any]:
    first, each = first_texts_s(answers), later_tokens_s(answers)
    prompts = [answer.prompt_tokens for answer in answers if answer.prompt_tokens is not None]
    return {
        "prompt_tokens": float(np.mean(prompts)) if prompts else None,
        "new_tokens": float(np.mean([new_tokens(answer) for answer in answers])),
        "ttft_p50_s": _quantile(first, 0.5),
        "ttft_p99_s": _rare(first),
        "tpot_p50_s": _quantile(each, 0.5),
        "tpot_p99_s": _rare(each),
        "late_p99_s": _rare([answer.sent_s - answer.due_s for answer in answers]),
    }


def first_texts_s(answers: Sequence[Answer]) -> list[float]:
    """Return the time (s) to the first text of each answer."""
    return [answer.chunks_s[0] - answer.sent_s for answer in answers]


def later_tokens_s(answers: Sequence[Answer]) -> list[float]:
    """Return the time (s) per token after the first of each answer that has several."""
    return [seconds for answer in answers if new_tokens(answer) > 1 and (seconds := token_s(answer)) is not None]


def median_s(values: Sequence[float]) -> Interval | None:
    """Return the median of times in their order, with its 95 % interval; no interval of few.

    Its width is the scatter of the medians of parts that follow each other, however many there are: users keep in
    step, so the parts of one load are alike, and those of another load are not like them.
    """
    if not values:
        return None
    value, parts = float(np.median(values)), min(PARTS, len(values))
    if parts < FEWEST_PARTS:
        return Interval(value)
    medians = [float(np.median(part)) for part in np.array_split(np.asarray(values), parts)]
    half = student_t(parts - 1) * float(np.std(medians, ddof=1))
    return Interval(value, value - half, value + half)


def _quantile(values: Sequence[float], share: float) -> float | None:
    return float(np.quantile(values, share)) if values else None


def _rare(values: Sequence[float]) -> float | None:
    """Return the 99th percentile; None of too few, whose longest it would be."""
    return _quantile(values, 0.99) if len(values) >= MANY else None


def _steady(load: Served, answers: Sequence[Answer]) -> tuple[float, float]:
    """Return between which times (s) a load is steady."""
    asked, begin_s = load.load, load.begin_s
    if asked.arrivals_s is not None:
        return begin_s + EARLY * asked.seconds, begin_s + asked.seconds
    return begin_s + asked.ramp_s + _request_s(answers), begin_s + asked.seconds


def _request_s(answers: Sequence[Answer]) -> float:
    return float(np.median([answer.ended_s - answer.sent_s for answer in answers]))


def _energy(
    load: Served,
    answers: Sequence[Answer],
    ticks: Sequence[Ticks],
    idle_w: Interval | None,
    tokens: float,
    notes: list[Reason],
) -> dict[str, Any]:
    begin_s, end_s = _steady(load, answers)
    rate = _rate(answers, begin_s, end_s)
    paces = {} if rate is None else {"requests_per_s": rate, "tokens_per_s": rate * tokens}
    parts = [_slots(ticks_of_meter, answers, begin_s, end_s) for ticks_of_meter in ticks]
    if rate is None or any(part is None for part in parts):
        return {**paces, "reasons": join([*notes, reason("load-too-short")])}
    known = [part for part in parts if part is not None]
    ratios = [ratio(energy, done) for _, energy, done in known]
    value = sum(ratio_.value for ratio_ in ratios)
    half = sum(ratio_.above for ratio_ in ratios)  # boards share the noise of how requests fall into slots
    count = len(known[0][2])
    quality, reasons = grade(half / value if value > 0 else None, count, notes)
    return {
        **paces,
        **({} if idle_w is None else _work(known, value, idle_w)),
        "power_w": sum(float(energy.sum() / spent.sum()) for spent, energy, _ in known),
        "request_j": value,
        "request_low_j": value - half,
        "request_high_j": value + half,
        "token_j": value / tokens if tokens else None,
        "slots": count,
        "quality": quality,
        "reasons": join(map(Reason, reasons)),
    }


def _work(slots: Sequence[tuple[Array, Array, Array]], request_j: float, idle_w: Interval) -> dict[str, float]:
    """Return the work of a request (J), with its 95 % interval, and its share of the idle engine's power.

    Half-widths add as squares: that of the energy beyond idle power in each slot, and that of idle power.
    """
    share_w = idle_w.value / len(slots)  # of each board
    parts = [ratio(energy - share_w * spent, done) for spent, energy, done in slots]
    request_s = float(slots[0][0].sum() / slots[0][2].sum())
    half = math.hypot(sum(part.above for part in parts), max(idle_w.above, idle_w.below) * request_s)
    work_j = sum(part.value for part in parts)
    return {
        "work_j": work_j,
        "work_low_j": work_j - half,
        "work_high_j": work_j + half,
        "idle_j": request_j - work_j,
    }


def slots_of(ticks: Ticks, begin_s: float, end_s: float) -> TickIntervals | None:
    """Return the slots of a time between two moments (s); None of too few, or where the counter was reset."""
    slots = tick_intervals(ticks.between(begin_s, end_s)).merged(SLOT_S)
    return slots if len(slots.energy_j) >= FEWEST_SLOTS and slots.good.all() else None


def _slots(
    ticks: Ticks, answers: Sequence[Answer], begin_s: float, end_s: float
) -> tuple[Array, Array, Array] | None:
    """Return seconds, joules and requests answered of each slot of a time; None of too few."""
    slots = slots_of(ticks, begin_s, end_s)
    if slots is None:
        return None
    requests = _answered(answers, slots.times_s)
    return (np.diff(slots.times_s), slots.energy_j, requests) if requests.sum() > 0 else None


def _answered(answers: Sequence[Answer], times_s: Array) -> Array:
    """Return the requests answered between each two times (s), shape (times - 1,)."""
    done = np.zeros(len(times_s))
    for answer, since_s in zip(*prompt_spans(answers), strict=True):
        done += np.interp(times_s, [since_s, max(answer.ended_s, since_s + 1e-6)], [0.0, 1.0])
    answered: Array = np.diff(done)
    return answered


def ratio(energy_j: Array, amount: Array) -> Interval:
    """Return the energy of one unit of an amount, with its 95 % interval.

    The variance is that of the residuals, with their autocovariance (Bartlett's weights) up to some slots.
    """
    value = float(energy_j.sum() / amount.sum())
    residual, count = energy_j - value * amount, len(amount)
    variance = float(residual @ residual)
    for lag in range(1, min(LAGS, count - 1) + 1):
        variance += 2 * (1 - lag / (LAGS + 1)) * float(residual[lag:] @ residual[:-lag])
    variance = max(variance, float(residual @ residual)) * count / (count - 1)
    half = student_t(count - 1) * math.sqrt(variance) / float(amount.sum())
    return Interval(value, value - half, value + half)


def too_noisy(item: Interval | None, slots: int) -> bool:
    """Tell whether a value of so many slots is too noisy to be used."""
    half = item.above / item.value if item is not None and item.known and item.value > 0 else None
    return grade(half, slots)[0] == INVALID


def per_million_tokens(token_j: float, price: float | None, carbon: float | None) -> Mapping[str, float | None]:
    """Return kWh of a million tokens, with money (``price`` of a kWh) and kg of CO2e (``carbon``, g per kWh)."""
    kwh = token_j * 1e6 / 3.6e6
    return {
        "kwh": kwh,
        "money": None if price is None else kwh * price,
        "co2e_kg": None if carbon is None else kwh * carbon / 1e3,
    }
