"""`energyscope demo`: an answer of a GPU, then a small model on this machine."""

from __future__ import annotations

import typer

from energyscope.cli.errors import report_errors
from energyscope.cli.options import DEFAULT_ROOT, Root

MODEL, EXAMPLE = "tiny-gpt2", "llama-1b-width-h100"
QUICK = {  # about half a minute on one core
    "layers": "kinds", "component_budget": 1.0, "methods": "zero,int8", "max_examples": 100,
    "benchmark_precision": "fp32,int8",
}  # fmt: skip


@report_errors
def command(root: Root = DEFAULT_ROOT) -> None:
    """Show what was measured on a GPU, then measure a bundled model here, in about a minute."""
    from energyscope.cli.examples import show_example
    from energyscope.cli.run import measure
    from energyscope.settings.run import RunSettings

    typer.echo("Measured on an NVIDIA H100 (`energyscope examples`):\n")
    show_example(EXAMPLE)
    typer.echo(f"\nNow {MODEL}, which ships with energyscope, on this machine:\n")
    measure(RunSettings.of(MODEL, root=root, **QUICK))
