"""The application: its commands, and `main`, which the console script calls."""

from __future__ import annotations

import importlib
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command_from_info, get_group
from typer.models import CommandInfo

from energyscope.cli.errors import DEBUG
from energyscope.cli.options import PanelledCommand

COMMANDS = {  # each is `command`, or with others `app`, in the module of its name, with _ for -
    "demo": "Show what was measured on a GPU, then measure a bundled model here, in about a minute.",
    "run": "Measure a model's energy and impact, and write a report.",
    "sweep": "Measure models over lengths, batch sizes, precisions and executions, on one GPU or many.",
    "benchmark": "Compare a model's precisions: latency, energy and accuracy.",
    "serving": "Measure what requests cost on a running server.",
    "plan": "Choose a precision for each part inside a budget for the predictions, and verify it.",
    "figures": "Write a run's figures for a paper; with RUN2, a comparison too.",
    "export": "Write a run in the format of another tool: Perfetto, speedscope, MLflow, a model card, Parquet.",
    "report": "Render the page of a run, a sweep or laws again.",
    "compare": "Print how runs differ from a baseline, and draw a page of that.",
    "pool": "Make one estimate of several runs under the same settings, with the variance between them.",
    "laws": "Fit how energy grows with length, batch and model size.",
    "predict": "Predict energy and time of a shape or model not measured.",
    "prepare": "Tokenize evaluation data once, for `--data`.",
    "models": "List bundled models, short names and adapters.",
    "check-adapter": "Check an adapter on a tiny model on the CPU.",
    "examples": "List runs on data-centre GPUs that ship with energyscope, or show one.",
    "runs": "List runs, then sweeps and laws, oldest first; tag, remove or archive them.",
    "show": "Print a run's answer and main tables, or one table in full (in a pipe: tab-separated).",
    "doctor": "Check what can be measured here, and what to change.",
}

UsageError: Any = typer.BadParameter.__mro__[1]  # of click, which Typer carries a copy of in some versions


class Commands(TyperGroup):
    """The commands, each imported when it is called: help on all of them needs none."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = dict.fromkeys(COMMANDS)  # type: ignore[assignment] # names, for "did you mean"

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - click's
        """Return their names in the order in which they are shown."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - click's
        """Return a command; None where there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"energyscope.cli.{cmd_name.replace('-', '_')}")
        if hasattr(module, "app"):  # with commands of its own
            group = get_group(module.app)
            group.name = cmd_name
            return group
        info = CommandInfo(name=cmd_name, callback=module.command, cls=PanelledCommand)
        return get_command_from_info(info, pretty_exceptions_short=True, rich_markup_mode=None)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - click's
        """Write the commands with what they do."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


app = typer.Typer(
    name="energyscope",
    cls=Commands,
    help="Where do a transformer's joules go, which of them do its predictions need, and what should be changed?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,  # drawing help with rich imports a Markdown parser and triples its time
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        typer.echo(f"energyscope {version('energyscope-llm')}")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[  # noqa: ARG001 - its callback prints and leaves
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit.")
    ] = False,
) -> None:
    DEBUG.on = DEBUG.on or debug


def main() -> None:
    """Run the command line; `--debug` may stand anywhere on it."""
    if "--debug" in sys.argv[2:]:
        sys.argv.remove("--debug")
        DEBUG.on = True
    try:
        code = app(standalone_mode=False)
    except UsageError as error:
        if not error.format_message() or type(error).__name__ == "NoArgsIsHelpError":
            error.show()  # the help
        else:
            known = f" ({error.ctx.command_path} --help)" if error.ctx else ""
            typer.echo(f"energyscope: {error.format_message()}{known}", err=True)
        sys.exit(error.exit_code)
    except typer.Abort:
        typer.echo("energyscope: aborted", err=True)
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)
