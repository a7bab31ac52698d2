"""What the benchmark measures: components of models with random weights, as rounds of calls."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from energyscope.components import Component, ComponentTree, component_tree
from energyscope.errors import UsageError
from energyscope.loading import LoadedModel, load_model
from energyscope.replay.capture import capture
from energyscope.replay.replay_setup import ReplaySetup
from energyscope.replay.replayer import EXECUTIONS
from energyscope.replay.rotation import l2_bytes
from energyscope.replay.targets import Target

GRAPH_S = 1e-3  # a graph of this length hides the gap between two launches
GRAPH_CALLS = 4096  # in one graph at most
TRIAL_LAUNCHES = 5

Call = Callable[[], object]


@dataclass(frozen=True)
class Spec:
    """A component to measure: ``model:tokens:kind:execution``, such as ``llama-3.2-1b:128:mlp:cuda-graph``."""

    model: str
    tokens: int
    kind: str
    execution: str

    @classmethod
    def parse(cls, text: str) -> Spec:
        """Read ``model:tokens:kind[:execution]``; the execution is cuda-graph where none is given."""
        parts = text.split(":")
        if len(parts) not in (3, 4) or not parts[1].isdigit():
            raise UsageError(f"a component is written model:tokens:kind[:execution], not {text!r}")
        execution = parts[3] if len(parts) == 4 else "cuda-graph"
        if execution not in EXECUTIONS:
            raise UsageError(f"{text!r} names no execution: use one of {', '.join(EXECUTIONS)}")
        return cls(parts[0], int(parts[1]), parts[2], execution)

    def __str__(self) -> str:
        return f"{self.model}:{self.tokens}:{self.kind}:{self.execution}"


class Bench:
    """Loads each model once and sets components up; the last model used is kept."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._loaded: LoadedModel | None = None

    @contextmanager
    def round(self, spec: Spec) -> Iterator[list[Call]]:
        """Yield a component's round of calls: a kind's mean over the layers, or the one module of its kind."""
        loaded = self._model(spec.model)
        tree = component_tree(loaded.model, loaded.adapter, "medium")
        replay_setup = ReplaySetup(tree, capture(tree, _inputs(loaded, spec.tokens)), l2_bytes(self.device))
        with replay_setup.round(_target(tree, spec)) as calls:
            yield list(calls)

    def _model(self, name: str) -> LoadedModel:
        if self._loaded is None or self._loaded.name != name:
            self._loaded = None  # the former goes before the next one comes
            precision = "bf16" if self.device.type == "cuda" else "fp32"
            self._loaded = load_model(name, precision=precision, device=str(self.device), weights="random")
        return self._loaded


def _inputs(loaded: LoadedModel, tokens: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    vocabulary = loaded.model.config.get_text_config().vocab_size
    ids = torch.randint(vocabulary, (1, tokens), generator=generator).to(loaded.device)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def _target(tree: ComponentTree, spec: Spec) -> Target:
    of_kind = [component for component in tree if component.kind == spec.kind]
    if not of_kind:
        known = sorted({component.kind for component in tree})
        raise UsageError(f"{spec.model} has no component of kind {spec.kind!r}: use one of {', '.join(known)}")
    first = of_kind[0]
    if first.layer is None:
        return Target(f"node:{first.name}", "node", (first.name,))
    members = tuple(component.name for component in _alike(first, of_kind))
    return Target(f"group:{first.group}", "group", members)


def _alike(first: Component, others: Sequence[Component]) -> list[Component]:
    return [component for component in others if component.group == first.group]


class FixedLoad:
    """Runs a given number of calls, as the fixed-count methods want them: eager, or as CUDA graphs."""

    def __init__(self, round_: Sequence[Call], device: torch.device, execution: str) -> None:
        self.round = round_
        self.device = device
        self.graphs = execution == "cuda-graph"
        self._known: dict[int, torch.cuda.CUDAGraph] = {}
        self._calls_per_graph = self._enough_calls() if self.graphs else 0

    @torch.inference_mode()
    def run(self, count: int) -> int:
        """Run ``count`` calls and wait for them; return how many they were."""
        if self.graphs:
            for calls, launches in self._launches(count):
                graph = self._graph(calls)
                for _ in range(launches):
                    graph.replay()
        else:
            for call in itertools.islice(itertools.cycle(self.round), count):
                call()
        self.synchronize()
        return count

    def _launches(self, count: int) -> list[tuple[int, int]]:
        """Return the graphs that make up a number of calls: the size of each, and how often it is launched."""
        whole, rest = divmod(count, self._calls_per_graph)
        return [(calls, times) for calls, times in ((self._calls_per_graph, whole), (rest, 1)) if calls and times]

    def warm(self, seconds: float) -> None:
        """Run for some seconds: a board that comes from idling is at other clocks and temperatures."""
        self.run(max(1, round(seconds / self.prepare(1000))))

    def prepare(self, count: int) -> float:
        """Build and warm what ``run(count)`` needs; return the seconds of one call."""
        warm = min(count, 200)
        self.run(warm)
        for calls, _ in self._launches(count) if self.graphs else ():
            self._graph(calls)
        begin = time.monotonic()
        done = self.run(warm)
        return (time.monotonic() - begin) / done

    def synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def _enough_calls(self) -> int:
        """Return how many calls make a graph of at least ``GRAPH_S``, whole rounds."""
        length = len(self.round)
        graph = self._graph(length)
        graph.replay()
        self.synchronize()
        begin = time.monotonic()
        for _ in range(TRIAL_LAUNCHES):
            graph.replay()
        self.synchronize()
        seconds = (time.monotonic() - begin) / TRIAL_LAUNCHES
        return length * max(1, min(GRAPH_CALLS // length, math.ceil(GRAPH_S / seconds)))

    def _graph(self, calls: int) -> torch.cuda.CUDAGraph:
        if calls not in self._known:
            self._known[calls] = self._captured(calls)
        return self._known[calls]

    @torch.inference_mode()
    def _captured(self, calls: int) -> torch.cuda.CUDAGraph:
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):  # libraries must have their workspaces before a capture
            for call in self.round:
                call()
        self.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            for call in itertools.islice(itertools.cycle(self.round), calls):
                call()
        return graph
