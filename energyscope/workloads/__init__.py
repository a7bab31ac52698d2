"""Workloads: what a model is fed, tokenized and on its device before anything is measured."""

from __future__ import annotations

from energyscope.workloads.evaluation import Evaluation
from energyscope.workloads.inputs import (
    Workload,
    load_evaluation,
    position_limit,
    profile_inputs,
)

__all__ = ["Evaluation", "Workload", "load_evaluation", "position_limit", "profile_inputs"]
