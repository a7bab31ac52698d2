"""The words of reasons about comparing runs: why a difference has no verdict, and what to know beside it."""

from __future__ import annotations

WORDS: dict[str, str] = {
    # why a difference has no verdict of less or more
    "difference-includes-zero": "the interval of the difference includes 0",
    "as-idle-power": "it differs no more than the change of idle power explains",
    "eager-total": "eager totals are not comparable: idle energy is idle power x the host's time, "
    "which differs by host and minute",
    "interval-unknown": "no interval is known for it",
    "in-neither-run": "neither run has it",
    "no-energy-per-flop": "executed FLOPs not recorded",
    "in-one-run": "only one of the runs has it",
    "other-conditions": "other {names:list}",
    "too-noisy": "too noisy in {whose:list}",
    "too-few-to-pool": "fewer than two runs have a valid value",
    "interval-unknown-in": "no interval in {whose:list}",
    "not-measured-in": "not measured in {whose:list}",
    # what to know of what is compared
    "both-modelled": "both are MODELLED: a difference of joules is one of time",
    "loads-alone": "in {run} alone, and not compared: {loads:list}",
    "moments-alone": "in {run} alone, and not compared: {moments:list}",
    "older-method-in": "measured by an older method in {whose:list}: {changes:reason}",
    "same-execution": "both in {execution}",
}
