"""FLOPs and bytes against formulas computed by hand, on tiny models of every kind."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import families
import pytest
import tiny_models
import torch
from families import FAMILIES, tree_of
from torch import Tensor, nn

from energyscope.adapters import Adapter, Part
from energyscope.components import ComponentTree, component_tree
from energyscope.reasons import reason
from energyscope.replay.flops import Work, causal_scores, count_work, distinct_bytes, formulas

BATCH, LENGTH, HIDDEN, INNER, HEADS, WORDS = 2, 12, 16, 32, 2, tiny_models.VOCABULARY
TOKENS = BATCH * LENGTH
LAYERS = "layers.{layer}"


def linear(inner: int, outer: int, tokens: int = TOKENS) -> int:
    return 2 * tokens * inner * outer


CORE = 4 * BATCH * LENGTH * LENGTH * HIDDEN  # two products, all heads together


inputs = partial(families.inputs, batch=BATCH)


@pytest.fixture(scope="module")
def llama() -> dict[str, Work]:
    return count_work(tree_of("llama"), inputs())


def test_a_linear_counts_two_for_each_multiply_add(llama: dict[str, Work]) -> None:
    """A linear of N outputs and K inputs on M rows has 2 M N K floating-point operations."""
    layer = "model.layers.0"
    assert llama[f"{layer}.mlp.up_proj"].flops == linear(HIDDEN, INNER)
    assert llama[f"{layer}.mlp.down_proj"].flops == linear(INNER, HIDDEN)
    assert llama[f"{layer}.self_attn.k_proj"].flops == linear(HIDDEN, HIDDEN // HEADS)
    assert llama["lm_head"].flops == linear(HIDDEN, WORDS)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_attention_core_counts_both_products_in_full(family: str) -> None:
    """The core has 4 B H L L D operations, also where it is causal or where heads share their keys."""
    tree = tree_of(family)
    work = count_work(tree, inputs())
    cores = [component.name for component in tree if component.kind == "attention.core"]
    assert [work[name].flops for name in cores] == [CORE, CORE]


def test_an_eager_attention_counts_the_same() -> None:
    """GIVEN an attention that multiplies by itself THEN its operations are the same, and its core is unknown."""
    eager = count_work(tree_of("gpt2", attn_implementation="eager"), inputs())
    fused = count_work(tree_of("gpt2"), inputs())
    assert eager["transformer.h.0.attn"].flops == fused["transformer.h.0.attn"].flops
    assert eager["transformer.h.0.attn.core"] == Work(None, None, reason("not-called"))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_causal_core_executes_the_scores_that_its_mask_leaves(family: str) -> None:
    """GIVEN a fused kernel THEN a decoder's core executes L (L + 1) / 2 of L L scores, an encoder's all."""
    tree = tree_of(family)
    work = count_work(tree, inputs())
    core = CORE if family == "distilbert" else CORE * (LENGTH + 1) / 2 / LENGTH
    cores = [component.name for component in tree if component.kind == "attention.core"]
    assert [work[name].executed_flops for name in cores] == [core, core]
    whole = work["model"]
    assert whole.executed_flops == (whole.flops or 0) - 2 * (CORE - core)
    assert all(item.executed_flops is not None for item in work.values())


def test_an_eager_attention_executes_all_that_is_counted() -> None:
    """GIVEN an attention that multiplies by itself, or PyTorch's math backend, THEN no score is skipped."""
    eager = count_work(tree_of("gpt2", attn_implementation="eager"), inputs())["model"]
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        math = count_work(tree_of("gpt2"), inputs())["model"]
    assert eager.executed_flops == eager.flops == math.executed_flops == math.flops


def test_a_mask_given_as_a_tensor_skips_nothing() -> None:
    """GIVEN padding THEN the mask is a tensor, and the kernel computes all scores."""
    work = count_work(tree_of("llama"), inputs(padded=3))["model"]
    assert work.executed_flops == work.flops


@pytest.mark.parametrize(
    ("queries", "keys", "lower_right", "expected"),
    [
        (1, 1, False, 1),
        (5, 5, False, 15),
        (5, 5, True, 15),
        (1, 9, True, 9),  # a decode step sees its whole cache
        (3, 5, True, 3 + 4 + 5),
        (3, 5, False, 1 + 2 + 3),
        (5, 3, False, 1 + 2 + 3 + 3 + 3),
        (5, 3, True, 0 + 0 + 1 + 2 + 3),
    ],
)
def test_scores_that_a_causal_mask_leaves(queries: int, keys: int, expected: int, *, lower_right: bool) -> None:
    """They are those of the triangle, which PyTorch aligns with either corner of queries x keys."""
    mask = torch.ones(queries, keys).tril(keys - queries if lower_right else 0)
    assert causal_scores(queries, keys, lower_right=lower_right) == expected == int(mask.sum())


