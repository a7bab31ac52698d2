"""How advice writes numbers and settings: a unit that fits, three digits, and the interval beside them. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from energyscope.runs.intervals import Interval, interval

Row = Mapping[str, Any]

_JOULES = ((1.0, "J"), (1e-3, "mJ"), (1e-6, "µJ"), (1e-9, "nJ"))
_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
EXECUTIONS = {"eager": "eager execution", "cuda-graph": "a CUDA graph", "torch-compile": "torch.compile"}
TOKENS = {"decode": "generated token", "prefill": "prompt token"}


def limited(cell: Mapping[str, Any] | None) -> Interval | None:
    """Return a value with its limits as the documents hold it; None where it is unknown."""
    return None if cell is None else interval(cell.get("value"), cell.get("low"), cell.get("high"))


def joules(item: Interval) -> str:
    """Write joules with their interval, such as ``"31.2 mJ [30.9, 31.5]"``."""
    return _scaled(item, _JOULES)


def seconds(value: float) -> str:
    """Write a time, such as ``"6.31 ms"``."""
    return _scaled(Interval(value), _SECONDS)


def ratio(item: Interval) -> str:
    """Write a ratio with its interval, such as ``"0.94 [0.93, 0.95]"``."""
    return _scaled(item, ((1.0, ""),)).replace("  ", " ").strip()


def digits(value: float) -> str:
    """Write a number with three significant digits and grouped thousands."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    return f"{value:,.{max(2 - math.floor(math.log10(abs(value))), 0)}f}"


def percent(share: float) -> str:
    """Write a positive share of one, such as ``"92 %"`` or ``"4.1 %"``."""
    return f"{100 * share:.{0 if share >= 0.1 else 1}f} %"


def listed(words: Sequence[str]) -> str:
    """Write words as a sentence does: ``"a, b and c"``."""
    return " and ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)


def setting(row: Row) -> str:
    """Write what an alternative changes, such as ``"a batch of 16"``."""
    what, value = row["what"], str(row["value"])
    if what == "batch_size":
        return f"a batch of {value}"
    if what == "context_length":
        return f"a context of {int(value):,} tokens"
    if what == "kv_cache":
        return f"a {value} KV cache"
    if what == "execution":
        return EXECUTIONS.get(value, value)
    return f"{value} attention"


def own(row: Row, what: str) -> str:
    """Write how a base does what an alternative does otherwise."""
    return setting({"what": what, "value": str(row[what])})


def _scaled(item: Interval, scales: Sequence[tuple[float, str]]) -> str:
    factor, unit = next((one for one in scales if abs(item.value) >= one[0]), scales[-1])
    text = f"{digits(item.value / factor)} {unit}".rstrip()
    if item.low is None or item.high is None or not item.value:
        return text
    width = max(abs(item.high - item.low), abs(item.value) * 1e-4) / factor
    places = min(max(1 - math.floor(math.log10(width)), 0), 6)  # two digits of the interval's width
    return f"{text} [{item.low / factor:,.{places}f}, {item.high / factor:,.{places}f}]"
