"""What a sweep is asked to do: what all of its cells have in common, what is varied, and who measures it."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, cast

from energyscope.errors import UsageError
from energyscope.loading.options import PRECISIONS
from energyscope.metering.nvml.limits import Limit
from energyscope.runs.store import RunStore, plain_name
from energyscope.runs.sweeps import SweepCell
from energyscope.settings.fields import check_each, select_settings, setting, settings_of
from energyscope.settings.run import EXECUTIONS, HOW, MOST_USED, ONE_EXECUTION, RUN_STAGES, RunSettings

if TYPE_CHECKING:
    from energyscope.replay.replayer import Execution

METERED = "profile"
ENGINES = ("local", "ray", "slurm")
BUDGET_S = 1.0  # of windows of one component: a sweep has many cells, and its laws many points


@dataclass(frozen=True)
class SweepSettings:
    """What is varied: each length with each batch size, in each precision, of each model in each execution.

    ``lengths`` are tokens of a sequence, or in the cache with ``phase`` ``decode``. ``run`` holds what all cells
    have in common; its own lengths, batch size, precision, stages and name are not looked at. Without ``models``
    or ``executions`` its own is the only one. ``engine`` auto measures in this process what loads one model once.
    """

    run: RunSettings
    models: tuple[str, ...] = ()
    label: str = ""  # of one model and execution: what its cells' names say before the shape
    lengths: tuple[int, ...] = setting(
        (32, 64, 128, 256),
        "Tokens of a sequence; one cell for each length and batch size.",
        MOST_USED,
        option="--sequence-length",
    )
    batch_sizes: tuple[int, ...] = setting((1,), "Sequences in a forward pass.", MOST_USED, option="--batch-size")
    precisions: tuple[str, ...] = setting(
        ("auto",),
        f"{', '.join(PRECISIONS)}; auto: as stored, fp32 on a CPU.",
        MOST_USED,
        option="--precision",
        metavar="P[,P...]",
        lower=True,
    )
    executions: tuple[str, ...] = setting(
        (), f"{ONE_EXECUTION}.", MOST_USED, option="--execution", choices=EXECUTIONS, unset="eager"
    )
    name: str | None = setting(None, "Name of the sweep.", MOST_USED, unset="model and time")
    stages: tuple[str, ...] = setting((METERED,), "Stages of each cell's run.", HOW, choices=RUN_STAGES)
    engine: Literal["auto", "local", "ray", "slurm"] = setting(
        "auto",
        "local: a process for each cell, one on each GPU at a time; ray, slurm: the same on a cluster; auto: one "
        "model in this process, several by local.",
        HOW,
    )
    gpus: tuple[str, ...] = setting(
        (),
        "With --engine local: the GPUs that cells are shared out to, each cell on one of them.",
        HOW,
        metavar="ID[,ID...]",
        unset="all that are visible",
    )
    each_gpu: bool = setting(False, "With --engine local: measure every cell on each of the GPUs.", HOW)
    workers: int | None = setting(
        None,
        "Cells at once, at most; on a CPU several disturb each other.",
        HOW,
        least=1,
        unset="1 on a CPU; else as many as there are GPUs",
    )
    address: str | None = setting(
        None, "With --engine ray: of the cluster, or auto.", HOW, metavar="HOST:PORT", unset="one is started here"
    )
    power_limits: tuple[int, ...] = setting(
        (),
        "Measure each shape also at these power limits of the GPU (W), with --allow-clock-changes.",
        HOW,
        option="--power-limit",
        metavar="W[,W...]",
        least=1,
        unset="as found",
    )
    clocks: tuple[int, ...] = setting(
        (),
        "Measure each shape also with the GPU's SM clock locked (MHz), with --allow-clock-changes.",
        HOW,
        option="--gpu-clock",
        metavar="MHZ[,MHZ...]",
        least=1,
        unset="as found",
    )
    allow_clock_changes: bool = setting(
        False,
        "Let --power-limit and --gpu-clock change the GPU, which root may; it is put back however the sweep ends.",
        HOW,
    )
    slurm: tuple[str, ...] = setting(
        (),
        "With --engine slurm: options of submitit, such as slurm_partition=a,b,timeout_min=60.",
        HOW,
        metavar="KEY=VALUE[,...]",
        between=r",(?=\s*\w+=)",  # values may hold commas
    )

    @classmethod
    def of(cls, model: str | Sequence[str], values: Mapping[str, Any], given: Collection[str] = ()) -> Self:
        """Return the settings of values by the names of `SWEEP`; ``given`` are those that a user chose.

        Raises:
            UsageError: lengths of the phase that is not swept were given, which would be passed over in silence.

        """
        own, other = (CONTEXTS, LENGTHS) if values["phase"] == "decode" else (LENGTHS, CONTEXTS)
        if other.name in given and own.name not in given:
            raise UsageError(f"{other.option} says nothing of --phase {values['phase']}: give {own.option}")
        models = (model,) if isinstance(model, str) else tuple(dict.fromkeys(model))
        if not all(name.strip() for name in models) or not models:
            raise UsageError('name a model, such as model = ["gpt2", "llama-3.2-1b"]')
        return cls(
            RunSettings.of(models[0], **{name: values[name] for name in COMMON}),
            models=models,
            lengths=values[own.name],
            **{name: values[name] for name in VARIED},
        )

    @property
    def by(self) -> str | None:
        """The engine that measures the cells; None: they are measured in this process, one after the other."""
        if self.engine != "auto":
            return self.engine
        models, executions = self._models_and_executions()
        several = len(models) * len(executions) > 1 or self.gpus or self.each_gpu or self.workers is not None
        return "local" if several or self.stages != (METERED,) else None

    def _models_and_executions(self) -> tuple[Sequence[str], Sequence[str]]:
        return self.models or (self.run.model,), self.executions or self.run.executions

    def subjects(self) -> list[Self]:
        """Return a sweep of one model in one execution for each that is varied."""
        models, executions = self._models_and_executions()
        engine = cast("Any", self.by or self.engine)  # of one subject, that of all
        found = []
        for model, execution in itertools.product(models, executions):
            run = replace(self.run, model=model, execution=cast("Execution", execution))
            names = (plain_name(model) if len(models) > 1 else "", execution if len(executions) > 1 else "")
            label = self.label or "-".join(filter(None, names))
            found.append(
                replace(self, run=run, models=(model,), executions=(execution,), label=label, engine=engine)
            )
        return found

    def check(self) -> None:
        """Refuse what cannot be, before anything is loaded.

        Raises:
            UsageError: with what to do.

        """
        check_each(self)
        if self.run.phase not in {"prefill", "decode"}:
            raise UsageError(f"a sweep measures one phase, not {self.run.phase}: use --phase prefill or decode")
        cells = self.cells()
        names = [plain_name(model) for model in self.models]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise UsageError(f"two models are both called {twice}: sweep them apart")
        for cell in cells:
            self.settings_of(cell, self.run.root).check()
        self._check_engine()
        self._check_limits()
        if self.name is not None:
            RunStore.check_free(self.name, self.run.root)

    def _check_engine(self) -> None:
        """Refuse options of an engine that is not used, and what none of them can do."""
        by = self.by
        if by is not None and (self.run.gpu_id or self.run.device_map):
            raise UsageError(f"--engine {by} gives each cell a GPU: use --gpus, not --gpu-id or --device-map")
        if by is not None and self.run.device.startswith("cuda:"):
            raise UsageError(f"--engine {by} gives each cell a GPU: use --gpus, not --device {self.run.device}")
        if self.address and self.workers:
            raise UsageError("--workers is for a Ray cluster that is started here: leave it out, or --address")
        for option, value, engines in (
            ("--gpus", self.gpus, ("local",)), ("--each-gpu", self.each_gpu, ("local",)),
            ("--address", self.address, ("ray",)), ("--slurm", self.slurm, ("slurm",)),
            ("--workers", self.workers, ENGINES),
        ):  # fmt: skip
            if value and by not in engines:
                raise UsageError(f"{option} is for --engine {' or '.join(engines)}: name that, or leave it out")
        if wrong := next((word for word in self.slurm if "=" not in word), None):
            raise UsageError(f"--slurm {wrong!r}: give KEY=VALUE, such as slurm_partition=gpu")

    @property
    def limits(self) -> tuple[str, ...]:
        """What the GPU is held to in turn at each shape (``400 W``); at first it is as it was found, empty."""
        power = (Limit(power_w=watts) for watts in self.power_limits)
        clocks = (Limit(clock_mhz=mhz) for mhz in self.clocks)
        return tuple(dict.fromkeys(map(str, (Limit(), *power, *clocks))))

    def _check_limits(self) -> None:
        """Refuse to change a GPU that nobody allowed to, or where this process measures no cell."""
        asked = "--power-limit" if self.power_limits else "--gpu-clock" if self.clocks else None
        if asked is None and self.allow_clock_changes:
            raise UsageError("--allow-clock-changes is for --power-limit and --gpu-clock: name limits")
        if asked is None:
            return
        if not self.allow_clock_changes:
            raise UsageError(
                f"{asked} changes the GPU for all who use it: add --allow-clock-changes; it is put back at the end"
            )
        if self.by is not None:
            raise UsageError(
                f"{asked} is for one model and execution, measured in this process: sweep the others apart"
            )
        if self.run.meter == "modelled":
            raise UsageError(f"{asked} changes joules, which --meter modelled does not see: leave one of them out")
        if self.run.device == "cpu" or self.run.device_map or len(self.run.gpu_id) > 1:
            raise UsageError(f"{asked} changes one GPU, which the whole model must be on: leave it out")

    def cells(self, gpus: Sequence[str] = ()) -> list[SweepCell]:
        """Return all cells in order: a model and precision after the other, the smallest first.

        Each is there once for each of the UUIDs ``gpus``, where cells are measured on each of them.
        """
        return [
            SweepCell(
                precision,
                batch,
                length,
                one.run.phase,
                model=one.run.model,
                execution=one.run.execution,
                gpu=gpu,
                held_to=held_to,
                label="-".join(filter(None, (one.label, gpu and _short(gpu)))),
            )
            for one in self.subjects()
            for precision in one.precisions
            for batch, length in sorted(
                itertools.product(dict.fromkeys(one.batch_sizes), dict.fromkeys(one.lengths)),
                key=lambda shape: (shape[0] * shape[1], shape[0]),
            )
            for gpu in gpus or (None,)
            for held_to in self.limits  # innermost: the same shape at all of them, as warm as can be
        ]

    def settings_of(self, cell: SweepCell, root: Path) -> RunSettings:
        """Return the settings of a cell's run."""
        decode = self.run.phase == "decode"
        return replace(
            self.run,
            model=cell.model or self.run.model,
            execution=cast("Execution", cell.execution or self.run.execution),
            name=cell.name,
            root=root,
            precision=cell.precision,
            batch_size=cell.batch_size,
            sequence_length=None if decode else cell.tokens,
            context_lengths=(cell.tokens,) if decode else (),
            component_budget_s=self.run.component_budget_s or BUDGET_S,
            stages=self.stages,
            locked_clock_mhz=Limit.of(cell.held_to).clock_mhz,
        )


