"""`energyscope predict MODEL --from RUN`: the energy of a shape, or of a model, that was not measured."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from energyscope.cli.errors import reading_runs, report_errors
from energyscope.cli.options import DEFAULT_ROOT, AsJson, OfAdapter, Root
from energyscope.cli.output import draw


@report_errors
@reading_runs
def command(  # noqa: PLR0917 - Typer passes options by name
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A short name, a Hugging Face id or a folder.")],
    from_runs: Annotated[
        list[str] | None,
        typer.Option("--from", metavar="RUN", help="A run or sweep to predict from; repeat it for several."),
    ] = None,
    sequence_length: Annotated[int | None, typer.Option(help="Tokens of a prefill [default: 128].")] = None,
    batch_size: Annotated[int, typer.Option(help="Sequences in a forward pass.")] = 1,
    context_length: Annotated[
        int | None, typer.Option(help="Tokens in the KV cache of a decode step [default: 1024].")
    ] = None,
    phase: Annotated[
        str | None, typer.Option(help="prefill or decode [default: that of the lengths or the runs].")
    ] = None,
    precision: Annotated[str | None, typer.Option(help="Use the runs of this precision.")] = None,
    execution: Annotated[
        str | None, typer.Option(help="Use the runs of this execution: eager, cuda-graph.")
    ] = None,
    weights: Annotated[str | None, typer.Option(help="Use the runs of these weights: pretrained, random.")] = None,
    limit: Annotated[
        str | None,
        typer.Option(help="Use the runs under this limit: '400 W', '1200 MHz', default."),
    ] = None,
    mixed: Annotated[
        str, typer.Option(help="What the runs may differ in: board, execution, precision (with commas).")
    ] = "",
    adapter: OfAdapter = None,
    root: Root = DEFAULT_ROOT,
    as_json: AsJson = False,
) -> None:
    """Predict energy and time of a shape or model not measured.

    In a pipe the table is tab-separated.

    For example: energyscope predict gpt2 --from SWEEP --sequence-length 96 --batch-size 2
    """
    from rich.console import Console

    from energyscope.commands import predict
    from energyscope.errors import UsageError
    from energyscope.reporting.scaling.prediction import prediction_table, prediction_text
    from energyscope.reporting.terminal_text import print_table

    if not from_runs:
        raise UsageError("predict needs runs to learn from: add --from RUN (`energyscope runs` lists them)")
    prediction = predict(
        model,
        from_runs,
        sequence_length=sequence_length,
        batch_size=batch_size,
        context_length=context_length,
        phase=phase,
        precision=precision,
        execution=execution,
        weights=weights,
        limit=limit,
        mixed=mixed,
        adapter=adapter,
        root=root,
    )
    if as_json:
        typer.echo(json.dumps(prediction, indent=1))
    elif (console := Console()).is_terminal:
        draw(lambda width: prediction_text(prediction, width), console)
    else:
        print_table(prediction_table(prediction), console, modelled=prediction["modelled"])
