"""Synthetic measurements of a server: what `energyscope serving` would leave, from a simulated one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from simulated_server import SimulatedServer

from energyscope.runs.store import RunStore
from energyscope.serving.design import Limits, loads_of, paced
from energyscope.serving.document import Measured
from energyscope.serving.requests import Served
from energyscope.serving.run import ServingRun, load_serving
from energyscope.settings.serving import ServingSettings
from energyscope.stages.serving import write

LIMITS = Limits(context=4096, tokens_per_word=1.0, overhead_tokens=0.0)
URL = "http://localhost:8000"


def measured(server: SimulatedServer, settings: ServingSettings) -> list[Measured]:
    """Let a server meet all loads, and return what would be kept of each."""
    served: list[Served] = []
    for load in loads_of(settings, LIMITS):
        served.append(server.serve(paced(load, served)))
    ticks = server.ticks()
    return [Measured(load, (ticks.between(load.begin_s - 3, load.end_s + 0.4),)) for load in served]


def build_served(
    path: Path, server: SimulatedServer | None = None, words: str | None = None, **options: Any
) -> ServingRun:
    """Write the run of a server into a directory; ``words`` stand for every text that comes from outside."""
    settings = ServingSettings.of(URL, **{"price": 0.3, "carbon": 400, **options})
    store = RunStore.create(path.name, path.parent)
    model = words or "llama-3.2-1b"
    endpoint = {"url": URL, "model": model, "api": "completions", "owner": words or "an-engine"}
    store.update(
        name=words or path.name,
        created="2026-11-28T12:00:00Z",
        energyscope="0.1.0",
        command=words or f"energyscope serving {URL}",
        settings={**settings.document(), "stages": ["serving", "report"]},
        model={"name": model},
        device={"name": words or "NVIDIA H200", "measured": ["GPU-aaaa"]},
        sensor={"meter": "nvml", "modelled": False},
        stages={"serving": {"state": "done"}, "report": {"state": "done"}},
        warnings=[words] if words else [],
        serving={"endpoint": endpoint, "gpus": ["GPU-aaaa"], "notes": [], "client_cpu_s": 12.0},
    )
    write(store, measured(server or SimulatedServer(), settings), settings)
    return load_serving(store.path)
