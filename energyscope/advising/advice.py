"""What to change, and what it saves, in the joules that were measured. Pure functions over plain data.

Something is said to save or to cost where the 95 % interval of the ratio of joules per token excludes 1. How much
is said where both settings have grade A or B; where windows only scatter more than that, as those of launch-bound
steps on a busy host do, it is said how much *at least*, which is the interval's nearer end; where either setting
is below grade C, that it is not to be relied on, and the sentence is not confident. Settings of grade C or better
come before such. Beside a raised guard, or with fewer than three windows, it cannot be told. Modelled joules say
nothing that time does not, so sentences on them say so, and none of them is confident.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from energyscope.advising import words
from energyscope.advising.choice import BASE
from energyscope.advising.precisions import precision_advice
from energyscope.advising.said import GOOD, INVALID, WEAK, Advice, by_saving, marked, saved
from energyscope.runs.intervals import Interval, difference

__all__ = ["Advice", "advice"]

Row = Mapping[str, Any]

SAME_TIME = 0.005  # relative
FEWEST_WINDOWS = 3
CHANGES = ("batch_size", "execution", "kv_cache", "attention")


def advice(alternatives: Mapping[str, Any] | None, benchmark: Mapping[str, Any] | None) -> list[Advice]:
    """Return what follows from alternatives.json and benchmark.json of one run, the largest saving first.

    Without alternatives there is nothing to compare the benchmark's precisions with, and no advice.
    """
    if alternatives is None:
        return []
    modelled = bool(alternatives.get("modelled"))
    found: list[Advice] = []
    for phase in ("decode", "prefill"):
        rows = [row for row in alternatives["rows"] if row["phase"] == phase]
        base = next((row for row in rows if row["what"] == BASE), None)
        if base is not None and words.limited(base["joules_per_token"]) is not None:
            found += _of_phase(base, rows)
    found += precision_advice(alternatives["base"]["precision"], benchmark)
    return by_saving([marked(one) for one in found] if modelled else found)


def _of_phase(base: Row, rows: Sequence[Row]) -> list[Advice]:
    found = []
    for what in CHANGES:
        known = [row for row in rows if row["what"] == what and _comparable(row)]
        if known:
            found.append(_change(base, known))
    contexts = [row for row in rows if row["what"] == "context_length" and _comparable(row)]
    return found + ([_context(base, contexts)] if contexts else [])


def _comparable(row: Row) -> bool:
    return words.limited(row["ratio"]) is not None and words.limited(row["joules_per_token"]) is not None


def _change(base: Row, rows: Sequence[Row]) -> Advice:
    """Say what the best of the values does that something can have instead of the run's own."""
    told = [row for row in rows if _told(base, row)]
    told = [row for row in told if not _weak(base, row)] or told
    best = min(told, key=lambda row: _said_ratio(base, row)) if told else min(rows, key=_ratio_of)
    what, item = best["what"], _interval(best, "ratio")
    others = [row for row in told if row is not best]
    if best not in told:
        return Advice(what, _undecided(base, best), saved(item), confident=False)
    sentence = (
        f"{_capital(words.setting(best))} instead of {words.own(base, what)} {_much(base, best)} per "
        f"{words.TOKENS[best['phase']]}: {_joules(best)} against {_joules(base)}; {_latency(base, best)}"
        f"{_with(base, best)}{_beside(others)}{WEAK if _weak(base, best) else ''}."
    )
    return Advice(what, sentence, saved(item), confident=not _weak(base, best))


def _told(base: Row, row: Row) -> bool:
    return _sound(base) and _sound(row) and _interval(row, "ratio").excludes(1.0)


def _sound(row: Row) -> bool:
    """Whether a row says something: its grade is good, or poor for nothing but the scatter of its windows."""
    return row["quality"] in GOOD or (not row.get("guards", True) and row["windows"] >= FEWEST_WINDOWS)


def _weak(*rows: Row) -> bool:
    """Say whether any row is below grade C, so that a sentence on it is not to be relied on."""
    return any(row["quality"] == INVALID for row in rows)


def _exact(base: Row, row: Row) -> bool:
    return base["quality"] in GOOD and row["quality"] in GOOD


def _undecided(base: Row, row: Row) -> str:
    if "guards" not in row:  # an older version, which did not say why a grade is poor
        why = f"their grades are {row['quality']} and {base['quality']}, and it takes A or B"
    elif _sound(base) and _sound(row):
        why = f"the ratio is {words.ratio(_interval(row, 'ratio'))}, which includes 1"
    else:
        why = f"their grades are {row['quality']} and {base['quality']}, for more than scatter"
    return (
        f"Whether {words.setting(row)} or {words.own(base, row['what'])} takes fewer joules per "
        f"{words.TOKENS[row['phase']]} cannot be told: {_joules(row)} against {_joules(base)} ({why})."
    )


