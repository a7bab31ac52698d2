"""The words of reasons about publication figures: why one, or a panel of one, is not drawn."""

from __future__ import annotations

WORDS: dict[str, str] = {
    # why a figure is left out
    "cannot-be-drawn": "it cannot be drawn: {error}",
    "not-said": "no reason was noted",
    "stage-ended": "{stage} stage {state}: {why:reason}",
    "stage-left-nothing": "the {stage} stage left nothing to draw",
    "stage-not-run": "the {stage} stage did not run",
    "nothing-changed": "nothing that was changed can be compared with the run's own setting",
    "nothing-in-common": "the runs have nothing to compare",
    "one-context": "decode steps were measured at one context: --context-length takes several",
    "one-precision-judged": "fewer than two precisions have predictions",
    "one-shape": "the benchmark has one batch size and one length: `energyscope benchmark` takes several of each",
    "no-coefficients": "correlation.json has no matrix of coefficients",
    "no-decode-steps": "the run profiled no decode step",
    "no-impact-by-kind": "no impact of a kind is valid",
    "no-points": "no component has both a reliable energy and an impact",
    "no-power-trace": "no power over time was recorded in the generations",
    "no-step-energies": "no decode step of the traced generations has an energy",
    # why a panel is left out
    "equal-layers": "layers are equal within their errors: {low} to {high}",
    "first-shape-of": "shows {shape} tokens, the first of {shapes:count combination}: see benchmark_sweep",
    "layers-not-measured": "layers were not measured one by one",
    "not-in-run": "{run} has no value",
    "not-measured": "not measured",
    "without-panels": "without {panels:list 9}: {why:reason}",
}
