"""energyscope: where a transformer's joules go, which of them its predictions need, and what to change.

The names below are the public API; they are loaded when they are first used, so that importing the package
imports neither torch nor transformers.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from energyscope.blocks import PowerLog, compute_energy, run_inference, warm_up
    from energyscope.commands import benchmark, figures, laws, plan, predict, sweep
    from energyscope.comparison.compare import compare
    from energyscope.comparison.pooling import pool
    from energyscope.exporting import export
    from energyscope.loading import load_model
    from energyscope.planning.applying import apply_plan
    from energyscope.planning.exporting import export_plan
    from energyscope.runs.store import load_run
    from energyscope.stages.in_memory import profile
    from energyscope.stages.run import resume, run
    from energyscope.stages.serving import measure_server
    from energyscope.workloads import load_evaluation, profile_inputs

_HOMES = {
    "PowerLog": "energyscope.blocks",
    "apply_plan": "energyscope.planning.applying",
    "benchmark": "energyscope.commands",
    "compare": "energyscope.comparison.compare",
    "compute_energy": "energyscope.blocks",
    "export": "energyscope.exporting",
    "export_plan": "energyscope.planning.exporting",
    "figures": "energyscope.commands",
    "laws": "energyscope.commands",
    "load_evaluation": "energyscope.workloads",
    "load_model": "energyscope.loading",
    "load_run": "energyscope.runs.store",
    "measure_server": "energyscope.stages.serving",
    "plan": "energyscope.commands",
    "pool": "energyscope.comparison.pooling",
    "predict": "energyscope.commands",
    "profile": "energyscope.stages.in_memory",
    "profile_inputs": "energyscope.workloads",
    "resume": "energyscope.stages.run",
    "run": "energyscope.stages.run",
    "run_inference": "energyscope.blocks",
    "sweep": "energyscope.commands",
    "warm_up": "energyscope.blocks",
}

__all__ = [
    "PowerLog",
    "apply_plan",
    "benchmark",
    "compare",
    "compute_energy",
    "export",
    "export_plan",
    "figures",
    "laws",
    "load_evaluation",
    "load_model",
    "load_run",
    "measure_server",
    "plan",
    "pool",
    "predict",
    "profile",
    "profile_inputs",
    "resume",
    "run",
    "run_inference",
    "sweep",
    "warm_up",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'energyscope' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
