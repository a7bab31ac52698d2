"""Impact in families whose components return several things, or hold fused weights or states.

Each change is compared with a copy of the model in which weights were set so that they do the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

from energyscope.adapters import Adapter, Part
from energyscope.components import component_tree
from energyscope.impact.outputs import Effect
from energyscope.impact.quantizing.quantized import rounded
from energyscope.impact.removal import MeanGatherer, Removal, removal, zero
from energyscope.runs.schema import ImpactRow
from energyscope.stages.ablate import ablate
from energyscope.workloads import Evaluation

WORDS = 40
SIZES = {
    "vocab_size": WORDS, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "initializer_range": 0.3, "num_experts_per_tok": 2, "intermediate_size": 48,
}  # fmt: skip
EXPERTS = {"num_local_experts": 4}
MAMBA = {"vocab_size": WORDS, "hidden_size": 32, "num_hidden_layers": 2, "initializer_range": 0.3}
T5 = {"vocab_size": WORDS, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
BART = {
    "vocab_size": WORDS, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "init_std": 0.3,
}  # fmt: skip
CONFIGS: Mapping[str, Mapping[str, Any]] = {
    "mixtral": SIZES | EXPERTS,
    "qwen2_moe": SIZES | {"num_experts": 4, "moe_intermediate_size": 24, "shared_expert_intermediate_size": 24},
    "qwen3_moe": SIZES | {"num_experts": 4, "moe_intermediate_size": 24},
    "gpt_oss": SIZES | EXPERTS | {"head_dim": 8},
    "mamba": MAMBA | {"state_size": 4},
    "mamba2": MAMBA | {"state_size": 8, "num_heads": 8, "head_dim": 8, "n_groups": 2, "chunk_size": 4},
    "t5": T5,
    "bart": BART,
}
ROUTERS = {"mixtral": "gate", "qwen2_moe": "gate", "qwen3_moe": "gate", "gpt_oss": "router"}
BLOCK = "model.layers.{layer}.mlp"


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def model_of(family: str) -> nn.Module:
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(family, **CONFIGS[family])
    seq2seq = config.is_encoder_decoder
    auto = transformers.AutoModelForSeq2SeqLM if seq2seq else transformers.AutoModelForCausalLM
    model: nn.Module = auto.from_config(config).eval()
    for place, parameter in enumerate(model.parameters()):  # T5 begins with tiny weights, others with zeros
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.3, generator=torch.Generator().manual_seed(place))
    return model


def adapter(parts: Mapping[str, str]) -> Adapter:
    """Return an adapter of parts, each a kind by its path."""
    declared = tuple(Part(kind, path, "medium") for path, kind in parts.items())
    return Adapter("made", ("made",), "next-token", "model.layers", declared)


def data(*lengths: int) -> Evaluation:
    generator = torch.Generator().manual_seed(3)
    ids = [torch.randint(1, WORDS, (4, length), generator=generator) for length in lengths]
    batches = tuple({"input_ids": tokens, "attention_mask": torch.ones_like(tokens)} for tokens in ids)
    return Evaluation("made", "next-token", batches, None, 4 * len(lengths))


def impact(family: str, parts: Mapping[str, str], *methods: str) -> dict[tuple[str, str], ImpactRow]:
    """Return the KL rows of some parts by component and method."""
    model = model_of(family)
    rows = ablate(model, component_tree(model, adapter(parts), "medium"), data(7, 9), methods=methods).rows
    return {(row.component, row.method): row for row in rows if row.metric == "kl"}


def divergence(family: str, change: Callable[[Any], None]) -> float:
    """Return the mean KL divergence of the examples to a model whose weights are changed."""
    original, changed = model_of(family), model_of(family)
    change(changed)
    total = 0.0
    for batch in data(7, 9).batches:
        with torch.no_grad():
            p, q = (
                model(**batch, use_cache=False).logits[:, :-1].double().log_softmax(-1)
                for model in (original, changed)
            )
        total += float((p.exp() * (p - q)).sum(-1).mean(1).sum())
    return total / 8


def zeroed(*parameters: Any) -> None:
    for parameter in parameters:
        if parameter is not None:
            nn.init.zeros_(parameter)


@pytest.mark.parametrize("family", ROUTERS)
def test_a_routers_removal_reaches_the_predictions(family: str) -> None:
    """GIVEN a block that ignores its router's logits, THEN zero, mean and resample change the predictions.

    Without its weights, a router scores by its bias alone, and that is what it does with zeros too.
    """
    router = f"{BLOCK}.{ROUTERS[family]}"
    rows = impact(family, {"model.layers.{layer}": "layer", router: "router"}, "zero", "mean", "resample", "int4")
    name = router.replace("{layer}", "1")
    for method in ("zero", "mean", "resample", "int4"):
        assert rows[name, method].valid, rows[name, method]
        assert (rows[name, method].value or 0) > 1e-4

    def silence(model: Any) -> None:
        zeroed(getattr(model.model.layers[1].mlp, ROUTERS[family]).weight)

    assert rows[name, "zero"].value == pytest.approx(divergence(family, silence), rel=1e-4)


def test_a_routers_removal_is_not_predicted() -> None:
    """GIVEN a router THEN its removal is not predicted, with the reason, and its quantization is."""
    model, parts = model_of("mixtral"), {"model.layers.{layer}": "layer", f"{BLOCK}.gate": "router"}
    tree = component_tree(model, adapter(parts), "medium")
    rows = ablate(model, tree, data(7, 9), methods=("int8",), predictors=True).rows
    predicted = {row.metric: row for row in rows if row.component == "model.layers.0.mlp.gate"}
    assert predicted["taylor_removal"].reasons == "removed-by-input"
    assert predicted["taylor_int8"].valid


@pytest.mark.parametrize("method", ["zero", "mean"])
def test_a_removed_router_sends_all_tokens_to_the_same_experts(method: str) -> None:
    """GIVEN any tokens THEN a router without choice has the same k experts and weights for all of them."""
    router: Any = model_of("mixtral").get_submodule("model.layers.0.mlp.gate")
    states = torch.randn(6, 32, generator=torch.Generator().manual_seed(0))
    mask, gatherer = torch.ones(2, 3).bool(), MeanGatherer({"gate": router}, by_input=["gate"])
    with torch.no_grad(), gatherer.listening(mask):
        _, _, chosen = router(states)
    change = removal(router, method, gatherer.means["gate"], by_input=True)
    assert isinstance(change, Removal)
    with torch.no_grad(), change.applied(mask, Effect()):
        logits, scores, experts = router(states)
    assert len(chosen.unique(dim=0)) > 1
    assert len(experts.unique(dim=0)) == 1
    torch.testing.assert_close(scores.sum(1), torch.ones(6))
    mean = states.mean(0) if method == "mean" else torch.zeros(32)
    torch.testing.assert_close(logits, (router.weight @ mean).expand(6, -1))
    assert method == "mean" or torch.equal(scores, torch.full((6, 2), 0.5))


@pytest.mark.parametrize("family", ROUTERS)
def test_fused_experts_are_removed_and_quantized(family: str) -> None:
    """GIVEN experts in 3-D weights, THEN rows are those of a zeroed last projection and of rounded weights."""
    parts = {"model.layers.{layer}": "layer", BLOCK: "mlp", f"{BLOCK}.experts": "experts"}
    rows = impact(family, parts, "zero", "int8")

    def silence(model: Any) -> None:
        experts = model.model.layers[0].mlp.experts
        zeroed(experts.down_proj, getattr(experts, "down_proj_bias", None))

    def quantize(model: Any) -> None:
        experts = model.model.layers[0].mlp.experts
        for name in ("gate_up_proj", "down_proj"):
            getattr(experts, name).data = rounded(experts, getattr(experts, name).detach(), "int8")

    name = "model.layers.0.mlp.experts"
    assert rows[name, "zero"].value == pytest.approx(divergence(family, silence), rel=1e-4)
    assert rows[name, "int8"].value == pytest.approx(divergence(family, quantize), rel=1e-4)
    if family != "qwen2_moe":  # it has a shared expert beside them
        assert rows["model.layers.0.mlp", "zero"].value == rows[name, "zero"].value


@pytest.mark.parametrize("family", ["mamba", "mamba2"])
def test_mixers_with_a_recurrent_state(family: str) -> None:
    """GIVEN a state-space mixer THEN its removal is that of its last projection, and layers are skipped."""
    parts = {"backbone.layers.{layer}": "layer", "backbone.layers.{layer}.mixer": "other"}
    rows = impact(family, parts, "zero", "mean", "skip", "int8")

    def silence(model: Any) -> None:
        zeroed(model.backbone.layers[0].mixer.out_proj.weight)

    assert rows["backbone.layers.0.mixer", "zero"].value == pytest.approx(divergence(family, silence), rel=1e-4)
    assert rows["backbone.layers.0", "skip"].value == pytest.approx(divergence(family, silence), rel=1e-4)
    assert all(row.valid and (row.value or 0) > 0 for row in rows.values())


def test_attention_weights_have_no_mean_and_their_row_says_so() -> None:
    """GIVEN attention that also returns weights of each batch's length, THEN its mean is valid, with a note."""
    rows = impact(
        "gpt_oss", {"model.layers.{layer}": "layer", "model.layers.{layer}.self_attn": "attention"}, "mean"
    )
    row = rows["model.layers.0.self_attn", "mean"]
    assert row.valid
    assert "some-without-mean" in row.reasons


