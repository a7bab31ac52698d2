"""Workloads: what a model is fed, tokenized and on its device before anything is measured.

`load_evaluation` gives the data that predictions are judged on, `profile_inputs` and `benchmark_inputs` what is
timed. `save_prepared` keeps tokenized data in a folder that `load_evaluation` reads again.
"""

from __future__ import annotations

from energyscope.workloads.evaluation import Evaluation
from energyscope.workloads.inputs import load_evaluation
from energyscope.workloads.limits import position_limit
from energyscope.workloads.prepared import save_prepared
from energyscope.workloads.timed import Workload, benchmark_inputs, profile_inputs

__all__ = [
    "Evaluation",
    "Workload",
    "benchmark_inputs",
    "load_evaluation",
    "position_limit",
    "profile_inputs",
    "save_prepared",
]
