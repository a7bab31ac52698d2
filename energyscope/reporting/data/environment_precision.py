"""In which precision a model ran, how it was quantized and where its modules lie, as lines of a table of facts.

Runs that state no ``model.quantization`` were made before there was one: of these, what was asked for is known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

_QUANTIZED = {"int8", "nf4", "fp4"}
_FOUR_BIT = {"nf4", "fp4"}
_MOST = 4


def precision_facts(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return names and values: precision, data type, quantization where there is one, and the device map."""
    settings, model = document.get("settings") or {}, document.get("model") or {}
    method = model.get("precision") or settings.get("precision")
    found: list[tuple[str, str]] = []
    if method in _QUANTIZED:
        found += _quantized(str(method), settings, model)
    elif model.get("dtype"):
        found.append(("Data type", str(model["dtype"])))
    return [*found, *_places(settings, model)]


def _quantized(method: str, settings: Mapping[str, Any], model: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    used = model.get("quantization") or {}
    computed = used.get("compute_dtype") or (settings.get("compute_dtype") if method in _FOUR_BIT else None)
    yield "Precision", f"{method}, computed in {computed}" if computed else method
    if model.get("dtype"):
        yield "Data type of what is not quantized", str(model["dtype"])
    if method in _FOUR_BIT:
        asked = bool(settings.get("double_quant"))
        yield "Double quantization", _nested(asked=asked, used=used.get("double_quant"))
    if settings.get("skip_modules"):
        yield "Modules that were to stay unquantized", ", ".join(map(str, settings["skip_modules"]))
    if skipped := used.get("skipped"):
        more = f" and {len(skipped) - _MOST} more" if len(skipped) > _MOST else ""
        yield "Linear layers that are not quantized", ", ".join(map(str, skipped[:_MOST])) + more


def _nested(*, asked: bool, used: bool | None) -> str:
    if asked and used is False:
        return "asked for, but no layer has it"
    return "on" if asked or used else "off"


def _places(settings: Mapping[str, Any], model: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    asked, modules = settings.get("device_map"), model.get("device_map") or {}
    if asked or modules:
        counts = Counter(str(place) for place in modules.values())
        on = ", ".join(f"{count} modules on {place}" for place, count in counts.items())
        yield "Device map", f"{asked or 'given'}: {on or 'all on one device'}"
    if waiting := model.get("offloaded"):
        yield "Modules that wait in host memory", str(len(waiting))
    if settings.get("tensor_parallel"):
        yield "Tensor parallel", "on"
