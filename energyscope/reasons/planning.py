"""The words of reasons about plans."""

from __future__ import annotations

WORDS: dict[str, str] = {
    "plan-no-layer": "{precision} is a precision of whole models, and there is no layer for it",
    "plan-no-shorter": "{precision} is no shorter than the model's own {own}",
    "plan-int8-fp32": "INT8 on a CPU is for linears of fp32 models, and this one is {own}",
    "plan-not-exported": "no model was exported: the plan's verdict is {verdict}",
}