def test_a_causal_kernel_that_nobody_knows_leaves_executed_flops_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a kernel that may or may not skip THEN nominal FLOPs are known, executed ones None with its name."""
    monkeypatch.setattr("energyscope.replay.flops._SKIPPING", frozenset[str]())
    work = count_work(tree_of("llama"), inputs())
    core = work["model.layers.0.self_attn"]
    assert core.flops is not None
    assert core.executed_flops is None
    assert core.reason is not None
    assert core.reason.code == "causal-kernel-unknown"
    assert work["lm_head"].executed_flops == work["lm_head"].flops


@pytest.mark.parametrize("family", FAMILIES)
def test_leaves_add_up_to_the_model(family: str) -> None:
    """GIVEN the finest tree THEN its leaves' operations are all of the model's, and each parent's are its own."""
    tree = tree_of(family)
    work = count_work(tree, inputs())
    assert sum(work[leaf.name].flops or 0 for leaf in tree.leaves()) == work["model"].flops
    for component in tree:
        if children := tree.children(component.name):
            assert sum(work[child.name].flops or 0 for child in children) == work[component.name].flops


def test_a_whole_model_by_hand() -> None:
    """GPT-2: per layer a fused projection, the core, an output projection and two of four times the width."""
    work = count_work(tree_of("gpt2"), inputs())
    mlp = linear(HIDDEN, 4 * HIDDEN) + linear(4 * HIDDEN, HIDDEN)
    layer = linear(HIDDEN, 3 * HIDDEN) + CORE + linear(HIDDEN, HIDDEN) + mlp
    assert work["transformer.h.1"].flops == layer
    assert work["model"].flops == 2 * layer + linear(HIDDEN, WORDS)


def test_elementwise_components_have_no_matrix_work(llama: dict[str, Work]) -> None:
    """A norm or an activation multiplies no matrices: 0 is their true count, and nothing is unknown."""
    for name in ("model.norm", "model.layers.0.mlp.act_fn", "model.embed_tokens"):
        assert (llama[name].flops, llama[name].reason) == (0.0, None)


@pytest.mark.parametrize(("dtype", "size"), [(torch.float32, 4), (torch.bfloat16, 2)])
def test_a_linear_moves_input_weight_and_output_once(dtype: torch.dtype, size: int) -> None:
    """A linear's bytes are those of its input, weight, bias and output in the stored data type."""
    tree = tree_of("gpt2")
    tree.root.module.to(dtype)
    work = count_work(tree, inputs())
    weights = HIDDEN * 4 * HIDDEN + 4 * HIDDEN
    moved = TOKENS * HIDDEN + weights + TOKENS * 4 * HIDDEN
    assert work["transformer.h.0.mlp.c_fc"].bytes == size * moved


def test_a_parent_does_not_count_what_passes_between_its_children(llama: dict[str, Work]) -> None:
    """An MLP as a unit reads its input and three weights and writes its output; inner vectors do not count."""
    moved = 2 * TOKENS * HIDDEN + 3 * HIDDEN * INNER
    assert llama["model.layers.0.mlp"].bytes == 4 * moved


