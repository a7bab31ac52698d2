"""Options of commands, derived from the settings that declare them, and help in panels."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand

from energyscope.errors import UsageError
from energyscope.settings.fields import PANELS, Setting
from energyscope.settings.files import MODEL, SUFFIX, read_settings

Option = typer.Option
MOST_USED, *_, OUTPUT = PANELS

QuietPath = Annotated[
    bool, Option("--quiet", "-q", help="Print only errors and the path of the result.", rich_help_panel=OUTPUT)
]
Root = Annotated[Path, Option(help="Where run directories are.")]
DEFAULT_ROOT = Path("runs")
AsJson = Annotated[bool, Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print only errors.", rich_help_panel=OUTPUT)]

Build = Callable[[str, Mapping[str, Any], Collection[str]], Any]
Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_MODEL = typer.Argument(
    metavar="MODEL|FILE.toml",
    help="Short name, bundled model, local folder or Hugging Face id; or a TOML file of these options.",
)
_CONTEXT = "context"  # Typer passes it


def with_settings(build: Build, *declared: Setting, required: bool = True) -> Callable[[Decorated], Decorated]:
    """Give a command MODEL and the options of settings, before the options that its function has.

    The function is called with what ``build`` makes of the model, the values by the names of their fields, and the
    names of those that were given; with None where no model is ``required`` and none was given. The command
    line wins over the values of a TOML file.
    """

    def decorate(function: Decorated) -> Decorated:
        taken = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        own = [_parameter(one.name, one.annotation, one.default) for one in taken]
        wants_context = any(one.name == _CONTEXT for one in own)

        @functools.wraps(function)
        def command(**options: Any) -> Any:
            context = options[_CONTEXT] if wants_context else options.pop(_CONTEXT)
            stated = {one: options.pop(one.key) for one in declared}
            model = options.pop(MODEL)
            settings = None if model is None else build(*_merged(context, model, stated))
            return function(settings, **options)

        derived = [_model(required=required), *map(_option, declared)]
        parameters = [*([] if wants_context else [_parameter(_CONTEXT, typer.Context)]), *derived, *own]
        # Typer reads both.
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {one.name: one.annotation for one in parameters}
        return command  # type: ignore[return-value]

    return decorate


def is_given(context: typer.Context, name: str) -> bool:
    """Tell whether a parameter stands on the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


class PanelledCommand(TyperCommand):
    """A command whose help shows options in panels, the most used first."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, then the options of each panel in the order of `PANELS`."""
        panels: dict[str, list[tuple[str, str]]] = {name: [] for name in ("Arguments", *PANELS)}
        for one in self.get_params(ctx):
            record = one.get_help_record(ctx)
            if record is not None:
                is_argument = one.param_type_name == "argument"
                panels["Arguments" if is_argument else getattr(one, "rich_help_panel", None) or OUTPUT].append(
                    record
                )
        if not any(panels[name] for name in PANELS[:-1]):  # too few options for panels
            panels = {"Arguments": panels["Arguments"], "Options": panels[OUTPUT]}
        for name, records in panels.items():
            if records:
                with formatter.section(name):
                    formatter.write_dl(records)


def _merged(
    context: typer.Context, model: str, stated: Mapping[Setting, Any]
) -> tuple[str, dict[str, Any], list[str]]:
    """Return the model, the values, and the names of those that were given, in a file or on the command line."""
    values = {one.name: one.read(value) for one, value in stated.items()}
    given = [one.name for one in stated if is_given(context, one.key)]
    if Path(model).suffix != SUFFIX:
        return model, values, given
    filed = read_settings(Path(model), stated)
    if MODEL not in filed:
        raise UsageError(f'{model} names no model: add a line such as model = "gpt2"')
    kept = {name: values[name] for name in given}
    named = filed.pop(MODEL)
    return named, {**values, **filed, **kept}, [*given, *filed]


def _model(*, required: bool) -> inspect.Parameter:
    if required:
        return _parameter(MODEL, Annotated[str, _MODEL])
    return _parameter(MODEL, Annotated[str | None, _MODEL], None)


def _option(one: Setting) -> inspect.Parameter:
    """Return the parameter by which Typer knows a setting."""
    kind: Any = str if one.several else one.kind
    kind = kind | None if one.optional else kind
    options = one.options
    if one.kind is bool:
        options = (f"{one.option}/--no-{one.option.removeprefix('--')}",) if one.default else options
    unset = f" [default: {one.unset}]" if one.unset and one.default in {None, ()} else ""
    option = Option(*options, metavar=one.metavar, help=one.help + unset, rich_help_panel=one.panel)
    return _parameter(one.key, Annotated[kind, option], one.written())


def _parameter(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
