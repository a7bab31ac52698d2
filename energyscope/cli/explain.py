"""`energyscope models --explain MODEL`: the components that are found by structure, each with the reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from energyscope.cli.output import draw
from energyscope.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from energyscope.auto import StructureMap

_MOST_NAMES = 8


def explain_structure(model: str, as_adapter: Path | None, *, as_json: bool, trust_remote_code: bool) -> None:
    """Print the mapping of a model, and write it as an adapter where a file is named.

    Raises:
        UsageError: the file exists.

    """
    from energyscope.auto.source import adapter_source
    from energyscope.loading.explain import explain_model

    if as_adapter is not None and as_adapter.exists():
        raise UsageError(f"{as_adapter} exists: name another file for --as-adapter")
    adapter, structure = explain_model(model, trust_remote_code=trust_remote_code)
    if as_json:
        typer.echo(json.dumps(_document(model, adapter, structure), indent=1))
    else:
        draw(lambda _: _text(model, adapter, structure))
    if as_adapter is not None:
        as_adapter.write_text(adapter_source(structure), encoding="utf-8")
        typer.echo(f"written: {as_adapter} (what to do with it: adapters/README.md)", err=as_json)


def _document(model: str, adapter: str, structure: StructureMap) -> dict[str, Any]:
    return {
        "model": model,
        "class": type(structure.model).__name__,
        "adapter": adapter,
        "layers": structure.layers,
        "parts": [
            {
                "kind": finding.part.kind,
                "path": finding.part.name,
                "granularity": finding.part.granularity,
                "reason": finding.reason,
            }
            for finding in structure.kept
        ],
        "not_called": structure.not_called,
        "forward_failure": structure.calls.failure,
        "parameters": structure.parameters,
        "in_no_part": structure.in_no_part,
        "share_named": structure.share_named(),
    }


def _text(model: str, adapter: str, structure: StructureMap) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(title=_title(model, adapter, structure), title_justify="left")
    for column in ("kind", "path", "granularity", "reason"):
        table.add_column(column, overflow="fold")
    for finding in structure.kept:
        part = finding.part
        table.add_row(*map(Text, (part.kind, part.name, part.granularity, finding.reason)))
    return Group(table, *map(Text, _lines(structure)))


def _title(model: str, adapter: str, structure: StructureMap) -> str:
    own = f"; a run uses the adapter {adapter!r}" if adapter != structure.adapter.name else ""
    return f"{model}: components of {type(structure.model).__name__} found by structure{own}"


def _lines(structure: StructureMap) -> list[str]:
    missing = sum(structure.in_no_part.values())
    lines = [
        f"{1 - missing / max(1, structure.parameters):.2%} of {structure.parameters:,} parameters are in a part"
        + _names(f", {missing:,} in none", structure.in_no_part),
        f"{structure.share_named():.2%} are in a part of a known kind (not other)",
    ]
    if structure.calls.failure:
        lines.append(
            f"no forward pass without weights could be run, so calls were not checked: {structure.calls.failure}"
        )
    elif structure.not_called:
        calls = {f"{name} ({count})": 1 for name, count in structure.not_called.items()}
        lines.append("left out" + _names(", not called in a forward pass", calls))
    return lines


def _names(text: str, names: dict[str, int]) -> str:
    """Return a text with the first names behind it; nothing where there are none."""
    if not names:
        return ""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{text}: {', '.join(list(names)[:_MOST_NAMES])}{more}"
