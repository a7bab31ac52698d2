"""The README of an exported model: its snippet loads the model, and its figures are the plan's."""

from __future__ import annotations

import re

import pytest
from exported_plans import apart, logits, plan_of, wide_model
from plan_builder import plan_entries

import energyscope
from energyscope.loading.checkpoint_formats import EXPORT_FORMATS
from energyscope.planning.document import document
from energyscope.planning.export_readme import text
from energyscope.planning.exporting import export_plan
from energyscope.planning.record import PlanRecord


@pytest.mark.parametrize(
    ("kind", "form"), [("w8a16", "compressed-tensors"), ("w8a16", "torchao"), ("nf4", "bitsandbytes")]
)
def test_the_snippet_loads_the_model(tmp_path, monkeypatch, kind, form):
    """GIVEN the three lines of the README, run in its folder THEN the model has the plan's outputs."""
    loaded = wide_model(tmp_path / "model", "fp32", intermediate_size=192)
    plan = plan_of(loaded, {"mlp.up": kind})
    folder = export_plan(loaded.model, plan, tmp_path / "exported", loaded.tokenizer, format=form)
    readme = (folder / "README.md").read_text(encoding="utf-8")
    (snippet,) = re.findall(r"```python\n(.*?)\n```", readme, re.DOTALL)
    assert len(snippet.splitlines()) == 3
    monkeypatch.chdir(folder)
    names: dict[str, object] = {}
    exec(snippet, names)  # noqa: S102 - what a reader does
    assert apart(logits(names["model"]), logits(energyscope.apply_plan(loaded.model, plan))) < 1e-5
    assert names["tokenizer"]("the cat")["input_ids"]
    assert f"pip install {EXPORT_FORMATS[form].packages}" in readme


def readme(entries, **changes):
    """Return the README of a made-up plan, whose MLP's first linears are in FP8."""
    built = {**document(PlanRecord(entries)), **changes}
    plan = built["workloads"][0]
    chosen = {f"layers.{layer}.up": "fp8" for layer in range(3)}
    return text(built, plan, chosen, EXPORT_FORMATS["torchao"], "other kernels", "Llama", has_tokenizer=False)


def test_it_says_what_was_verified():
    """GIVEN a plan that saves 18 % THEN workload, budget, verdict, command, and savings with intervals."""
    words = readme(plan_entries(), command="energyscope plan made-up")
    assert "# made-up with its plan\n\nOther kernels.\n" in words
    assert "prefill of 1 x 128 tokens, pretrained weights, cuda-graph." in words
    assert "Budget: perplexity +0.5%. On data that the plan was not made on it holds: perplexity 8.100" in words
    assert "- Verdict: it saves.\n- Command: `energyscope plan made-up`" in words
    assert re.search(r"\| energy \| 18\.\d* % ± \S+ \| 18\.\d* % ± \S+ \|", words)
    assert "| fp8 | 3 |\n| bf16 | 3 |" in words
    assert "MODELLED" not in words
    assert "AutoTokenizer" not in words


def test_it_says_what_is_wrong_with_a_plan():
    """GIVEN a plan that breaks its budget, on modelled joules THEN the README says both, and names no command."""
    words = readme(plan_entries(held_out=9e-3), modelled=True)
    assert "it does not hold: perplexity 8.100 before" in words
    assert "- Verdict: its budget does not hold." in words
    assert "on modelled joules (MODELLED)" in words
    assert "Command" not in words
