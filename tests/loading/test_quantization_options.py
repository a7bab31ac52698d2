"""Bitsandbytes' options: double quantization, the data type of products, and modules that stay as they are."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import save_model
from torch.nn import functional

from energyscope.errors import UsageError
from energyscope.loading import load_model, load_variant, parameter_count, random_weights, weight_bytes
from energyscope.loading.kernel_trials import TOLERANCE, layer_error, restored_rows
from energyscope.loading.linears import skipped_linears
from energyscope.loading.options import check_quantization
from energyscope.loading.planning import heads, meta_model
from energyscope.loading.random_weights import quantized_linear
from energyscope.loading.sizes import planned_bytes, tensor_bytes

WIDE = {"hidden_size": 128, "intermediate_size": 256}
WEIGHTS = ["pretrained", "random"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_model(tmp_path_factory.mktemp("models") / "wide", "llama", **WIDE))


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor that bitsandbytes packs no weights for: where it does, layers keep scales of another kind."""
    import bitsandbytes

    monkeypatch.setattr(bitsandbytes.nn.modules, "has_avx512bf16", lambda: False)


def load(folder: str, precision: str = "nf4", **options: Any) -> Any:
    return load_model(folder, precision=precision, device="cpu", **options)


def quantized(model: torch.nn.Module) -> dict[str, Any]:
    """The layers with quantized weights, by their paths."""
    kinds = {"Params4bit", "Int8Params"}
    weights = {path: getattr(module, "weight", None) for path, module in model.named_modules()}
    return {path: model.get_submodule(path) for path, weight in weights.items() if type(weight).__name__ in kinds}


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("precision", ["nf4", "fp4"])
def test_double_quantization_shrinks_the_scales(folder: str, precision: str, weights: Any, unpacked: None) -> None:
    """WHEN scales are quantized too THEN they take a byte each, theirs are counted, and little is lost."""
    plain, double = (load(folder, precision, weights=weights, double_quant=on).model for on in (False, True))
    assert weight_bytes(double) < weight_bytes(plain)
    for path, layer in quantized(double).items():
        state, other = layer.weight.quant_state, plain.get_submodule(path).weight.quant_state
        assert state.nested
        assert not other.nested
        assert state.absmax.dtype is torch.uint8
        assert state.absmax.nbytes * 4 == other.absmax.nbytes
        assert state.state2.absmax.nbytes * 4 <= max(16, state.absmax.nbytes)
    assert parameter_count(double) == parameter_count(plain)
    ids = torch.tensor([[2, 5, 6, 7, 3]])
    with torch.inference_mode():
        logits, expected = double(input_ids=ids).logits, plain(input_ids=ids).logits
    assert functional.cosine_similarity(logits.flatten(), expected.flatten(), dim=0) > 0.98
    assert not torch.equal(logits, expected)


@pytest.mark.parametrize("double", [False, True])
def test_planned_bytes_are_those_that_are_stored(folder: str, double: bool, unpacked: None) -> None:
    """GIVEN a 4-bit model THEN what was planned for its weights is what they take, with all scales."""
    from energyscope.loading.files import model_files
    from energyscope.loading.options import LoadOptions
    from energyscope.loading.sources import find_model

    loaded = load(folder, weights="random", double_quant=double)
    options = LoadOptions(precision="nf4", device=torch.device("cpu"), weights="random")
    with model_files(find_model(folder), options) as files:
        shape = meta_model(files, options)
    planned = planned_bytes(shape, "nf4", heads(loaded.adapter), double_quant=double)
    assert planned == weight_bytes(loaded.model)


@pytest.mark.parametrize("width", [64, 192])
def test_nested_scales_are_restored_by_arithmetic(width: int, unpacked: None) -> None:
    """GIVEN a layer with quantized scales THEN its restored weights are near the originals, and try it."""
    linear = torch.nn.Linear(width, 320, bias=False)
    layer: Any = quantized_linear(linear, "nf4", torch.float32, double_quant=True)
    plain: Any = quantized_linear(linear, "nf4", torch.float32)
    nested, own = restored_rows(layer.weight), restored_rows(plain.weight)
    assert ((nested - own).norm() / own.norm()) < 0.05
    assert not torch.equal(nested, own)
    assert torch.equal(restored_rows(layer.weight, 128), nested[128:])
    assert tensor_bytes(layer.weight) < tensor_bytes(plain.weight)
    assert (layer_error(layer.eval(), torch.float32) or 0) < TOLERANCE


@pytest.mark.parametrize("weights", WEIGHTS)
def test_the_compute_dtype_is_that_of_the_products(folder: str, weights: Any) -> None:
    """WHEN a data type is named THEN 4-bit layers compute in it, and the rest stays as it was."""
    plain, named = load(folder, weights=weights), load(folder, weights=weights, compute_dtype="bf16")
    assert {layer.compute_dtype for layer in quantized(plain.model).values()} == {torch.float32}
    assert {layer.compute_dtype for layer in quantized(named.model).values()} == {torch.bfloat16}
    assert named.model.get_input_embeddings().weight.dtype is torch.float32
    ids = torch.tensor([[2, 5, 6]])
    with torch.inference_mode():
        assert named.model(input_ids=ids).logits.isfinite().all()


