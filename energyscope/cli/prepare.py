"""`energyscope prepare MODEL`: tokenize evaluation data once, for later runs."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from energyscope.cli.errors import report_errors
from energyscope.cli.options import OfAdapter
from energyscope.reasons import words

if TYPE_CHECKING:
    from energyscope.workloads.preparing import PreparedSet

Option = typer.Option


@report_errors
def command(  # noqa: PLR0917 - Typer passes options by name
    model: Annotated[str, typer.Argument(help="Short name, bundled model, local folder or Hugging Face id.")],
    output: Annotated[Path, Option(help="Folder of the prepared set; it must not exist.")],
    size: Annotated[
        str, Option(help="small: 50 examples, evenly spaced; standard: 500; large: all.")
    ] = "standard",
    data: Annotated[
        str | None,
        Option(help="JSONL, CSV, Parquet or text file, or a data set's folder [default: the model's own data]."),
    ] = None,
    sequence_length: Annotated[
        int | None, Option(help="Tokens at which examples are cut [default: 512, or the model's maximum].")
    ] = None,
    stride: Annotated[
        int | None, Option(help="Tokens between windows of running text [default: half a window].")
    ] = None,
    text_column: Annotated[str, Option(help="Column of texts in the data.")] = "text",
    label_column: Annotated[str, Option(help="Column of labels in the data.")] = "label",
    trust_remote_code: Annotated[
        bool, Option("--trust-remote-code", help="Run the model's own Python code.")
    ] = False,
    adapter: OfAdapter = None,
    as_json: Annotated[bool, Option("--json", help="Print JSON.")] = False,
) -> None:
    """Tokenize evaluation data once, for `--data`."""
    from dataclasses import asdict

    from energyscope.workloads.preparing import prepare

    done = prepare(
        model,
        output,
        size=size,
        data=data,
        sequence_length=sequence_length,
        stride=stride,
        text_column=text_column,
        label_column=label_column,
        trust_remote_code=trust_remote_code,
        adapter=adapter,
    )
    typer.echo(json.dumps(asdict(done), indent=1) if as_json else _described(done, model))


def _described(done: PreparedSet, model: str) -> str:
    length = f", cut at {done.sequence_length}" if done.sequence_length else ""
    held = f"{done.examples:,} examples of {done.source}, {done.tokens:,} tokens{length}"
    lines = [
        f"{done.path}: {held}, {_bytes(done.bytes_on_disk)} on disk",
        *(f"note: {words(note)}" for note in done.notes),
        f"use it with: energyscope run {shlex.quote(model)} --data {shlex.quote(done.path)}",
    ]
    return "\n".join(lines)


def _bytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.1f} kB"