def _much(base: Row, row: Row) -> str:
    """Write what a change saves or costs, of scattered windows what it does at least."""
    return _share("" if _exact(base, row) else "at least ", _said_ratio(base, row))


def _said_ratio(base: Row, row: Row) -> float:
    """Return the ratio that a sentence may state: of scattered windows the interval's end that is nearer to 1."""
    item = _interval(row, "ratio")
    if _exact(base, row) or item.low is None or item.high is None:
        return item.value
    return item.low if item.value > 1 else item.high


def _share(least: str, ratio: float) -> str:
    if ratio < 1:
        return f"saves {least}{words.percent(1 - ratio)} of the joules"
    if ratio >= 2:
        return f"costs {least}{words.digits(ratio)} times the joules"
    return f"costs {least}{words.percent(ratio - 1)} more joules"


def _joules(row: Row) -> str:
    """Write a row's joules per token, with the part that idle power has in them."""
    item = _interval(row, "joules_per_token")
    text = words.joules(item)
    if row["static_mj"] is None or not row["energy_mj"]:
        return text
    static = item.value * row["static_mj"] / row["energy_mj"]["value"]
    return f"{text} (of which idle power {words.joules(Interval(static))})"


def _latency(base: Row, row: Row) -> str:
    """Say what a change does to the time of a step or a pass, which somebody waits for."""
    name = "a step" if row["phase"] == "decode" else "a pass"
    times = [_interval(one, "time_us") for one in (row, base)]
    first, second = (one.value for one in times)
    took = f"({words.seconds(first / 1e6)} against {words.seconds(second / 1e6)})"
    if abs(first / second - 1) < SAME_TIME:
        return f"{name} takes as long {took}"
    if all(one.known for one in times) and not difference(*times).excludes(0.0):
        return f"whether {name} takes longer cannot be told {took}"
    if first > second:
        return f"{name} takes {words.digits(first / second)} times as long {took}"
    return f"{name} takes {words.percent(first / second)} of the time {took}"


def _with(base: Row, row: Row) -> str:
    """Say what else a change needs: another KV cache, and the time of setting it up."""
    parts = []
    if row["what"] == "execution" and row["kv_cache"] != base["kv_cache"]:
        parts.append(f"; it needs a {row['kv_cache']} KV cache, which is in it")
    if row["setup_s"]:
        done = "compiling" if row["execution"] == "torch-compile" else "capturing"
        parts.append(f"; {done} took {words.seconds(row['setup_s'])} once")
    return "".join(parts)


def _beside(rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    named = [f"{words.joules(_interval(row, 'joules_per_token'))} with {words.setting(row)}" for row in rows]
    return f" (also {words.listed(named)})"


def _context(base: Row, rows: Sequence[Row]) -> Advice:
    """Say what further context costs, between the shortest and the longest that were measured."""
    ends = sorted([base, *rows], key=lambda row: row["context_length"])
    first, last = ends[0], ends[-1]
    shortest = min(rows, key=lambda row: row["context_length"])
    slope = difference(_interval(last, "energy_mj"), _interval(first, "energy_mj"))
    slope = slope.scaled(1e3 / (last["context_length"] - first["context_length"]))
    shorter = shortest["context_length"] < base["context_length"]
    saving = saved(_interval(shortest, "ratio")) if shorter else None
    between = (
        f"{_joules(first)} per generated token at {first['context_length']:,} tokens of context, "
        f"{_joules(last)} at {last['context_length']:,}"
    )
    if not (_sound(first) and _sound(last) and slope.excludes(0.0)):
        why = "" if slope.known and not slope.excludes(0.0) else " (a window was disturbed, or there are too few)"
        sentence = f"What further context costs cannot be told{why}: {between}."
        return Advice("context_length", sentence, saving, confident=False)
    verb = "cost" if slope.value > 0 else "save"
    each = words.joules(_absolute(slope).scaled(1e-3))
    batch = "" if base["batch_size"] == 1 else f" of {base['batch_size']} sequences"
    weak = WEAK if _weak(first, last) else ""
    sentence = f"Each further 1,000 tokens of context {verb} {each} a step{batch}: {between}{weak}."
    return Advice("context_length", sentence, saving, confident=not weak)


def _absolute(item: Interval) -> Interval:
    if item.value >= 0 or item.low is None or item.high is None:
        return item
    return Interval(-item.value, -item.high, -item.low)


def _interval(row: Row, name: str) -> Interval:
    return words.limited(row[name]) or Interval(float("nan"))


def _ratio_of(row: Row) -> float:
    return _interval(row, "ratio").value


def _capital(text: str) -> str:
    return text if text.startswith("torch.") else text[0].upper() + text[1:]
