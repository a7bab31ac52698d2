"""An adapter's declaration as a Python file, for an author to go on from."""

from __future__ import annotations

import json
from collections.abc import Iterator

from energyscope.adapters import CACHE_UPDATE, SDPA, Part
from energyscope.auto.mapping import StructureMap

_FUNCTIONS = {SDPA: "SDPA", CACHE_UPDATE: "CACHE_UPDATE"}


def adapter_source(structure: StructureMap) -> str:
    """Return the adapter of a structure as Python, each part with the reason beside it.

    Its name is the model type, so that it can be registered as it is (adapters/README.md).
    """
    return "\n".join(_lines(structure)) + "\n"


def _lines(structure: StructureMap) -> Iterator[str]:
    adapter = structure.adapter
    model_type = adapter.model_types[0]
    imports = [
        name for function, name in _FUNCTIONS.items() if any(part.function == function for part in adapter.parts)
    ]
    yield f'"""{type(structure.model).__name__}: components found by structure (energyscope models --explain)."""'
    yield ""
    yield f"from energyscope.adapters import {', '.join([*sorted(imports), 'Adapter', 'Part'])}"
    yield ""
    stack = adapter.layers if isinstance(adapter.layers, str) else None
    layer = f"{stack}.{{layer}}" if stack else None
    if layer:
        yield f"LAYER = {_quoted(layer)}"
        yield ""
    yield "adapter = Adapter("
    yield f"    name={_quoted(model_type)},"
    yield f"    model_types=({_quoted(model_type)},),"
    yield f"    task={_quoted(adapter.task)},"
    yield f"    auto_class={_quoted(adapter.auto_class)},"
    yield f"    layers={_quoted(stack) if stack else _tuple(adapter.stacks)},"
    yield f"    dataset={_quoted(adapter.dataset)},"
    yield "    parts=("
    for finding in structure.kept:
        yield f"        {_part(finding.part, layer)},  # {finding.reason}"
    for name, missing in structure.not_called.items():
        yield f"        # not called in a forward pass ({missing}): {name}"
    yield "    ),"
    yield ")"


def _part(part: Part, layer: str | None) -> str:
    path = _quoted(part.path)
    if part.path == layer:
        path = "LAYER"
    elif layer and part.path.startswith(f"{layer}."):
        path = f'f"{{LAYER}}{part.path.removeprefix(layer)}"'
    optional = ", optional=True" if part.optional else ""
    function = f", function={_FUNCTIONS.get(part.function) or _quoted(part.function)}" if part.function else ""
    return f"Part({_quoted(part.kind)}, {path}, {_quoted(part.granularity)}{optional}{function})"


def _tuple(values: tuple[str, ...]) -> str:
    return f"({', '.join(map(_quoted, values))})"


def _quoted(value: str | None) -> str:
    return "None" if value is None else json.dumps(value)
