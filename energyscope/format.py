"""How numbers are written, everywhere: three digits in a unit that fits, and how well the number is known.

Units are those of the run files: ``mJ``, ``us``, ``W``, ``bytes``, ``FLOP``, ``pJ`` and rates of them; ``J`` and
``s`` scale too. ``share`` is written in percent, ``change`` in percent with its sign, ``ratio`` as ``8.3x``,
``count`` in full, ``amount`` in thousands, millions or billions. What is unknown is a dash, never 0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from energyscope.intervals import Interval

UNKNOWN = "\u2013"
PLUS_MINUS = "\u00b1"
_SKEWED = 1.25  # limits whose distances from the value differ by more are written one by one
_MOST_DIGITS = 5
_LEAST_PERCENT = 0.01
_FINE_PERCENT = 0.0005  # half-widths below are written with two places
_FINEST_PERCENT = 0.00005  # and those below with as many as they need
_TINY = 1e-4  # written with an exponent

_SCALES: dict[str, tuple[tuple[float, str], ...]] = {
    "mJ": ((1e9, "MJ"), (1e6, "kJ"), (1e3, "J"), (1.0, "mJ"), (1e-3, "\u00b5J"), (1e-6, "nJ")),
    "pJ": ((1e12, "J"), (1e9, "mJ"), (1e6, "\u00b5J"), (1e3, "nJ"), (1.0, "pJ")),
    "us": ((1e6, "s"), (1e3, "ms"), (1.0, "\u00b5s"), (1e-3, "ns")),
    "bytes": ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "bytes")),
    "amount": ((1e9, "B"), (1e6, "M"), (1e3, "k"), (1.0, "")),
    "FLOP": ((1e15, "PFLOP"), (1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP"), (1e3, "kFLOP"), (1.0, "FLOP")),
    "FLOP/s": ((1e15, "PFLOP/s"), (1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1e6, "MFLOP/s"), (1.0, "FLOP/s")),
    "bytes/s": ((1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s")),
}
_FACTORS = {"J": ("mJ", 1e3), "s": ("us", 1e6)}
_PERCENT = frozenset({"share", "change"})
_PLAIN = frozenset({"count", "ratio", "text", "grade"})
_UNITS = "|".join(
    sorted({name for scales in _SCALES.values() for _, name in scales if name}, key=len, reverse=True)
)
_BOUND = re.compile(
    rf"(?<=\d), (?=[-+\u2212]?[\d.,]+\])|(?<=\d) (?=%|{PLUS_MINUS}|\[|(?:{_UNITS}|W)(?:\W|$))"
    rf"| (?={PLUS_MINUS})|(?<={PLUS_MINUS}) (?=\d)"
)


def scale(value: float, unit: str) -> tuple[float, str]:
    """Return the divisor and the name of the unit in which a value is best read."""
    if unit in _PERCENT:
        return 0.01, "%"
    if unit in _PLAIN:
        return 1.0, ""
    if unit in _FACTORS:
        base, factor = _FACTORS[unit]
        divisor, name = scale(value * factor, base)
        return divisor / factor, name
    scales = _SCALES.get(unit)
    if scales is None:
        return 1.0, unit
    if not value:
        return next(scale for scale in scales if scale[0] == 1.0)
    return next((scale for scale in scales if abs(value) >= scale[0] * 0.9995), scales[-1])


def number(value: float, digits: int = 3) -> str:
    """Write a number with ``digits`` significant digits and grouped thousands, tiny ones with an exponent."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    exponent = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))
    if exponent < -4:
        return f"{value:.{digits - 1}e}".replace("e-0", "e-")
    return f"{value:,.{max(digits - 1 - exponent, 0)}f}"


