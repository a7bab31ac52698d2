"""On a real NVIDIA GPU: impact in half precision, from kept layer starts, and with bitsandbytes' own kernels."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from energyscope.components import component_tree  # noqa: E402
from energyscope.impact.reuse import LayerStarts  # noqa: E402
from energyscope.loading import load_model  # noqa: E402
from energyscope.stages.ablate import ablate  # noqa: E402
from energyscope.workloads import load_evaluation  # noqa: E402

pytestmark = pytest.mark.gpu


def kl_by_component(rows, method):
    return {row.component: row.value for row in rows if (row.method, row.metric) == (method, "kl") and row.valid}


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_passes_that_begin_at_a_layer_give_the_same_bits(precision):
    """GIVEN any precision, THEN a pass from any layer's kept input gives the full pass's logits bit for bit."""
    loaded = load_model("tiny-llama", device="cuda", precision=precision)
    tree = component_tree(loaded.model, loaded.adapter, "medium")
    batch = load_evaluation(loaded, max_examples=16).batches[0]
    starts = LayerStarts(tree, [1], 1 << 30)
    with torch.no_grad():
        with starts.recording(0):
            whole = loaded.model(**batch, use_cache=False).logits
        for layer in range(len(starts.layers) + 1):
            with starts.beginning(0, layer):
                assert torch.equal(loaded.model(**batch, use_cache=False).logits, whole)


def test_real_kernels_and_simulations_agree_on_the_gpu():
    """bitsandbytes' INT8 and NF4 and their simulations have impacts of one size, and the model comes back."""
    pytest.importorskip("bitsandbytes")
    loaded = load_model("tiny-gpt2", device="cuda", precision="fp16")
    tree = component_tree(loaded.model, loaded.adapter, "medium")
    result = ablate(
        loaded.model,
        tree,
        load_evaluation(loaded, max_examples=64),
        methods=("nf4", "bnb-nf4", "int8-wa", "bnb-int8"),
    )
    for simulated, real in (("nf4", "bnb-nf4"), ("int8-wa", "bnb-int8")):
        ours, theirs = kl_by_component(result.rows, simulated), kl_by_component(result.rows, real)
        both = sorted(set(ours) & set(theirs))
        assert len(both) >= 8, {row.component: row.reasons for row in result.rows if row.method == real}
        ratios = sorted(theirs[name] / ours[name] for name in both)
        assert 0.3 < ratios[len(ratios) // 2] < 3, ratios