@pytest.mark.parametrize("precision", ["int8", "nf4"])
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize(
    ("names", "kept"),
    [
        (("down_proj",), {"model.layers.0.mlp.down_proj", "model.layers.1.mlp.down_proj"}),
        (("layers.1.mlp",), {f"model.layers.1.mlp.{part}_proj" for part in ("gate", "up", "down")}),
        (("model.layers.0.self_attn.q_proj", "lm_head"), {"model.layers.0.self_attn.q_proj"}),
    ],
)
def test_skipped_modules_stay_unquantized(
    folder: str, precision: str, weights: Any, names: tuple[str, ...], kept: set[str]
) -> None:
    """GIVEN a path, the end of one or a block THEN its linears, and those alone, are kept beside the head."""
    usual = quantized(load(folder, precision, weights=weights).model)
    layers = quantized(load(folder, precision, weights=weights, skip_modules=names).model)
    assert set(layers) == set(usual) - kept


def test_skipping_the_first_layer_leaves_the_eleventh(tmp_path: Path) -> None:
    """GIVEN twelve layers WHEN layer 1 is skipped THEN layers 10 and 11 are quantized."""
    folder = str(save_model(tmp_path / "deep", "llama", num_hidden_layers=12, tokenizer=False))
    layers = quantized(load(folder, skip_modules=("model.layers.1",)).model)
    assert {path.split(".")[2] for path in layers} == {"0", *map(str, range(2, 12))}


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("down_prj", "did you mean 'down_proj'"),
        ("model.layer.0", "did you mean .*model.layers.0"),
        ("input_layernorm", "known: down_proj, gate_proj"),
        ("zzz", "known: down_proj, gate_proj"),
    ],
)
def test_a_name_without_a_linear_is_refused(folder: str, name: str, hint: str) -> None:
    """WHEN a name leads to nothing, or to no linear, THEN the line offers what does."""
    with pytest.raises(UsageError, match=f"--skip-modules '{name}' names no linear layer.*{hint}"):
        load(folder, skip_modules=(name,))


def test_gpt2s_transposed_linears_can_be_skipped(tmp_path: Path) -> None:
    """GIVEN layers that are no nn.Linear THEN their names are known too."""
    from tiny_models import config, model_class

    with torch.device("meta"):
        model = model_class("gpt2")(config("gpt2"))
    assert skipped_linears(model, ["c_fc"]) == ["transformer.h.0.mlp.c_fc", "transformer.h.1.mlp.c_fc"]


@pytest.mark.parametrize(
    ("precision", "options", "complaint"),
    [
        ("bf16", {"double_quant": True}, "--double-quant is for 4-bit weights, not bf16"),
        ("int8", {"double_quant": True}, "use --precision nf4 or fp4"),
        ("int8", {"compute_dtype": "fp16"}, "--compute-dtype is for 4-bit weights"),
        ("nf4", {"compute_dtype": "fp64"}, "--compute-dtype 'fp64' is not known: use one of fp32, fp16, bf16"),
        (
            "fp16",
            {"skip_modules": ("lm_head",)},
            "--skip-modules keeps modules unquantized, and fp16",
        ),
    ],
)
def test_options_of_other_precisions_are_refused(precision: str, options: dict[str, Any], complaint: str) -> None:
    """WHEN an option says nothing at a precision THEN it is refused before anything is loaded."""
    with pytest.raises(UsageError, match=complaint):
        check_quantization(precision, **options)
    with pytest.raises(UsageError, match=complaint):
        load_model("gpt2", precision=precision, device="cpu", weights="random", **options)


def test_the_benchmarks_precisions_take_the_options_that_are_theirs(folder: str) -> None:
    """GIVEN options for quantized weights THEN a benchmark of several precisions gives each what it can use."""
    options: dict[str, Any] = {"double_quant": True, "compute_dtype": "bf16", "skip_modules": ("down_proj",)}
    usual = load_variant(folder, "nf4", device="cpu")
    made = load_variant(folder, "nf4", device="cpu", **options)
    assert {layer.compute_dtype for layer in quantized(made.loaded.model).values()} == {torch.bfloat16}
    assert len(quantized(usual.loaded.model)) - len(quantized(made.loaded.model)) == 2
    plain = load_variant(folder, "fp32", device="cpu", **options)
    assert plain.size_bytes > made.size_bytes
    kept = load_variant(folder, "int8", device="cpu", **options).loaded.model
    assert type(kept.get_submodule("model.layers.0.mlp.down_proj")) is torch.nn.Linear
    assert type(kept.get_submodule("model.layers.0.mlp.up_proj")) is not torch.nn.Linear


@pytest.mark.parametrize("precision", ["nf4", "int8"])
def test_unquantized_layers_go_while_a_random_model_is_built(
    folder: str, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A 70 B model fits as 4 bits a weight only: of its unquantized layers no more than a block's may be alive."""
    made: list[weakref.ref[Any]] = []
    alive: list[int] = []

    def watched(module: Any, *args: Any, **kwargs: Any) -> Any:
        made.append(weakref.ref(module))
        alive.append(sum(reference() is not None for reference in made))
        return quantized_linear(module, *args, **kwargs)

    monkeypatch.setattr(random_weights, "quantized_linear", watched)
    model = load(folder, precision, weights="random").model
    assert len(made) == len(quantized(model)) >= 14, "two layers of seven"
    assert max(alive) <= 4, "the MLP's three wait for one another, and the attention's last for its block"
    assert not any(reference() is not None for reference in made)
