"""bitsandbytes checkpoints: transformers loads them, quantizes the plan's linears alone, and predicts the same."""

from __future__ import annotations

import json
import re

import pytest
import torch
from exported_plans import apart, logits, plan_of, wide_model
from tiny_models import save_model

import energyscope
from energyscope.errors import ModelError, UsageError
from energyscope.loading import load_model
from energyscope.loading.checkpoint_formats import EXPORT_FORMATS
from energyscope.loading.linears import is_linear
from energyscope.loading.random_weights import quantized_linear
from energyscope.planning.applying import precisions_of
from energyscope.planning.exporting import check_exportable, export_plan
from energyscope.planning.layers import alone

WHOLE_BLOCKS = {"intermediate_size": 192}  # of 64 inputs: bitsandbytes has a kernel that is wrong without


def loaded_back(folder):
    import transformers

    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="auto")


def quantized_paths(model):
    """Return the paths of the linears that bitsandbytes computes."""
    return {path for path, module in model.named_modules() if type(module).__module__.startswith("bitsandbytes")}


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("kind", ["nf4", "fp4"])
def test_a_checkpoint_predicts_what_was_verified(tmp_path, kind, precision, tied):
    """GIVEN some kinds of linears in 4 bits THEN what transformers loads has the plan's own outputs."""
    loaded = wide_model(tmp_path / "model", precision, tie_word_embeddings=tied, **WHOLE_BLOCKS)
    plan = plan_of(loaded, {"attention.qkv": kind, "mlp.down": kind})
    original = logits(loaded.model)
    folder = export_plan(loaded.model, plan, tmp_path / "exported", loaded.tokenizer)
    assert torch.equal(logits(loaded.model), original)  # it stays as it is
    changed = logits(loaded_back(folder))
    verified = logits(energyscope.apply_plan(loaded.model, plan))
    assert apart(changed, verified) < 1e-6  # the same weights in the same kernels
    assert apart(verified, original) > 0.05


def test_int8_is_that_of_bitsandbytes(tmp_path):
    """GIVEN INT8, which a plan on a CPU measures by PyTorch THEN bitsandbytes' layers, and the folder says so."""
    loaded = wide_model(tmp_path / "model", "fp32", **WHOLE_BLOCKS)
    plan = plan_of(loaded, {"attention.qkv": "int8", "mlp.down": "int8"})
    original = logits(loaded.model)
    folder = export_plan(loaded.model, plan, tmp_path / "exported")
    changed = logits(loaded_back(folder))
    assert "the plan measured PyTorch's dynamic INT8" in (folder / "README.md").read_text(encoding="utf-8")
    by_torch = {path: loaded.model.get_submodule(path) for path in precisions_of(loaded.model, plan)}
    for path, linear in by_torch.items():
        loaded.model.set_submodule(path, quantized_linear(alone(linear), "int8", torch.float32).eval())
    assert apart(changed, logits(loaded.model)) < 1e-6
    assert 0.002 < apart(changed, original) < 0.05
    for path, linear in by_torch.items():
        loaded.model.set_submodule(path, linear)
    assert apart(changed, logits(energyscope.apply_plan(loaded.model, plan))) < 0.05  # 8 bits, rounded otherwise


@pytest.mark.parametrize("kind", ["int8", "nf4"])
def test_a_conv1d_is_exported(tmp_path, kind):
    """GIVEN GPT-2, whose linears have transposed weights THEN they are loaded as the plan's layers have them."""
    loaded = load_model(str(save_model(tmp_path / "gpt2", "gpt2", n_embd=128)), device="cpu")
    plan = plan_of(loaded, {"attention.qkv": kind, "mlp.up": kind})
    folder = export_plan(loaded.model, plan, tmp_path / "exported")
    again = loaded_back(folder)
    assert quantized_paths(again) == set(precisions_of(loaded.model, plan))
    verified = logits(energyscope.apply_plan(loaded.model, plan))
    assert apart(logits(again), verified) < (1e-6 if kind == "nf4" else 0.03)


@pytest.mark.parametrize("layers", [{1}, {0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}])
def test_layer_1_is_not_layer_10(tmp_path, layers):
    """GIVEN 12 layers, layer 1 alone or all others THEN exactly their linears are quantized, not those of 10."""
    loaded = wide_model(tmp_path / "model", "fp32", num_hidden_layers=12, **WHOLE_BLOCKS)
    plan = plan_of(loaded, dict.fromkeys(("attention.qkv", "mlp.up", "mlp.down"), "nf4"), layers)
    chosen = set(precisions_of(loaded.model, plan))
    folder = export_plan(loaded.model, plan, tmp_path / "exported")
    again = loaded_back(folder)
    assert quantized_paths(again) == chosen
    assert apart(logits(again), logits(energyscope.apply_plan(loaded.model, plan))) < 1e-6


def test_each_pattern_is_one_linear(tmp_path):
    """GIVEN 12 layers THEN each pattern, however it is matched, is one name, and all are those that stay."""
    loaded = wide_model(tmp_path / "model", "fp32", num_hidden_layers=12)
    plan = plan_of(loaded, dict.fromkeys(("attention.qkv", "mlp.up"), "nf4"), {0, 10})
    linears = [path for path, module in loaded.model.named_modules() if is_linear(module)]
    folder = export_plan(loaded.model, plan, tmp_path / "exported")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))["quantization_config"]
    patterns = config["llm_int8_skip_modules"]
    matches = [[path for path in linears if re.match(pattern, path)] for pattern in patterns]
    assert sorted(matches) == sorted([path] for path in set(linears) - set(precisions_of(loaded.model, plan)))
    assert not [pattern for pattern in patterns for path in linears if path.endswith(pattern)]


def test_what_cannot_be_exported_is_said(tmp_path):
    """GIVEN two kinds at once, or a linear that transformers leaves as it is THEN one line says so."""
    loaded = wide_model(tmp_path / "model", "fp32")
    with pytest.raises(UsageError, match="holds one precision beside the model's own: use --plan-precisions"):
        export_plan(loaded.model, plan_of(loaded, {"mlp.up": "nf4", "mlp.down": "fp4"}), tmp_path / "a")
    assert not (tmp_path / "a").exists()
    loaded.model._keep_in_fp32_modules = {"down_proj"}
    with pytest.raises(ModelError, match=r"keeps model\.layers\.0\.mlp\.down_proj unquantized: .* --skip-modules"):
        check_exportable(loaded.model, ["model.layers.0.mlp.down_proj"], EXPORT_FORMATS["bitsandbytes"])
    check_exportable(loaded.model, ["model.layers.0.mlp.up_proj"], EXPORT_FORMATS["bitsandbytes"])
