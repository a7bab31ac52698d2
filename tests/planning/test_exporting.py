"""An exported plan is loaded by transformers, and predicts what the verified layers do."""

from __future__ import annotations

import pytest
import torch
from exported_plans import apart, logits, plan_of, wide_model
from tiny_models import save_model

import energyscope
from energyscope.errors import ModelError, UsageError
from energyscope.loading import load_model
from energyscope.loading.torch_kernels import LAYERS
from energyscope.planning.applying import precisions_of
from energyscope.planning.exporting import export_plan

MIXED = {"attention.qkv": "fp8", "mlp.up": "int4", "mlp.down": "int4"}  # groups of 128, and of 32
INT8 = {"attention.qkv": "w8a8", "attention.output": "w8a8", "mlp.up": "w8a16", "mlp.down": "w8a16"}


@pytest.mark.parametrize(
    ("precisions", "precision", "tied", "most", "changes"),
    [
        (MIXED, "fp32", False, 1e-5, 0.02),
        (MIXED, "fp32", True, 1e-5, 0.02),
        (MIXED, "bf16", False, 0.04, 0.02),
        (dict.fromkeys(INT8, "w8a16"), "fp32", False, 1e-5, 0.002),
        (INT8, "fp32", False, 0.02, 0.005),  # the library scales inputs by 127.5
        (INT8, "bf16", False, 0.04, 0.005),
        (INT8, "fp16", False, 0.03, 0.005),
        (MIXED, "fp16", False, 0.03, 0.02),
    ],
)
def test_a_checkpoint_predicts_what_was_verified(tmp_path, precisions, precision, tied, most, changes):
    """GIVEN several precisions in one model THEN transformers loads it with the outputs of the plan."""
    import transformers

    loaded = wide_model(tmp_path / "model", precision, tie_word_embeddings=tied)
    plan = plan_of(loaded, precisions)
    original = logits(loaded.model)
    folder = export_plan(loaded.model, plan, tmp_path / "exported", loaded.tokenizer)
    assert torch.equal(logits(loaded.model), original)  # it stays as it is
    again = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    changed = logits(again)
    for path, chosen in precisions_of(loaded.model, plan).items():
        weight = loaded.model.get_submodule(path).weight
        restored = LAYERS[chosen].restored(weight.float(), weight.dtype).to(weight.dtype)
        assert apart(again.get_submodule(path).weight, restored) < 1e-6, path
    verified = logits(energyscope.apply_plan(loaded.model, plan))
    assert apart(changed, verified) < most
    assert apart(verified, original) > changes
    assert (folder / "tokenizer_config.json").is_file()
    own = sum(path.stat().st_size for path in (tmp_path / "model").glob("*.safetensors"))
    assert (folder / "model.safetensors").stat().st_size < 0.6 * own


def test_what_cannot_be_exported_is_said(tmp_path):
    """GIVEN precisions of two formats, no change, Conv1D or a full folder THEN one line, and no file."""
    loaded = wide_model(tmp_path / "model", "fp32")
    with pytest.raises(UsageError, match="fp8, nf4 cannot be exported: compressed-tensors holds"):
        export_plan(loaded.model, plan_of(loaded, {"mlp.up": "nf4", "mlp.down": "fp8"}), tmp_path / "a")
    with pytest.raises(UsageError, match="changes nothing"):
        export_plan(loaded.model, plan_of(loaded, {}), tmp_path / "a")
    gpt2 = load_model(str(save_model(tmp_path / "gpt2", "gpt2", n_embd=32)), device="cpu")
    with pytest.raises(ModelError, match="is a Conv1D, and compressed-tensors has Linear only"):
        export_plan(gpt2.model, plan_of(gpt2, {"mlp.up": "int4"}), tmp_path / "a")
    assert not (tmp_path / "a").exists()
    with pytest.raises(UsageError, match="holds files"):
        export_plan(loaded.model, plan_of(loaded, MIXED), tmp_path / "model")
