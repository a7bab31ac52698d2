"""`energyscope models`: the models that have a short name, and the adapters that are installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from energyscope.cli.errors import report_errors
from energyscope.cli.explain import explain_structure
from energyscope.errors import UsageError


@report_errors
def command(
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
        _list(as_json=as_json)


def _list(*, as_json: bool) -> None:
    from energyscope.adapters import all_adapters
    from energyscope.loading import model_names

    models: list[dict[str, object]] = [
        {"name": name, "kind": model.kind, "source": model.source, "adapter": model.adapter and model.adapter.name}
        for name, model in model_names().items()
    ]
    adapters: list[dict[str, object]] = [
        {
            "name": adapter.name,
            "model_types": list(adapter.model_types),
            "task": adapter.task,
            "metric": adapter.metric,
        }
        for adapter in all_adapters()
    ]
    if as_json:
        typer.echo(json.dumps({"models": models, "adapters": adapters}, indent=1))
        return
    _tables(models, adapters)


def _tables(models: list[dict[str, object]], adapters: list[dict[str, object]]) -> None:
    from rich.console import Console
    from rich.table import Table

    names = Table("model", "where its weights are", title="Models", title_justify="left")
    for model in models:
        where = "in this package" if model["kind"] == "bundled" else f"Hugging Face hub: {model['source']}"
        names.add_row(str(model["name"]), where)
    families = Table("adapter", "model types", "task", "metric", title="Adapters", title_justify="left")
    for adapter in adapters:
        types = adapter["model_types"]
        words = ", ".join(types) if isinstance(types, list) else ""
        families.add_row(str(adapter["name"]), words, str(adapter["task"]), str(adapter["metric"]))
    console = Console()
    console.print(names)
    console.print(families)
    console.print("Any Hugging Face id or local folder of these model types works too, and of most others:")
    console.print("their components are found by structure (energyscope models --explain MODEL).")
