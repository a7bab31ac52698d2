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
from energyscope.settings.budget import BUDGET, CARBON, PRICE, RATE
from energyscope.settings.fields import PANELS, Setting, settings_of
from energyscope.settings.files import MODEL, SUFFIX, read_settings

Option = typer.Option
MOST_USED, *_, OUTPUT = PANELS

QuietPath = Annotated[
    bool, Option("--quiet", "-q", help="Print only errors and the path of the result.", rich_help_panel=OUTPUT)
]
DryRun = Annotated[
    bool,
    Option(
        "--dry-run", help="Show what would be measured, and about how long it takes.", rich_help_panel=MOST_USED
    ),
]
Root = Annotated[Path, Option(help="Where run directories are.")]
DEFAULT_ROOT = Path("runs")
OfAdapter = Annotated[
    str | None,
    Option(
        "--adapter",
        help="Adapter that names the components; auto: by structure [default: the one of its model type].",
    ),
]
AsJson = Annotated[bool, Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print only errors.", rich_help_panel=OUTPUT)]
Price = Annotated[float | None, Option(help=PRICE)]
Carbon = Annotated[float | None, Option(help=CARBON)]
Rate = Annotated[float | None, Option(help=RATE)]

Build = Callable[[Any, Mapping[str, Any], Collection[str]], Any]
Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_MODEL = typer.Argument(
    metavar="MODEL|FILE.toml",
    help="Short name, bundled model, local folder or Hugging Face id; or a TOML file of these options.",
)
_CONTEXT = "context"  # Typer passes it


def with_settings(
    build: Build,
    *declared: Setting,
    required: bool = True,
    several: bool = False,
    subject: str = MODEL,
    argument: Any = _MODEL,
) -> Callable[[Decorated], Decorated]:
    """Give a command MODEL and the options of settings, before the options that its function has.

    The function is called with what ``build`` makes of the model, the values by the names of their fields, and the
    names of those that were given; with None where no model is ``required`` and none was given. The command
    line wins over the values of a TOML file, which may name ``several`` models. What is measured may be another
    ``subject`` than a model, given by another ``argument``.
    """

    def decorate(function: Decorated) -> Decorated:
        _, *declared_here = inspect.signature(function, eval_str=True).parameters.values()
        own = [_parameter(option.name, option.annotation, option.default) for option in declared_here]
        has_context = any(option.name == _CONTEXT for option in own)

        @functools.wraps(function)
        def command(**options: Any) -> Any:
            context = options[_CONTEXT] if has_context else options.pop(_CONTEXT)
            stated = {setting: options.pop(setting.key) for setting in declared}
            named = options.pop(subject)
            settings = None if named is None else build(*_merged(context, subject, named, stated, several=several))
            return function(settings, **options)

        subject_type: Any = Annotated[str, argument] if required else Annotated[str | None, argument]
        default = inspect.Parameter.empty if required else None
        derived = [_parameter(subject, subject_type, default), *map(_option, declared)]
        parameters = [*([] if has_context else [_parameter(_CONTEXT, typer.Context)]), *derived, *own]
        # Typer reads both.
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return command  # type: ignore[return-value]

    return decorate


def is_given(context: typer.Context, name: str) -> bool:
    """Tell whether a parameter stands on the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def budget_of(price: float | None, carbon: float | None, rate: float | None) -> dict[str, float]:
    """Return what is given of a budget by its names, as `energyscope run` takes it.

    Raises:
        UsageError: a value that cannot be.

    """
    from energyscope.settings.run import RunSettings

    declared = settings_of(RunSettings)
    given = {name: value for name, value in zip(BUDGET, (price, carbon, rate), strict=True) if value is not None}
    for name, value in given.items():
        declared[name].check(value)
    return given


def without_budget(run: str) -> UsageError:
    """Return the error of a budget that is given for something else than a run of a model."""
    return UsageError(f"--price, --carbon and --rate are of runs of models, which {run} is not: leave them out")


class PanelledCommand(TyperCommand):
    """A command whose help shows options in panels, the most used first."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, then the options of each panel in the order of `PANELS`."""
        panels: dict[str, list[tuple[str, str]]] = {name: [] for name in ("Arguments", *PANELS)}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                is_argument = parameter.param_type_name == "argument"
                panels[
                    "Arguments" if is_argument else getattr(parameter, "rich_help_panel", None) or OUTPUT
                ].append(record)
        if not any(panels[name] for name in PANELS[:-1]):  # too few options for panels
            panels = {"Arguments": panels["Arguments"], "Options": panels[OUTPUT]}
        for name, records in panels.items():
            if records:
                with formatter.section(name):
                    formatter.write_dl(records)


def _merged(
    context: typer.Context, subject: str, named: str, stated: Mapping[Setting, Any], *, several: bool
) -> tuple[Any, dict[str, Any], list[str]]:
    """Return what is measured, the values, and the names of those that were given, in a file or as options.

    The first is a list where ``several`` may be named and the file has a list.
    """
    values = {setting.name: setting.read(value) for setting, value in stated.items()}
    given = [setting.name for setting in stated if is_given(context, setting.key)]
    if Path(named).suffix != SUFFIX:
        return named, values, given
    filed = read_settings(Path(named), stated, subject)
    if subject not in filed:
        example = "gpt2" if subject == MODEL else "http://localhost:8000"
        raise UsageError(f'{named} names no {subject}: add a line such as {subject} = "{example}"')
    kept = {name: values[name] for name in given}
    measured = filed.pop(subject)
    if not several and not isinstance(measured, str):
        raise UsageError(f"{named} names several {subject}s, which `energyscope sweep` measures: name one")
    return measured, {**values, **filed, **kept}, [*given, *filed]


def _option(setting: Setting) -> inspect.Parameter:
    """Return the parameter by which Typer knows a setting."""
    kind: Any = str if setting.several else setting.kind
    kind = kind | None if setting.optional else kind
    options = setting.options
    if setting.kind is bool:
        options = (f"{setting.option}/--no-{setting.option.removeprefix('--')}",) if setting.default else options
    unset = f" [default: {setting.unset}]" if setting.unset and setting.default in {None, ()} else ""
    option = Option(*options, metavar=setting.metavar, help=setting.help + unset, rich_help_panel=setting.panel)
    return _parameter(setting.key, Annotated[kind, option], setting.written(setting.default))


def _parameter(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
