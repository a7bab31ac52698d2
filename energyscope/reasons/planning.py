"""The words of reasons about plans."""

from __future__ import annotations

WORDS: dict[str, str] = {
    "plan-no-layer": "{precision} is a precision of whole models, and there is no layer for it",
    "plan-no-shorter": "{precision} is no shorter than the model's own {own}",
    "plan-int8-fp32": "INT8 on a CPU is for linears of fp32 models, and this one is {own}",
    "plan-parts-alone": "the whole model in {precision} could not be measured, and what is expected of it is the "
    "sum of what its groups take alone ({error})",
    "plan-not-exported": "no model was exported: the plan's verdict is {verdict}",
    "exported-compressed-tensors": "the model with its plan is in {folder}, for vLLM, which multiplies with its "
    "own kernels, and for transformers, which restores the weights; the plan measured other kernels, so measure "
    "the saving there",
    "exported-torchao": "the model with its plan is in {folder}, for transformers and torchao, whose kernels are "
    "made for torch.compile; the plan measured other kernels, so measure the saving there",
    "exported-bitsandbytes": "the model with its plan is in {folder}, for transformers and bitsandbytes, whose "
    "kernels are those that the plan measured",
    "exported-bitsandbytes-cpu": "the model with its plan is in {folder}, for transformers and bitsandbytes; on a "
    "CPU the plan measured PyTorch's dynamic INT8, which rounds otherwise, so measure saving and predictions "
    "there",
}

EXPORTED = tuple(code for code in WORDS if "exported" in code)  # where a plan was handed over, or why not
