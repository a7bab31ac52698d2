"""The words of reasons about plans."""

from __future__ import annotations

WORDS: dict[str, str] = {
    "plan-no-layer": "{precision} is a precision of whole models, and there is no layer for it",
    "plan-no-shorter": "{precision} is no shorter than the model's own {own}",
    "plan-int8-fp32": "INT8 on a CPU is for linears of fp32 models, and this one is {own}",
    "plan-parts-alone": "the whole model in {precision} could not be measured, and what is expected of it is the "
    "sum of what its groups take alone ({error})",
    "plan-not-exported": "no model was exported: the plan's verdict is {verdict}",
}
