"""What run.json says of a quantized model: what it really has, not what was asked for."""

from __future__ import annotations

import pytest

from energyscope.loading import load_model
from energyscope.stages.facts import model_facts


def facts_of(**options):
    return model_facts(load_model("tiny-llama", device="cpu", **options))["quantization"]


def test_a_model_that_is_not_quantized_has_none():
    """GIVEN fp32, THEN the block is None."""
    assert facts_of() is None


def test_the_default_compute_dtype_is_the_one_used():
    """GIVEN nf4 on a CPU without --compute-dtype, THEN the block says float32, and that the head is left."""
    pytest.importorskip("bitsandbytes")
    assert facts_of(precision="nf4") == {
        "method": "nf4", "double_quant": False, "compute_dtype": "float32", "skipped": ["lm_head"],
    }  # fmt: skip


def test_options_are_seen_in_the_layers():
    """GIVEN double quantization, bf16 and a module to skip, THEN the block has all three."""
    pytest.importorskip("bitsandbytes")
    found = facts_of(precision="nf4", double_quant=True, compute_dtype="bf16", skip_modules=("model.layers.0",))
    assert (found["double_quant"], found["compute_dtype"]) == (True, "bfloat16")
    assert "model.layers.0.mlp.up_proj" in found["skipped"]
    assert "model.layers.1.mlp.up_proj" not in found["skipped"]


def test_int8_has_neither_scales_to_quantize_nor_one_dtype():
    """GIVEN int8, THEN what does not apply is None."""
    pytest.importorskip("bitsandbytes")
    found = facts_of(precision="int8")
    assert (found["method"], found["double_quant"], found["compute_dtype"]) == ("int8", None, None)