def test_a_core_moves_queries_keys_values_and_output(llama: dict[str, Work]) -> None:
    """GIVEN two heads that share their keys THEN keys and values count once, not once a head."""
    assert llama["model.layers.0.self_attn.core"].bytes == 4 * TOKENS * (2 * HIDDEN + 2 * HIDDEN // HEADS)


def test_an_embedding_reads_the_rows_that_are_looked_up() -> None:
    """GIVEN three distinct ids among six THEN three rows are read, six written."""
    tree = tree_of("llama")
    work = count_work(tree, {"input_ids": torch.tensor([[1, 2, 3, 3, 2, 1]])})
    assert work["model.embed_tokens"].bytes == 6 * 8 + (3 + 6) * HIDDEN * 4


def test_a_tied_weight_moves_once_in_the_model() -> None:
    """GIVEN a head that shares the embedding's weight THEN the model reads it once, in whole."""
    ids = {"input_ids": torch.tensor([[1, 2]])}
    tied = count_work(tree_of("llama", tie_word_embeddings=True), ids)
    apart = count_work(tree_of("llama", tie_word_embeddings=False), ids)
    rows = 2 * HIDDEN * 4
    assert apart["model"].bytes == (tied["model"].bytes or 0) + rows
    assert apart["lm_head"].bytes == tied["lm_head"].bytes


def test_a_buffer_that_no_operation_reads_does_not_count() -> None:
    """GIVEN a mask kept for another way of computing THEN it moves no bytes; one that is used does."""

    class Masked(nn.Module):
        def __init__(self, *, use: bool) -> None:
            super().__init__()
            self.use = use
            self.register_buffer("mask", torch.ones(64))

        def forward(self, x: Tensor) -> Tensor:
            return x + self.mask if self.use else x + 1

    def moved(*, use: bool) -> float | None:
        return count_work(chain(Masked(use=use)), {"x": torch.ones(3, 64)})["layers.0"].bytes

    assert moved(use=False) == 2 * 3 * 64 * 4
    assert moved(use=True) == 2 * 3 * 64 * 4 + 64 * 4


def test_repeated_elements_count_once() -> None:
    """GIVEN an expanded tensor, twice THEN its stored elements count once; an empty one counts nothing."""
    row = torch.ones(1, 5)
    tensors = [row.expand(100, 5), row, torch.ones(0, 7)]
    assert sum(distinct_bytes(tensors).values()) == 5 * 4


class Chain(nn.Module):
    """Layers that are called one after another."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def chain(*layers: nn.Module) -> ComponentTree:
    adapter = Adapter("chain", ("chain",), "next-token", "layers", (Part("layer", LAYERS, "coarse"),))
    return component_tree(Chain(*layers), adapter, "coarse")


def test_several_calls_add_up() -> None:
    """GIVEN one module called twice THEN its work is that of both calls, while the model reads its weight once."""
    layer = nn.Linear(8, 8, bias=False)
    work = count_work(chain(layer, layer), {"x": torch.ones(3, 8)})
    assert work["layers.0"].flops == work["model"].flops == 2 * linear(8, 8, 3)
    assert work["layers.0"].bytes == 2 * 4 * (24 + 64 + 24)
    assert work["model"].bytes == 4 * (24 + 64 + 24)


def test_an_unknown_operation_makes_the_count_unknown() -> None:
    """GIVEN an operation of another library THEN its components have no count, with its name as the reason."""

    @torch.library.custom_op("energyscope_test::product", mutates_args=())
    def product(x: Tensor) -> Tensor:
        return x @ x.T

    class Foreign(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return product(x)  # type: ignore[no-any-return]

    work = count_work(chain(nn.Linear(8, 8), Foreign()), {"x": torch.ones(8, 8)})
    assert work["layers.0"].flops == linear(8, 8, 8)
    for name in ("layers.1", "model"):
        assert work[name].flops is None
        assert work[name].reason.values["operation"].startswith("energyscope_test::product")
        assert work[name].bytes is not None


@pytest.mark.parametrize(
    ("name", "shapes", "expected"),
    [
        ("_scaled_dot_product_flash_attention_for_cpu", [(2, 4, 5, 8), (2, 4, 7, 8), (2, 4, 7, 8)], 4 * 2240),
        ("_scaled_dot_product_flash_attention", [(1, 4, 5, 8), (1, 2, 5, 8), (1, 2, 5, 8)], 4 * 800),
        ("_scaled_dot_product_efficient_attention", [(1, 1, 2, 3), (1, 1, 4, 3), (1, 1, 4, 5)], 2 * 8 * (3 + 5)),
        ("_scaled_dot_product_cudnn_attention", [(1, 1, 2, 3), (1, 1, 4, 3), (1, 1, 4, 3)], 4 * 24),
        ("_grouped_mm", [(10, 3), (4, 3, 5)], 2 * 10 * 3 * 5),
        ("_grouped_mm", [(3, 10), (10, 5)], 2 * 10 * 3 * 5),
        ("_grouped_mm", [(4, 2, 3), (3, 10)], 2 * 2 * 3 * 10),
        ("_grouped_mm", [(4, 2, 3), (4, 3, 5)], 4 * 2 * 2 * 3 * 5),
        ("_int_mm", [(10, 3), (3, 5)], 2 * 10 * 3 * 5),
    ],
)
def test_formulas_of_fused_operations(name: str, shapes: list[Any], expected: int) -> None:
    """Each fused operation, on any device, counts the products that it computes, heads and groups as used."""
    formula: Callable[..., int] = formulas()[getattr(torch.ops.aten, name)]
    assert formula(*shapes, out_shape=None) == expected


@pytest.mark.parametrize("implementation", ["eager", "grouped_mm", "batched_mm"])
def test_fused_experts_count_the_chosen_ones(implementation: str) -> None:
    """GIVEN two of four experts for each token THEN two are counted each, and only used experts' weights move."""
    import transformers

    shape = {"hidden_size": HIDDEN, "intermediate_size": INNER, "num_hidden_layers": 1, "vocab_size": WORDS}
    routing = {"num_local_experts": 4, "num_experts_per_tok": 2}
    torch.manual_seed(0)
    config = transformers.MixtralConfig(**shape, **routing, num_attention_heads=2, num_key_value_heads=1)
    model = transformers.MixtralForCausalLM(config).eval()
    model.set_experts_implementation(implementation)
    mlp = f"model.{LAYERS}.mlp"
    parts = (
        Part("layer", f"model.{LAYERS}", "coarse"),
        Part("router", f"{mlp}.gate", "fine"),
        Part("experts", f"{mlp}.experts", "fine"),
    )
    tree = component_tree(model, Adapter("moe", ("mixtral",), "next-token", "model.layers", parts), "fine")
    work = count_work(tree, {"input_ids": torch.tensor([[5]])})  # one token: two experts of four
    each = 2 * HIDDEN * INNER + INNER * HIDDEN
    experts = work["model.layers.0.mlp.experts"]
    assert experts.flops == 2 * 2 * each
    routed = 2 * 8 + 2 * 4  # indices and weights of the two
    assert experts.bytes == 4 * (2 * each + 2 * HIDDEN) + routed
    assert work["model.layers.0.mlp.gate"].flops == 2 * HIDDEN * 4


def quantized(layer: nn.Linear, kind: str) -> nn.Module:
    """Return a linear in INT8 or 4 bits; bitsandbytes quantizes when it is moved."""
    bitsandbytes = pytest.importorskip("bitsandbytes")
    if kind == "int8":
        new = bitsandbytes.nn.Linear8bitLt(
            layer.in_features, layer.out_features, bias=layer.bias is not None, has_fp16_weights=False
        )
    else:
        new = bitsandbytes.nn.Linear4bit(layer.in_features, layer.out_features, bias=False, quant_type=kind)
    new.load_state_dict(layer.state_dict())
    moved: nn.Module = new.to("cpu")
    return moved


@pytest.mark.parametrize("rows", [1, 7])
@pytest.mark.parametrize(
    ("kind", "stored"), [("int8", 64 * 128 + 4 * 128), ("nf4", 64 * 128 // 2 + 64 * 128 // 64 + 4)]
)
def test_quantized_layers_count_like_others_and_move_less(kind: str, stored: int, rows: int) -> None:
    """INT8 and NF4 linears have 2 M N K operations, counted once, and move their weights and scales as stored."""
    tree = chain(nn.Linear(64, 64), quantized(nn.Linear(64, 128, bias=False), kind))
    work = count_work(tree, {"x": torch.ones(rows, 64)})
    assert work["layers.1"].flops == linear(64, 128, rows)
    assert work["model"].flops == linear(64, 128, rows) + linear(64, 64, rows)
    assert work["layers.1"].bytes == stored + 4 * rows * (64 + 128)


def test_a_decode_step_reads_the_cache_of_its_own_layer() -> None:
    """GIVEN a cache of nine tokens and one more THEN a layer's attention moves ten keys and values, its own."""
    tree = tree_of("llama")
    with torch.inference_mode():
        past = tree.root.module(input_ids=torch.arange(9)[None], use_cache=True).past_key_values
    step = {"input_ids": torch.tensor([[3]]), "past_key_values": past, "use_cache": True}
    attention = "model.layers.1.self_attn"
    cached = count_work(tree, step)[attention]
    alone = count_work(tree, {"input_ids": torch.tensor([[3]])})[attention]
    key_and_value = 2 * HIDDEN // HEADS * 4
    assert cached.bytes == (alone.bytes or 0) + 10 * key_and_value
    assert cached.flops == (alone.flops or 0) + 4 * 9 * HIDDEN
    assert cached.executed_flops == cached.flops  # the one query sees all keys


def test_the_model_is_left_as_it_was() -> None:
    """After the count no module has a hook or another forward, and the model computes the same."""
    tree = tree_of("gpt2")
    model = tree.root.module
    with torch.inference_mode():
        before = model(**inputs()).logits
        count_work(tree, inputs())
        assert torch.equal(model(**inputs()).logits, before)
    for module in model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
        assert "forward" not in module.__dict__


@pytest.mark.gpu
@pytest.mark.parametrize("family", FAMILIES)
def test_the_count_is_the_same_on_a_gpu(family: str) -> None:
    """GIVEN the same model on a GPU in BF16, by other kernels, THEN it has as many operations, half the bytes."""
    on_cpu = count_work(tree_of(family), inputs())
    moved = {name: value.cuda() for name, value in inputs().items()}
    tree = tree_of(family)
    tree.root.module.to("cuda", torch.bfloat16)
    on_gpu = count_work(tree, moved)
    for count in ("flops", "executed_flops"):
        assert {name: getattr(work, count) for name, work in on_gpu.items()} == {
            name: getattr(work, count) for name, work in on_cpu.items()
        }
    mlp = next(name for name in on_cpu if name.endswith(("mlp", "ffn")))
    assert on_gpu[mlp].bytes == (on_cpu[mlp].bytes or 0) / 2
