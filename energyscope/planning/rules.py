"""What people choose without a plan, and random mixtures: a plan is compared with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from energyscope.planning.choice import Choice, ChoiceProblem
from energyscope.planning.groups import LinearGroup
from energyscope.planning.layers import BITS

SENSITIVITY_ONLY, MLP_RULE = "sensitivity only", "MLP to 8 bits"
MIXTURES = 3
_EIGHT_BITS = ("int8", "fp8")


def everywhere(precision: str) -> str:
    """Return the name of the choice of one precision wherever it is possible."""
    return f"all {precision}"


def rules(
    problem: ChoiceProblem, precisions: Sequence[str], groups: Sequence[LinearGroup]
) -> Iterator[tuple[str, Choice]]:
    """Yield each precision everywhere, the MLP in 8 bits, and random mixtures, with their names."""
    for option, precision in enumerate(precisions[1:], start=1):
        choice = problem.possible(option)
        if choice.any():
            yield everywhere(precision), choice
    is_mlp = np.array([group.kind.startswith("mlp") for group in groups])
    eights = [precisions.index(name) for name in _EIGHT_BITS if name in precisions]
    mlp_choices = (np.where(is_mlp, problem.possible(eight), 0) for eight in eights)
    rule = next((choice for choice in mlp_choices if choice.any()), None)
    if rule is not None:
        yield MLP_RULE, rule
    drawn = np.random.default_rng(problem.seed)
    possible = [np.flatnonzero(~np.isnan(row)) for row in problem.costs]
    for number in range(MIXTURES):
        yield f"random {number + 1}", np.array([drawn.choice(row) for row in possible], dtype=np.intp)


def in_bits(problem: ChoiceProblem, precisions: Sequence[str], groups: Sequence[LinearGroup]) -> ChoiceProblem:
    """Return the problem as planners without a meter have it: every bit of a weight costs the same."""
    bits = np.array([BITS[name] for name in precisions])
    sizes = np.array([group.parameters for group in groups])
    return replace(problem, costs=np.where(np.isnan(problem.costs), np.nan, sizes[:, None] * bits))
