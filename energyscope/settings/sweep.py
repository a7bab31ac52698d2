"""What a sweep is asked to do: what all of its cells have in common, and what is varied."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from energyscope.errors import UsageError
from energyscope.loading.options import PRECISIONS
from energyscope.runs.store import RunStore
from energyscope.runs.sweeps import SweepCell
from energyscope.settings.fields import PANELS, check_each, select_settings, setting, settings_of
from energyscope.settings.run import BOTH, ONE_EXECUTION, RunSettings

MOST_USED, *_ = PANELS
METERED = "profile"
BUDGET_S = 1.0  # of windows of one component: a sweep has many cells, and its laws many points


@dataclass(frozen=True)
class SweepSettings:
    """What is varied: each length with each batch size, in each precision.

    ``lengths`` are tokens of a sequence, or in the cache with ``phase`` ``decode``. ``run`` holds what all cells
    have in common; its own lengths, batch size, precision, stages and name are not looked at.
    """

    run: RunSettings
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
    name: str | None = setting(None, "Name of the sweep.", MOST_USED, unset="model and time")

    @classmethod
    def of(cls, model: str, values: Mapping[str, Any], given: Collection[str] = ()) -> Self:
        """Return the settings of values by the names of `SWEEP`; ``given`` are those that a user chose.

        Raises:
            UsageError: lengths of the phase that is not swept were given, which would be passed over in silence.

        """
        own, other = (CONTEXTS, LENGTHS) if values["phase"] == "decode" else (LENGTHS, CONTEXTS)
        if other.name in given and own.name not in given:
            raise UsageError(f"{other.option} says nothing of --phase {values['phase']}: give {own.option}")
        return cls(
            RunSettings.of(model, **{name: values[name] for name in COMMON}),
            lengths=values[own.name],
            batch_sizes=values["batch_sizes"],
            precisions=values["precisions"],
            name=values["name"],
        )

    def check(self) -> None:
        """Refuse what cannot be, before anything is loaded.

        Raises:
            UsageError: with what to do.

        """
        check_each(self)
        if self.run.phase not in {"prefill", "decode"}:
            raise UsageError(f"a sweep measures one phase, not {self.run.phase}: use --phase prefill or decode")
        if self.run.execution == BOTH:
            raise UsageError(f"a sweep measures one execution, not {BOTH}: use --execution eager or cuda-graph")
        for cell in self.cells():
            self.settings_of(cell, self.run.root).check()
        if self.name is not None:
            RunStore.check_free(self.name, self.run.root)

    def cells(self) -> list[SweepCell]:
        """Return all cells in order: a precision after the other, and the smallest first."""
        return [
            SweepCell(precision, batch, length, self.run.phase)
            for precision in self.precisions
            for batch, length in sorted(
                itertools.product(dict.fromkeys(self.batch_sizes), dict.fromkeys(self.lengths)),
                key=lambda shape: (shape[0] * shape[1], shape[0]),
            )
        ]

    def settings_of(self, cell: SweepCell, root: Path) -> RunSettings:
        """Return the settings of a cell's run."""
        decode = self.run.phase == "decode"
        return replace(
            self.run,
            name=cell.name,
            root=root,
            precision=cell.precision,
            batch_size=cell.batch_size,
            sequence_length=None if decode else cell.tokens,
            context_lengths=(cell.tokens,) if decode else (),
            component_budget_s=self.run.component_budget_s or BUDGET_S,
            stages=(METERED,),
        )


LENGTHS = settings_of(SweepSettings)["lengths"]
CONTEXTS = replace(
    LENGTHS,
    name="context_lengths",
    options=("--context-length",),
    default=(128, 512, 1024),
    help="With --phase decode: tokens in the KV cache, instead of a sequence.",
)
COMMON = (
    "phase", "granularity", "layers", "weights", "execution", "kv_cache", "device", "device_map", "gpu_id",
    "whole_gpu", "trust_remote_code", "adapter", "meter", "watts", "passes", "target_interval",
    "component_budget_s", "seed", "root",
)  # fmt: skip
SWEEP = (
    LENGTHS,
    CONTEXTS,
    *select_settings(SweepSettings, "batch_sizes", "precisions", "name"),
    *select_settings(
        RunSettings,
        *COMMON,
        phase={"default": "prefill", "help": "prefill: a forward pass; decode: a step on a filled cache."},
        layers={
            "default": "kinds",
            "help": "kinds: the mean of each kind of component; or mean, sample or all, as in `run`.",
        },
        execution={"help": f"{ONE_EXECUTION}."},
        passes={"default": 3},
        component_budget_s={"default": BUDGET_S},
    ),
)
