"""What the steps of a benchmark share: the models, their inputs, the meters, and where results go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from energyscope.benchmarking.memory import Memory
from energyscope.benchmarking.model_cache import ModelCache
from energyscope.metering.group import MeterGroup
from energyscope.progress import Progress
from energyscope.replay.calls import Call, no_garbage_collection
from energyscope.replay.capture import forward_inputs
from energyscope.replay.graph_inputs import without_full_mask
from energyscope.replay.graphs import GraphRound
from energyscope.settings.benchmark import BenchmarkSettings
from energyscope.tasks import in_precision_of
from energyscope.workloads import benchmark_inputs

if TYPE_CHECKING:
    from energyscope.loading import LoadedModel
    from energyscope.workloads import Evaluation, Workload


@dataclass(frozen=True)
class BenchmarkCell:
    """One precision at one batch size and length, with the memory that a pass of it takes."""

    precision: str
    batch_size: int
    sequence_length: int
    memory: Memory | None = None

    @property
    def labels(self) -> dict[str, Any]:
        """What identifies the cell in a reason."""
        return {"precision": self.precision, "batch_size": self.batch_size, "tokens": self.sequence_length}

    def __str__(self) -> str:
        return f"{self.precision} {self.batch_size} x {self.sequence_length}"


@dataclass
class BenchmarkContext:
    """``keep`` receives every finished entry; ``seed`` is that of synthetic tokens and of the order of trials.

    ``inputs`` are made once for each shape, so that all precisions are fed the same tensors.
    """

    settings: BenchmarkSettings
    loaded: LoadedModel
    evaluation: Evaluation | None
    meter: MeterGroup
    model_cache: ModelCache
    keep: Callable[[Mapping[str, Any]], None]
    progress: Progress
    seed: int
    inputs: dict[tuple[int, int], tuple[Workload, ...]] = field(default_factory=dict)

    @property
    def device(self) -> torch.device:
        return self.loaded.device

    def calls(self, model: Any, cell: BenchmarkCell) -> list[Call]:
        """Return a forward pass of the model on each of the inputs of a cell's shape.

        A mask that masks nothing is left out: models check on the host whether it does, which costs a copy from
        the device and a wait in every pass. In a CUDA graph, one input is replayed.

        Raises:
            NotCapturableError: the pass cannot be held in a CUDA graph.

        """
        shape = (cell.batch_size, cell.sequence_length)
        if shape not in self.inputs:
            self.inputs[shape] = benchmark_inputs(
                self.loaded,
                batch_size=cell.batch_size,
                sequence_length=cell.sequence_length,
                evaluation=self.evaluation,
                seed=self.seed,
            )
        passes: list[Call] = [
            partial(model, **forward_inputs(model, in_precision_of(model, without_full_mask(workload.inputs))))
            for workload in self.inputs[shape]
        ]
        if self.settings.execution == "eager":
            return passes
        with torch.no_grad(), no_garbage_collection():
            return [GraphRound(passes[:1], self.device, unrolled=False).launch]
