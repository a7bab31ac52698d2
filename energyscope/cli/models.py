"""`energyscope models`: the models that have a short name, and the adapters that are installed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from energyscope import bundled
from energyscope.adapter_registry import MODELS, installed
from energyscope.adapter_states import AdapterState, states
from energyscope.cli.errors import report_errors
from energyscope.cli.explain import explain_structure
from energyscope.errors import UsageError
from energyscope.reporting.table import Column, Table
from energyscope.reporting.terminal_text import print_table

Item = Mapping[str, Any]


@report_errors
def command(
    check: Annotated[
        bool, typer.Option("--check", help="Import other packages' adapters anew, each in its own process.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    explain: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Print how this model's components are found by structure: kind, path, granularity, reason.",
        ),
    ] = None,
    as_adapter: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --explain: write what was found as an adapter, to go on from."),
    ] = None,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="With --explain: run the model's own Python code.")
    ] = False,
) -> None:
    """List bundled models, short names and adapters.

    With --explain MODEL, print how the components of a model are found that no adapter serves.
    """
    if explain is not None:
        explain_structure(explain, as_adapter, as_json=as_json, trust_remote_code=trust_remote_code)
    elif as_adapter is not None or trust_remote_code:
        raise UsageError("--as-adapter and --trust-remote-code require --explain MODEL")
    else:
        _list(check=check, as_json=as_json)


def _list(*, check: bool, as_json: bool) -> None:
    entries, known, tables = installed(), states(again=check), states(MODELS, again=check)
    adapters = [
        {
            "name": name,
            "package": entry.package,
            "version": entry.version,
            "other_packages": list(entry.rivals),
            "model_types": list(known[name].model_types),
            "task": known[name].task,
            "metric": known[name].metric,
            "problem": known[name].problem,
            "import_s": known[name].seconds,
        }
        for name, entry in entries.items()
    ]
    models = _models(known, tables)
    if as_json:
        typer.echo(json.dumps({"models": models, "adapters": adapters}, indent=1))
        return
    _tables(models, adapters)
    for state in tables.values():
        if state.problem:
            typer.echo(state.problem)


def _models(known: Mapping[str, AdapterState], tables: Mapping[str, AdapterState]) -> list[Item]:
    """Return the models that a name stands for: of two adapters with one name, the first has it."""
    models: dict[str, Item] = {
        name: {"name": name, "kind": "bundled", "source": f"bundled:{name}", "adapter": None}
        for name in bundled.MODELS
    }
    for adapter, state in known.items():
        for name, hub_id in state.models.items():
            models.setdefault(name, {"name": name, "kind": "checkpoint", "source": hub_id, "adapter": adapter})
    for state in tables.values():
        for name, hub_id in state.models.items():
            models.setdefault(name, {"name": name, "kind": "checkpoint", "source": hub_id, "adapter": None})
    return list(models.values())


def _named(models: Sequence[Item]) -> Table:
    columns = [Column("name", "Model"), Column("weights", "Hugging Face id of its weights")]
    bundled = {"bundled": "in this package"}
    rows = [{**model, "weights": bundled.get(model["kind"], model["source"])} for model in models]
    return Table(columns, rows, "Models")


def _families(adapters: Sequence[Item]) -> Table:
    columns = [
        Column("name", "Adapter"),
        Column("types", "Model types"),
        Column("task", "Task"),
        Column("from", "Package"),
    ]
    rows = [
        {
            **adapter,
            "types": ", ".join(adapter["model_types"]) or "none: see below",
            "task": adapter["task"] or "",
            "from": f"{adapter['package']} {adapter['version']}",
        }
        for adapter in adapters
    ]
    return Table(columns, rows, "Adapters")


def _tables(models: Sequence[Item], adapters: Sequence[Item]) -> None:
    from rich.console import Console

    console = Console()
    for table in (_named(models), _families(adapters)):
        print_table(table, console)
        if not console.is_terminal:
            typer.echo()
    for adapter in adapters:
        if adapter["problem"]:
            console.print(f"{adapter['name']}: {adapter['problem']}", markup=False, highlight=False)
        if adapter["other_packages"] and not adapter["problem"]:
            others = " and ".join(adapter["other_packages"])
            console.print(f"the adapter {adapter['name']} of {others} is not used: energyscope has one so named")
    console.print("Any Hugging Face id or local folder of these model types works too, and of most others:")
    console.print("their components are found by structure (energyscope models --explain MODEL).")