def logits(model: nn.Module) -> Tensor:
    """Return the logits of a translation."""
    ids = torch.randint(1, WORDS, (2, 9), generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        result: Tensor = model(input_ids=ids, decoder_input_ids=ids[:, :6], use_cache=False).logits
    return result


def logits_without(model: nn.Module, component: str) -> Tensor:
    effect = Effect()
    with Removal(model.get_submodule(component), zero).applied(torch.ones(2, 9).bool(), effect):
        result = logits(model)
    assert effect.why_invalid() is None
    return result


@pytest.mark.parametrize(
    ("family", "attention", "last"),
    [
        ("t5", "decoder.block.1.layer.1.EncDecAttention", "o"),
        ("bart", "model.decoder.layers.1.encoder_attn", "out_proj"),
    ],
)
def test_cross_attention_is_removed(family: str, attention: str, last: str) -> None:
    """GIVEN cross attention, which returns a tuple, THEN its removal is that of its last projection."""
    model, silent = model_of(family), model_of(family)
    zeroed(*silent.get_submodule(f"{attention}.{last}").parameters())
    torch.testing.assert_close(logits_without(model, attention), logits(silent))
    assert not torch.allclose(logits(model), logits(silent))


def test_what_later_layers_read_is_removed_with_the_attention_that_computes_it() -> None:
    """GIVEN T5, whose first attention returns the position bias of all layers, THEN zeroing it zeroes both."""
    silent, first = model_of("t5"), "encoder.block.0.layer.0.SelfAttention"
    zeroed(silent.get_submodule(f"{first}.o").weight)
    without_output = logits(silent)
    zeroed(silent.get_submodule(f"{first}.relative_attention_bias").weight)
    torch.testing.assert_close(logits_without(model_of("t5"), first), logits(silent))
    assert not torch.allclose(without_output, logits(silent))
