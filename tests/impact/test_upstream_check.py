from __future__ import annotations

import tiny_models
import torch
from energyscope_adapters import gpt2
from torch import Tensor, nn

from energyscope.components import ComponentTree, component_tree
from energyscope.impact.upstream_check import UpstreamCheck

IDS = torch.tensor([[5, 6, 7, 8]])


def witness_of() -> tuple[nn.Module, ComponentTree, UpstreamCheck]:
    torch.manual_seed(0)
    model = tiny_models.model_class("gpt2")(tiny_models.config("gpt2")).eval()
    tree = component_tree(model, gpt2.adapter, "fine")
    witness = UpstreamCheck(tree)
    for _ in range(2):
        with torch.no_grad(), witness.recording_unchanged():
            model(IDS, use_cache=False)
    return model, tree, witness


def altered_before(model: nn.Module, witness: UpstreamCheck, target: str, altered: nn.Module | None) -> list[str]:
    """Run the model with one module's output shifted, as if it were the target's change."""
    names: list[str] = []

    def shift(_module: nn.Module, _args: object, output: Tensor) -> Tensor:
        return output + 1

    handle = altered.register_forward_hook(shift, prepend=True) if altered is not None else None
    with torch.no_grad(), witness.watching({target}, {0}, names):
        model(IDS, use_cache=False)
    if handle is not None:
        handle.remove()
    return names


def test_what_comes_before_the_target_must_stay_the_same() -> None:
    """GIVEN a norm that was altered THEN a change of the MLP after it is found out; else nothing is."""
    model, _, witness = witness_of()
    norm = model.get_submodule("transformer.h.0.ln_2")
    assert altered_before(model, witness, "transformer.h.0.mlp", norm) == ["transformer.h.0.ln_2"]
    assert altered_before(model, witness, "transformer.h.0.mlp", None) == []


def test_what_comes_after_or_lies_inside_may_change() -> None:
    """GIVEN the target itself, a part of it, or one after it altered THEN nothing is found."""
    model, _, witness = witness_of()
    for name in ("transformer.h.0.mlp", "transformer.h.0.mlp.c_fc", "transformer.h.0.mlp.c_proj"):
        assert altered_before(model, witness, "transformer.h.0.mlp", model.get_submodule(name)) == []
    assert altered_before(model, witness, "transformer.h.0.attn", model.get_submodule("transformer.h.0.mlp")) == []


def test_the_attention_core_has_its_place() -> None:
    """GIVEN the projection before the attention core altered THEN a change of the core is found out."""
    model, _, witness = witness_of()
    projection = model.get_submodule("transformer.h.0.attn.c_attn")
    assert altered_before(model, witness, "transformer.h.0.attn.core", projection) == [
        "transformer.h.0.attn.c_attn"
    ]


def test_components_of_several_calls_are_no_witnesses() -> None:
    """GIVEN a norm that is called twice THEN it bears no witness: a pass from a layer may leave out one call."""
    torch.manual_seed(0)
    model = tiny_models.model_class("gpt2")(tiny_models.config("gpt2")).eval()
    model.transformer.h[0].ln_2 = model.transformer.h[0].ln_1
    witness = UpstreamCheck(component_tree(model, gpt2.adapter, "medium"))
    for _ in range(2):
        with torch.no_grad(), witness.recording_unchanged():
            model(IDS, use_cache=False)
    names = altered_before(model, witness, "transformer.h.0.mlp", model.transformer.h[0].ln_1)
    assert names == ["transformer.h.0.attn"]  # which was altered by it
