"""Numbers as people read them: a unit that fits, three significant digits, and the interval beside the value."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from energyscope.runs.intervals import Interval

UNKNOWN = "not measured"

_SCALES: dict[str, tuple[tuple[float, str], ...]] = {
    "mJ": ((1e9, "MJ"), (1e6, "kJ"), (1e3, "J"), (1.0, "mJ"), (1e-3, "µJ")),
    "pJ": ((1e9, "mJ"), (1e6, "µJ"), (1e3, "nJ"), (1.0, "pJ")),
    "us": ((1e6, "s"), (1e3, "ms"), (1.0, "µs")),
    "bytes": ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "bytes")),
    "FLOP": ((1e15, "PFLOP"), (1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP"), (1e3, "kFLOP"), (1.0, "FLOP")),
    "FLOP/s": ((1e15, "PFLOP/s"), (1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1e6, "MFLOP/s"), (1.0, "FLOP/s")),
    "bytes/s": ((1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s")),
}
_UNITS = "|".join(sorted({unit for scales in _SCALES.values() for _, unit in scales}, key=len, reverse=True))
_BOUND = re.compile(
    r"(?<=\d), (?=[-+\u2212]?[\d.,]+\])"  # the limits of an interval
    rf"|(?<=\d) (?=%|\u00d7|\[[-+\u2212\d]|(?:{_UNITS}|W)(?:[^\w]|$))|(?<=\d \u00d7) (?=\d)|(?<=R\u00b2) (?=\d)"
)


def scale_of(value: float, unit: str) -> tuple[float, str]:
    """Return the divisor and the name of the unit in which a value is best read."""
    scales = _SCALES.get(unit)
    if scales is None:
        return 1.0, unit
    return next((scale for scale in scales if abs(value) >= scale[0]), scales[-1] if value else (1.0, unit))


def number(value: float, digits: int = 3) -> str:
    """Write a number with about ``digits`` significant digits and grouped thousands."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    places = digits - 1 - math.floor(math.log10(abs(value)))
    if places > 6:
        return f"{value:.{digits - 1}e}"
    return f"{value:,.{max(places, 0)}f}"


def quantity(value: float | None, unit: str) -> str:
    """Write a value in a fitting unit, such as ``"12.3 mJ"``; says so where it is unknown."""
    if value is None:
        return UNKNOWN
    divisor, name = scale_of(value, unit)
    return f"{number(value / divisor)} {name}".rstrip()


def limits(item: Interval, unit: str) -> str:
    """Write the limits of an interval in the unit of its value, such as ``"[12.1, 12.5]"``."""
    if item.low is None or item.high is None:
        return "interval unknown"
    divisor, _ = scale_of(item.value, unit)
    places = _places((item.high - item.low) / divisor, item.value / divisor)
    return f"[{item.low / divisor:,.{places}f}, {item.high / divisor:,.{places}f}]"


def with_limits(item: Interval | None, unit: str) -> str:
    """Write a value and its limits, such as ``"12.30 mJ [12.10, 12.52]"``."""
    if item is None:
        return UNKNOWN
    return f"{quantity(item.value, unit)} {limits(item, unit)}" if item.known else quantity(item.value, unit)


def amount_limits(item: Interval, unit: str) -> str:
    """Write the limits of what cannot be negative: ``"[up to 12.5]"`` where the lower one is 0, and so none."""
    if item.value <= 0 or item.low != 0 or item.high is None:
        return limits(item, unit)
    return f"[up to {limits(item, unit).rpartition(', ')[2]}"


def amount(item: Interval | None, unit: str) -> str:
    """Write what cannot be negative with its limits, such as ``"12.3 mJ [up to 40.1]"``; else as `with_limits`."""
    if item is None:
        return UNKNOWN
    return (
        f"{quantity(item.value, unit)} {amount_limits(item, unit)}" if item.known else quantity(item.value, unit)
    )


def percent(share: float | None) -> str:
    """Write a share of one as a percentage, such as ``"46 %"``, ``"4.6 %"`` or ``"-1.2 %"``."""
    if share is None:
        return UNKNOWN
    value = share * 100
    places = 0 if abs(value) >= 10 else 1 if abs(value) >= 0.95 or value == 0 else 2
    return f"{value:,.{places}f} %"


def percent_with_limits(item: Interval | None) -> str:
    """Write a share with its limits, such as ``"46 % [44, 48]"``."""
    if item is None:
        return UNKNOWN
    if item.low is None or item.high is None:
        return percent(item.value)
    places = min(_places((item.high - item.low) * 100, item.value * 100), 1 if abs(item.value) >= 0.01 else 2)
    return f"{item.value * 100:.{places}f} % [{item.low * 100:.{places}f}, {item.high * 100:.{places}f}]"


def signed_percent(change: float | None) -> str:
    """Write a relative change with its sign, such as ``"+65 %"`` or ``"-1.2 %"``."""
    if change is None:
        return UNKNOWN
    return ("+" if change > 0 else "") + percent(change)


def listed(words: Sequence[str], most: int = 4) -> str:
    """Write words as a sentence does, such as ``"a, b and c"``; beyond ``most``, how many are left."""
    if len(words) > most:
        return f"{', '.join(words[:most])} and {len(words) - most} more"
    return " and ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)


def unbroken(sentence: str) -> str:
    """Keep a number and its unit, limits of an interval and a shape on one line, as in ``"46 % [44, 48]"``."""
    return _BOUND.sub(lambda found: found[0].replace(" ", "\u00a0"), sentence)


def count(amount: int, word: str, plural: str | None = None) -> str:
    """Write an amount with its noun, such as ``"1 row"`` or ``"3 rows"``."""
    return f"{amount:,} {word if amount == 1 else plural or word + 's'}"


def places(item: Interval) -> int:
    """Return the decimal places with which a value that is shown beside its limits should be written."""
    if item.low is None or item.high is None:
        return min(max(2 - math.floor(math.log10(abs(item.value))), 0), 6) if item.value else 0
    return _places(item.high - item.low, item.value)


def _places(width: float, value: float) -> int:
    """Decimal places that show two digits of an interval's width, and no fewer than the value's own."""
    finest = max(abs(width), abs(value) * 1e-4, 1e-9)
    return min(max(1 - math.floor(math.log10(finest)), 0), 6)
