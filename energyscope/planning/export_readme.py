"""The README of an exported model: how it is loaded, and what was verified."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from energyscope.format import measured, number
from energyscope.intervals import from_entry, less
from energyscope.loading.checkpoint_formats import ExportFormat
from energyscope.planning.record import OBJECTIVES

_PHASES = {
    "prefill": "prefill of {batch_size} x {tokens} tokens",
    "decode": "decode steps at batch {batch_size}, with {tokens} tokens in the KV cache",
}
_VERDICTS = {
    "saves": "it saves",
    "keep": "it was not shown to save anything",
    "over budget": "its budget does not hold",
    "not measured": "its saving was not measured",
}


def text(
    document: Mapping[str, Any], plan: Mapping[str, Any], chosen: Mapping[str, str], form: ExportFormat,
    kernels: str, model_class: str, *, has_tokenizer: bool,
) -> str:  # fmt: skip
    """Return the README of a model that was exported with the ``plan`` of one workload in a plan's ``document``.

    ``chosen`` are the precisions of linears by path; ``kernels`` is the sentence on those that it runs on.
    """
    return "\n".join(
        [
            f"# {document['model']} with its plan\n",
            f"{kernels[0].upper()}{kernels[1:]}.\n",
            f"## Loading\n\nIn this folder, after `pip install {form.packages}`:\n",
            *_snippet(model_class, has_tokenizer=has_tokenizer),
            "## Precisions\n",
            *_precisions(document["precisions"][0], plan, chosen),
            "## What was verified\n",
            *_verified(document, plan),
        ]
    )


def _snippet(model_class: str, *, has_tokenizer: bool) -> Iterator[str]:
    names = ["AutoTokenizer", model_class] if has_tokenizer else [model_class]
    yield f"```python\nfrom transformers import {', '.join(names)}"
    if has_tokenizer:
        yield 'tokenizer = AutoTokenizer.from_pretrained(".")'
    yield f'model = {model_class}.from_pretrained(".", dtype="auto", device_map="auto")\n```\n'


def _precisions(own: str, plan: Mapping[str, Any], chosen: Mapping[str, str]) -> Iterator[str]:
    kept = sum(group["precision"] == own for group in plan["groups"] for _ in group["paths"])
    counts = [*Counter(chosen.values()).most_common(), (own, kept)]
    yield "| precision | linears of the plan |\n|---|---|"
    yield "\n".join(f"| {precision} | {count} |" for precision, count in counts if count) + "\n"


def _verified(document: Mapping[str, Any], plan: Mapping[str, Any]) -> Iterator[str]:
    choice = next(each for each in plan["choices"] if each["name"] == plan["adopted"])
    workload = _PHASES[plan["phase"]].format(**plan)
    kinds = f"{document['weights']} weights, {document['execution']}"
    modelled = ", on modelled joules (MODELLED)" if document["modelled"] else ""
    yield f"- Workload: {workload}, {kinds}{modelled}."
    yield f"- Budget: {document['budget']['text']}. {_held_out(document['budget'], choice['held_out'])}"
    yield f"- Verdict: {_VERDICTS[plan['verdict']]}."
    if document.get("command"):
        yield f"- Command: `{document['command']}`"
    yield "\n| saved | predicted | measured |\n|---|---|---|"
    for quantity in OBJECTIVES:
        ratios = (from_entry(choice[when].get(quantity)) for when in ("predicted", "measured"))
        predicted, applied = (measured(less(ratio), "share") for ratio in ratios)
        yield f"| {quantity} | {predicted} | {applied} |"
    yield "\nOf the whole model, with 95 % intervals; predicted before the plan was applied.\n"


def _held_out(budget: Mapping[str, Any], held_out: Mapping[str, Any] | None) -> str:
    if held_out is None or held_out["value"] is None:
        return "It was not judged on data that the plan was not made on."
    before, after = number(held_out["baseline"], 4), number(held_out["value"], 4)
    holds = "holds" if held_out["holds"] else "does not hold"
    return f"On data that the plan was not made on it {holds}: {budget['metric']} {before} before, {after} after."
