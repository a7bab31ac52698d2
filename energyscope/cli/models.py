"""`energyscope models`: the models that have a short name, and the adapters that are installed."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from energyscope.cli.errors import report_errors


@report_errors
def command(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List bundled models, short names and adapters."""
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
    console.print("Any Hugging Face id or local folder of these model types works too.")