def _short(gpu: str) -> str:
    """Return what the name of a cell says of the GPU that it is for."""
    return f"gpu-{gpu.removeprefix('GPU-')[:8].lower()}"


LENGTHS = settings_of(SweepSettings)["lengths"]
CONTEXTS = replace(
    LENGTHS,
    name="context_lengths",
    options=("--context-length",),
    default=(128, 512, 1024),
    help="With --phase decode: tokens in the KV cache, instead of a sequence.",
)
COMMON = (
    "phase", "granularity", "layers", "weights", "kv_cache", "device", "device_map", "gpu_id",
    "whole_gpu", "trust_remote_code", "adapter", "meter", "watts", "passes", "target_interval",
    "component_budget_s", "seed", "root",
)  # fmt: skip
VARIED = (
    "batch_sizes", "precisions", "executions", "name", "stages", "engine", "gpus", "each_gpu", "workers",
    "address", "slurm", "power_limits", "clocks", "allow_clock_changes",
)  # fmt: skip
SWEEP = (
    LENGTHS,
    CONTEXTS,
    *select_settings(SweepSettings, *VARIED),
    *select_settings(
        RunSettings,
        *COMMON,
        phase={"default": "prefill", "help": "prefill: a forward pass; decode: a step on a filled cache."},
        layers={
            "default": "kinds",
            "help": "kinds: the mean of each kind of component; or mean, sample or all, as in `run`.",
        },
        passes={"default": 3},
        component_budget_s={"default": BUDGET_S},
    ),
)