def quantity(value: float | None, unit: str = "") -> str:
    """Write a value in a fitting unit, such as ``"12.3 mJ"``, ``"46 %"`` or ``"8.3x"``."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if unit == "count":
        return f"{value:z,.0f}".replace("-", "\u2212")
    if unit == "ratio":
        return f"{number(value, 2 if 0.1 <= abs(value) < 100 else 3)}x"
    divisor, name = scale(value, unit)
    shown = value / divisor
    if unit in _PERCENT:
        if 0 < abs(shown) < _LEAST_PERCENT:
            return f"<{_LEAST_PERCENT} %" if shown > 0 else f">\u2212{_LEAST_PERCENT} %"
        places = 0 if abs(shown) >= 9.95 or not shown else 1 if abs(shown) >= 0.095 else 2
        return _signed(f"{shown:,.{places}f} %", value, unit)
    return _minus(f"{number(shown)} {name}".rstrip())


def measured(item: Interval | None, unit: str = "") -> str:
    """Write a value with its 95 % interval: ``"1.83 J \u00b1 0.22"``, ``"1.83 J [1.6, 2.4]"`` if it is skewed."""
    return " ".join(part for part in value_and_interval(item, unit) if part)


def value_and_interval(item: Interval | None, unit: str = "") -> tuple[str, str]:
    """Write a value, and apart its 95 % interval: ``"\u00b1 0.22"`` or ``"[1.6, 2.4]"``, empty if not known."""
    if item is None:
        return UNKNOWN, ""
    half = 0.0 if item.low is None or item.high is None else (item.high - item.low) / 2
    if item.low is None or item.high is None or half <= 0 or not math.isfinite(item.value):
        return quantity(item.value, unit), ""
    divisor, name = (1.0, "x") if unit == "ratio" else scale(max(abs(item.value), half), unit)
    if abs(item.value / divisor) < _TINY:
        value, low, high = (_minus(number(limit / divisor, 2)) for limit in (item.value, item.low, item.high))
        return f"{value} {name}".rstrip(), f"[{low}, {high}]"
    places = _places(half / divisor, item.value / divisor)
    if unit in _PERCENT and half >= _FINEST_PERCENT:
        places = min(places, 2 if half < _FINE_PERCENT or abs(item.value) < 0.01 else 1)
    value, low, high = (_minus(f"{part / divisor:z,.{places}f}") for part in (item.value, item.low, item.high))
    text = _signed(f"{value}{name}" if unit == "ratio" else f"{value} {name}".rstrip(), item.value, unit)
    if max(item.above, item.below) > _SKEWED * min(item.above, item.below):
        return text, f"[{low}, {high}]"
    return text, f"{PLUS_MINUS} {half / divisor:,.{places}f}"


def relative(item: Interval | None) -> float | None:
    """Return an interval's half-width as a share of its value; None where either is not known."""
    if item is None or item.low is None or item.high is None or not item.value:
        return None
    return (item.high - item.low) / 2 / abs(item.value)


def noise(item: Interval | None) -> str:
    """Write how well a value is known, as a share of it: ``"\u00b114 %"``; empty where that is not known."""
    half = relative(item)
    return "" if half is None else f"{PLUS_MINUS}{quantity(half, 'share')}"


def grade(quality: str, item: Interval | None = None) -> str:
    """Write what a grade means where it stands: ``"B, \u00b12.1 %"``, ``"too noisy, \u00b114 %"``."""
    name = "too noisy" if quality == "invalid" else quality
    return ", ".join(part for part in (name, noise(item)) if part) or UNKNOWN


def count(amount: int, noun: str, plural: str | None = None) -> str:
    """Write an amount with its noun, such as ``"1 row"`` or ``"3 rows"``."""
    return f"{amount:,} {noun if amount == 1 else plural or noun + 's'}"


def listed(words: Sequence[str], most: int = 4) -> str:
    """Write words as a sentence does, such as ``"a, b and c"``; beyond ``most``, how many are left."""
    if len(words) > most:
        return f"{', '.join(words[:most])} and {len(words) - most} more"
    return " and ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)


def unbroken(sentence: str) -> str:
    """Keep a number, its unit and its interval on one line."""
    return _BOUND.sub(lambda match: match[0].replace(" ", "\u00a0"), sentence)


def _minus(written: str) -> str:
    return written.replace("-", "\u2212")


def _signed(written: str, value: float, unit: str) -> str:
    return f"+{written}" if unit == "change" and value > 0 else _minus(written)


def _places(half: float, value: float) -> int:
    """Decimal places for one digit of the half-width, two where it begins with 1 or 2, and not too many in all."""
    exponent = math.floor(math.log10(half))
    places = -exponent + (1 if half / 10**exponent < 2.95 else 0)
    digits = 0 if not value else math.floor(math.log10(abs(value))) + 1
    return max(min(places, _MOST_DIGITS - digits, 9), 0)
