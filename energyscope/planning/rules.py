"""What people choose without a plan, and random mixtures: a plan is compared with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from energyscope.planning.choice import Choice, ChoiceProblem
from energyscope.planning.groups import LinearGroup
from energyscope.planning.layers import BITS

SENSITIVITY_ONLY, MLP_RULE = "sensitivity only", "MLP to 8 bits"
QUADRANT, AS_MANY = "high energy, low impact", "as many at random"  # to 8 bits, too
MIXTURES = 3


def everywhere(precision: str) -> str:
    """Return the name of the choice of one precision wherever it is possible."""
    return f"all {precision}"


def rules(
    problem: ChoiceProblem,
    precisions: Sequence[str],
    groups: Sequence[LinearGroup],
    priced: npt.NDArray[np.bool_],
    eight_bits: str | None,
) -> Iterator[tuple[str, Choice]]:
    """Yield each precision everywhere, in one of 8 bits the MLP and the quadrant of high energy and low impact,
    and random choices, with their names.

    A precision is everywhere where it is ``priced`` (groups, precisions); the others choose as the plan may.
    """
    for option, precision in enumerate(precisions[1:], start=1):
        choice = np.where(priced[:, option], option, 0)
        if choice.any():
            yield everywhere(precision), choice
    drawn = np.random.default_rng(problem.seed)
    eight = problem.own if eight_bits is None else problem.possible(precisions.index(eight_bits))
    is_mlp = np.array([group.kind.startswith("mlp") for group in groups])
    among = quadrant(problem, eight)
    as_many = np.isin(np.arange(len(groups)), drawn.choice(np.flatnonzero(eight), among.sum(), replace=False))
    for name, members in ((MLP_RULE, is_mlp), (QUADRANT, among), (AS_MANY, as_many)):
        choice = np.where(members, eight, 0)
        if choice.any():
            yield name, choice
    possible = [np.flatnonzero(~np.isnan(row)) for row in problem.costs]
    for number in range(MIXTURES):
        yield f"random {number + 1}", np.array([drawn.choice(row) for row in possible], dtype=np.intp)


def quadrant(problem: ChoiceProblem, exchanged: Choice) -> npt.NDArray[np.bool_]:
    """Tell which of the groups that are ``exchanged`` cost more than the median now and do less harm than it.

    That such components should be quantized is what studies of energy and impact by component conclude.
    """
    places = np.arange(len(exchanged))
    costs, harms = problem.costs[:, 0], problem.means[places, exchanged]
    among = exchanged > 0
    if not among.any():
        return among
    chosen: npt.NDArray[np.bool_] = among & (costs >= np.median(costs[among])) & (harms <= np.median(harms[among]))
    return chosen


def in_bits(problem: ChoiceProblem, precisions: Sequence[str], groups: Sequence[LinearGroup]) -> ChoiceProblem:
    """Return the problem as planners without a meter have it: every bit of a weight costs the same."""
    bits = np.array([BITS[name] for name in precisions])
    sizes = np.array([group.parameters for group in groups])
    return replace(problem, costs=np.where(np.isnan(problem.costs), np.nan, sizes[:, None] * bits))
