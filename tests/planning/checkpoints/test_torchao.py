"""torchao checkpoints: transformers loads them with the values that were verified, and predicts the same."""

from __future__ import annotations

import json

import pytest
import torch
from exported_plans import apart, logits, plan_of, wide_model
from tiny_models import save_model

import energyscope
from energyscope.errors import ModelError, UsageError
from energyscope.loading import load_model
from energyscope.loading.checkpoint_formats import EXPORT_FORMATS
from energyscope.loading.torch_kernels import LAYERS
from energyscope.planning import exporting
from energyscope.planning.applying import precisions_of
from energyscope.planning.exporting import check_exportable, export_plan
from energyscope.reasons import reason

MIXED = {"attention.qkv": "fp8", "mlp.up": "w8a16", "mlp.down": "w8a8"}


def loaded_back(folder):
    import transformers

    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="auto")


def torchao_paths(model):
    """Return the paths of the linears whose weights are torchao's."""
    linears = [(path, module) for path, module in model.named_modules() if isinstance(module, torch.nn.Linear)]
    return {path for path, linear in linears if type(linear.weight).__module__.startswith("torchao")}


@pytest.mark.parametrize(
    ("precisions", "precision", "tied", "most", "changes"),
    [
        ({"attention.qkv": "fp8", "mlp.up": "w8a16"}, "fp32", False, 1e-5, 0.03),
        ({"attention.qkv": "fp8", "mlp.up": "w8a16"}, "fp32", True, 1e-5, 0.02),
        ({"attention.qkv": "fp8", "mlp.up": "w8a16"}, "bf16", False, 0.02, 0.03),
        ({"mlp.up": "w8a16"}, "fp32", False, 1e-5, 0.001),
        (MIXED, "fp32", False, 0.02, 0.03),  # w8a8: torchao scales inputs by 127.5
        (MIXED, "bf16", False, 0.03, 0.03),
        (MIXED, "fp16", False, 0.03, 0.03),
    ],
)
def test_a_checkpoint_predicts_what_was_verified(tmp_path, precisions, precision, tied, most, changes):
    """GIVEN several precisions THEN transformers loads the verified values, and the outputs of the plan."""
    loaded = wide_model(tmp_path / "model", precision, tie_word_embeddings=tied)
    plan = plan_of(loaded, precisions)
    original = logits(loaded.model)
    folder = export_plan(loaded.model, plan, tmp_path / "exported", loaded.tokenizer, format="torchao")
    assert torch.equal(logits(loaded.model), original)  # it stays as it is
    again = loaded_back(folder)
    changed, chosen = logits(again), precisions_of(loaded.model, plan)
    assert torchao_paths(again) == set(chosen)
    for path, kind in chosen.items():
        weight = loaded.model.get_submodule(path).weight
        restored = LAYERS[kind].restored(weight.float(), weight.dtype)
        assert apart(again.get_submodule(path).weight.dequantize(torch.float32), restored) < 1e-6, path
    verified = logits(energyscope.apply_plan(loaded.model, plan))
    assert apart(changed, verified) < most
    assert apart(verified, original) > changes


@pytest.mark.parametrize("layers", [{1}, {0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}])
def test_layer_1_is_not_layer_10(tmp_path, layers):
    """GIVEN 12 layers, layer 1 alone or all others THEN exactly their linears are quantized, not those of 10."""
    loaded = wide_model(tmp_path / "model", "fp32", num_hidden_layers=12)
    plan = plan_of(loaded, {"attention.qkv": "fp8", "mlp.up": "w8a16"}, layers)
    folder = export_plan(loaded.model, plan, tmp_path / "exported", format="torchao")
    again, chosen = loaded_back(folder), set(precisions_of(loaded.model, plan))
    assert torchao_paths(again) == chosen
    assert apart(logits(again), logits(energyscope.apply_plan(loaded.model, plan))) < 1e-5
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))["quantization_config"]
    assert set(config["quant_type"]["default"]["_data"]["fqn_to_config"]) == chosen


def test_the_folder_says_that_other_kernels_were_measured(tmp_path):
    """GIVEN torchao's kernels, which no plan measures THEN the README says so."""
    loaded = wide_model(tmp_path / "model", "fp32")
    folder = export_plan(loaded.model, plan_of(loaded, {"mlp.up": "w8a16"}), tmp_path / "a", format="torchao")
    assert "the plan measured other kernels" in (folder / "README.md").read_text(encoding="utf-8")


def test_what_cannot_be_exported_is_said(tmp_path, monkeypatch):
    """GIVEN INT4, Conv1D or no torchao THEN one line, and nothing is written."""
    loaded = wide_model(tmp_path / "model", "fp32")
    with pytest.raises(UsageError, match="int4 cannot be exported: torchao holds fp8, w8a8, w8a16"):
        export_plan(loaded.model, plan_of(loaded, {"mlp.up": "int4"}), tmp_path / "a", format="torchao")
    gpt2 = load_model(str(save_model(tmp_path / "gpt2", "gpt2", n_embd=32)), device="cpu")
    with pytest.raises(ModelError, match="is a Conv1D, and torchao has Linear only"):
        export_plan(gpt2.model, plan_of(gpt2, {"mlp.up": "fp8"}), tmp_path / "a", format="torchao")
    monkeypatch.setattr(exporting, "missing", lambda *_: reason("package-missing", package="torchao", install="x"))
    with pytest.raises(ModelError, match="no model can be exported for torchao"):
        check_exportable(loaded.model, [], EXPORT_FORMATS["torchao"])
    assert not (tmp_path / "a").exists()
