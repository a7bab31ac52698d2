"""How long the stages of a run are expected to take, told once before they begin: the plan of its loaded model.

The same arithmetic as the dry run's (`energyscope.stages.preview`), and at most as many windows taken again as may
be; long calls and pauses come on top. Only what a plan can know is in it: how long a change of the model takes, or
a trial with its warm-up, nothing has shown before the stage began.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from energyscope.components import component_tree
from energyscope.diagnostics.sensor import IDLE_WATCH_S
from energyscope.errors import EnergyscopeError
from energyscope.replay.targets import targets
from energyscope.stages.context import Context
from energyscope.stages.preview import ALTERNATIVES_S, GENERATE_S, TYPICAL_WINDOW_S, skipped_stages
from energyscope.stages.sampling_budget import first_windows, most_retaken, seconds_range
from energyscope.stages.scenes import Scene, has_cache, profile_settings, scenes


class TimeEstimate(NamedTuple):
    """How long (s) a moment of a stage takes where components are sure at once, and where all need more windows.

    ``steps_most`` are its steps in the second case (0: as many as it tells of).
    """

    least_s: float
    most_s: float
    steps_most: int = 0


def estimated_times(context: Context) -> dict[str, list[TimeEstimate]]:
    """Return how long each stage will take, moment by moment; none of one that will be skipped.

    A stage of which nothing is known is left out.
    """
    modelled = context.meters["profile"].modelled
    found: dict[str, list[TimeEstimate]] = {
        "generate": [TimeEstimate(GENERATE_S[modelled], GENERATE_S[modelled])],
        "alternatives": [TimeEstimate(0.0, ALTERNATIVES_S[modelled])],
    }
    if context.settings.sampling == "replay" and "profile" in context.settings.stages:
        with suppress(EnergyscopeError):  # the profile itself says why it cannot be done, in its turn
            found["profile"] = _profile(context, modelled=modelled)
    return {**found, **{stage: [] for stage in _skipped(context)}}


def _skipped(context: Context) -> set[str]:
    """Return the stages that will not run."""
    settings, loaded = context.settings, context.loaded
    skipped = set(skipped_stages(settings, loaded, context.workload))
    skipped |= {"benchmark"} if len(loaded.devices) > 1 else set()
    skipped |= {"generate", "alternatives"} if loaded.offloaded else set()
    skipped |= {"ablate"} if context.evaluation is None else set()
    return skipped | ({"correlate"} if skipped & {"profile", "ablate"} else set())


def _profile(context: Context, *, modelled: bool) -> list[TimeEstimate]:
    """Return how long each scene's passes take, and before them the watch of the idle sensors.

    It raises what the profile would raise.
    """
    planned = scenes(context.settings, context.loaded)
    moments = [_passes(one, planned, context, modelled=modelled) for one in planned]
    known = modelled or context.sensor is not None
    return moments if known else after_watch(moments, len(context.meters["profile"].meters))


def after_watch(moments: Sequence[TimeEstimate], sensors: int) -> list[TimeEstimate]:
    """Return the moments with the watch of so many idle sensors before the first of them."""
    first, *later = moments
    watch_s = IDLE_WATCH_S * sensors
    return [first._replace(least_s=first.least_s + watch_s, most_s=first.most_s + watch_s), *later]


def _passes(scene: Scene, planned: list[Scene], context: Context, *, modelled: bool) -> TimeEstimate:
    settings, loaded = context.settings, context.loaded
    cached = has_cache(scene, settings, loaded.adapter)
    tree = component_tree(loaded.model, loaded.adapter, settings.granularity, kv_cache=cached)
    plan = targets(tree, settings.granularity, scene.layers)
    sampling_budget = profile_settings(settings, planned, scene, warm=context.sensor is not None).sampling_budget
    window_s = TYPICAL_WINDOW_S[loaded.device.type]
    least_s, most_s = seconds_range(plan, sampling_budget, window_s, modelled=modelled)
    limit = sampling_budget.limit(window_s, modelled=modelled)
    windows = first_windows(plan, sampling_budget) if sampling_budget.brief else limit * len(plan) + 1
    again = most_retaken(windows, modelled=modelled)
    return TimeEstimate(least_s, most_s * (windows + again) / windows, windows + again)
