"""The commands of the command line as functions: the same names and options, with underscores.

Lists may be text with commas, as there. `energyscope.run`, `resume`, `compare`, `export` and `measure_server`
stand where their work is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from energyscope.errors import UsageError
from energyscope.progress import Progress, silent
from energyscope.runs.store import DEFAULT_ROOT, Run, load_run
from energyscope.settings.fields import values_of

if TYPE_CHECKING:
    from energyscope.reporting.charts.theme import Theme
    from energyscope.reporting.print.files import WrittenFigure
    from energyscope.reporting.scaling.laws import Laws
    from energyscope.runs.sweeps import Sweep

    Measured = str | Path | Run | Sweep


def benchmark(model: str, *, progress: Progress = silent, **options: Any) -> Run:
    """Compare a model's precisions, and return the run: its ``trials`` and ``benchmark`` hold the results.

    Args:
        model: a short name, a bundled name, a folder or a Hugging Face id.
        progress: is called at each step.
        options: those of `energyscope benchmark`, such as ``precision="fp32,int8"``.

    Raises:
        EnergyscopeError: with what to do; what was finished is kept.

    """
    from energyscope.settings.single_stage import BENCHMARK, benchmark_settings
    from energyscope.stages.run import run_settings

    values, _ = values_of(BENCHMARK, options)
    return run_settings(benchmark_settings(model, values), progress=progress)


def plan(model: str, *, progress: Progress = silent, **options: Any) -> Run:
    """Choose a precision for each part inside a budget, verify it, and return the run: its ``plan`` is the choice.

    Each of the plan's ``workloads`` has its ``verdict`` on the second half of the data; a budget that does not
    hold there is no error here.

    Args:
        model: as of `benchmark`; or a run, by its path or name, that gives model and settings.
        progress: is called at each step.
        options: those of `energyscope plan`, such as ``budget="perplexity +0.5%"``.

    Raises:
        EnergyscopeError: with what to do; what was finished is kept.

    """
    from energyscope.settings.single_stage import PLAN, plan_settings
    from energyscope.stages.run import run_settings

    return run_settings(plan_settings(model, *values_of(PLAN, options)), progress=progress)


def sweep(model: str | Sequence[str], *, progress: Progress = silent, **options: Any) -> Sweep:
    """Measure models over lengths, batch sizes, precisions and executions, and return the sweep.

    Args:
        model: as of `benchmark`, or several.
        progress: is called at each step.
        options: those of `energyscope sweep`, such as ``sequence_length=[32, 64], engine="local"``.

    Raises:
        EnergyscopeError: with what to do; what was finished is kept.

    """
    from energyscope.settings.sweep import SWEEP, SweepSettings
    from energyscope.stages import sweep as stage

    return stage.sweep(SweepSettings.of(model, *values_of(SWEEP, options)), progress=progress)


def laws(
    *measured: Measured | Sequence[Measured], name: str | None = None, root: str | Path = DEFAULT_ROOT
) -> Laws:
    """Fit how energy grows with length, batch and model size, and return the laws: ``document`` holds them.

    Args:
        measured: runs and sweeps, or paths or names of them.
        name: of the directory that is made [default: model and time].
        root: where it is made, and where names are looked up.

    Raises:
        UsageError: nothing was named, or the name is taken.
        RunError: a run cannot be read, or none of them measured components.

    """
    from energyscope.reporting.scaling.laws import Laws
    from energyscope.stages import laws as stage

    path, _ = stage.laws(_references(measured), name=name, root=Path(root))
    return Laws.load(path)


def predict(  # noqa: PLR0913 - the options of the command
    model: str,
    measured: Measured | Sequence[Measured],
    *,
    sequence_length: int | None = None,
    batch_size: int = 1,
    context_length: int | None = None,
    phase: str | None = None,
    precision: str | None = None,
    execution: str | None = None,
    weights: str | None = None,
    limit: str | None = None,
    mixed: str | Sequence[str] = (),
    adapter: str | None = None,
    root: str | Path = DEFAULT_ROOT,
) -> dict[str, Any]:
    """Predict energy and time of a shape or model that was not measured: what `energyscope predict --json` prints.

    Args:
        model: as of `benchmark`.
        measured: runs and sweeps to predict from, or paths or names of them.
        sequence_length: tokens of a prefill [default: 128].
        batch_size: sequences in a forward pass.
        context_length: tokens in the KV cache of a decode step [default: 1024].
        phase: prefill or decode [default: that of the lengths or the runs].
        precision, execution, weights: use the runs of these.
        limit: use the runs under this power limit or clock: "400 W", "1200 MHz", "default".
        mixed: what the runs may differ in: board, execution, precision.
        adapter: that names the components [default: the one of its model type].
        root: where names are looked up.

    Raises:
        UsageError: options contradict each other, or nothing can be predicted from these runs.
        RunError: a run cannot be read.

    """
    from energyscope.runs.sweeps import runs_of
    from energyscope.stages import predict as stage

    references = _references([measured])
    if not references:
        raise UsageError("predict needs runs to learn from: name runs or sweeps (`energyscope runs` lists them)")
    runs = [run for reference in references for run in runs_of(reference, Path(root))]
    settings = stage.PredictSettings(
        model=model,
        sequence_length=sequence_length,
        batch_size=batch_size,
        context_length=context_length,
        phase=phase,
        precision=precision,
        execution=execution,
        weights=weights,
        limit=limit,
        mixed=_words(mixed),
        adapter=adapter,
    )
    return stage.predict(runs, settings)


def figures(
    *runs: str | Path | Run,
    format: str | Sequence[str] = "png",  # noqa: A002 - as the option is called
    dpi: int = 300,
    theme: Theme = "paper",
    output: str | Path | None = None,
    force: bool = False,
    root: str | Path = DEFAULT_ROOT,
) -> list[WrittenFigure]:
    """Write a run's figures for a paper; of two runs, a comparison too. Return each file, or why there is none.

    Args:
        runs: one or two, or their paths or names.
        format: png, svg, pdf, or several of them.
        dpi: resolution of PNG files, 72 to 1200.
        theme: paper, light or dark.
        output: directory [default: figures/ in the first run, where files are replaced].
        force: replace figures that are in ``output``.
        root: where names are looked up.

    Raises:
        UsageError: no run, more than two, or one twice; a format, theme or resolution that there is not.
        RunError: a run cannot be read, or ``output`` cannot be written.

    """
    from energyscope.reporting.print import files

    loaded = [one if isinstance(one, Run) else load_run(one, Path(root)) for one in runs]
    if len(loaded) not in {1, 2}:
        raise UsageError("figures are of one run, or of two: name them")
    options = files.Options(_words(format), dpi, theme, replace=force or output is None)
    folder = Path(output) if output is not None else loaded[0].path / files.DIRECTORY
    return list(files.write_figures(loaded, folder, options))


def _words(given: str | Sequence[str]) -> tuple[str, ...]:
    words = given.split(",") if isinstance(given, str) else given
    return tuple(dict.fromkeys(word.strip().lower() for word in words if word.strip()))


def _references(measured: Sequence[Measured | Sequence[Measured]]) -> list[str]:
    """Return paths or names of what was given one by one or in lists."""
    found: list[str] = []
    for one in measured:
        if isinstance(one, str | Path):
            found.append(str(one))
        elif isinstance(one, Sequence):
            found += _references(one)
        else:
            found.append(str(one.path))
    return found
