"""Quantized layers compute what their weights say, whatever bitsandbytes' kernels make of them."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.pytorch_utils import Conv1D

from energyscope import bundled
from energyscope.errors import ModelError
from energyscope.loading import load_model, parameter_count, weight_bytes
from energyscope.loading.kernel_trials import (
    TOLERANCE,
    first_checked_row,
    layer_error,
    repair_layers,
    restored_rows,
    restoring_layer,
)
from energyscope.loading.options import BY_TORCH, QUANTIZED, LoadOptions
from energyscope.loading.random_weights import quantized_linear, spare_small_layers
from energyscope.workloads.inputs import load_evaluation

bnb = pytest.importorskip("bitsandbytes")

CPU = torch.device("cpu")
FOUR_BIT = ["nf4", "fp4"]
BITSANDBYTES = [precision for precision in QUANTIZED if precision not in BY_TORCH]


def states(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def heavy(rows: int, columns: int) -> Tensor:
    """Weights whose blocks have very different scales: mixed up, they give other numbers altogether."""
    return states(rows, columns) * torch.logspace(-1, 1, rows * columns).reshape(rows, columns) / 50


def layer_of(weight: Tensor, precision: str, bias: Tensor | None = None) -> Any:
    linear = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    linear.weight.data = weight.clone()
    if bias is not None:
        linear.bias.data = bias.clone()
    return quantized_linear(linear, precision, torch.float32).eval()


def repaired_layer(precision: str, bias: Tensor | None = None) -> Any:
    """Return a repaired layer of 96 inputs, also where the kernels of this processor are right."""
    layer = layer_of(heavy(32, 96), precision, bias)
    layer.__class__ = restoring_layer()
    return layer


def restored(weight: Tensor, precision: str) -> Tensor:
    """Return a weight as it is after quantizing, value by value, each with the scale of its 64 in flat order."""
    if precision == "int8":
        scales = weight.half().float().abs().amax(1, keepdim=True)
        return (weight.half().float() / scales * 127).round() * scales / 127
    packed, state = bnb.functional.quantize_4bit(weight, blocksize=64, quant_type=precision)
    stored, levels, scales = packed.flatten().tolist(), state.code.tolist(), state.absmax.tolist()
    values = []
    for place in range(weight.numel()):
        byte = stored[place // 2]
        values.append(levels[byte % 16 if place % 2 else byte // 16] * scales[place // 64])
    return torch.tensor(values).reshape(weight.shape)


def quantized_layers(model: nn.Module) -> list[tuple[str, Any]]:
    names = {"Int8Params", "Params4bit"}
    return [item for item in model.named_modules() if type(getattr(item[1], "weight", None)).__name__ in names]


def round_inputs(_: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor:
    """Round as LLM.int8() does: rows in INT8, features that hold an outlier as they are (Dettmers et al. 2022)."""
    rows = inputs[0].half().float()
    outliers = rows.abs() >= 6
    largest = rows.masked_fill(outliers, 0).abs().amax(-1, keepdim=True)
    rounded = (rows / largest * 127).round() * largest / 127
    return torch.where(outliers.flatten(0, -2).any(0), inputs[0], rounded)


def reference(name: str, precision: str, quantized: nn.Module) -> nn.Module:
    """Return the float32 model with the restored weights of every layer that the quantized model has."""
    plain = load_model(name, device="cpu").model
    for path, _ in quantized_layers(quantized):
        layer: Any = plain.get_submodule(path)
        transposed = isinstance(layer, Conv1D)
        weight = restored((layer.weight.T if transposed else layer.weight).contiguous(), precision)
        layer.weight.data = weight.T.contiguous() if transposed else weight
        if precision == "int8":
            layer.register_forward_pre_hook(round_inputs)
    return plain


def logits(model: Any) -> Tensor:
    ids = torch.randint(5, 150, (4, 40), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        outputs: Tensor = model(input_ids=ids).logits
    return outputs


def distance(outputs: Tensor, expected: Tensor) -> float:
    return float((outputs - expected).norm() / expected.norm())


def judged(name: str, precision: str) -> tuple[float, float]:
    """Return the mean loss on held-out data, and the share of predictions that are right."""
    loaded = load_model(name, precision=precision, device="cpu")
    data = load_evaluation(loaded, max_examples=64)
    losses, right = [], []
    for index, batch in enumerate(data.batches):
        with torch.inference_mode():
            scores = loaded.model(**batch).logits
        if data.labels is not None:
            targets = data.labels[index]
        else:
            real = batch["attention_mask"][:, 1:].bool() if "attention_mask" in batch else slice(None)
            scores, targets = scores[:, :-1][real], batch["input_ids"][:, 1:][real]
            scores, targets = scores.reshape(-1, scores.shape[-1]), targets.reshape(-1)
        losses.append(functional.cross_entropy(scores, targets, reduction="none"))
        right.append(scores.argmax(-1) == targets)
    return float(torch.cat(losses).mean()), float(torch.cat(right).float().mean())


@pytest.mark.parametrize("precision", BITSANDBYTES)
@pytest.mark.parametrize("name", bundled.MODELS)
def test_bundled_models_compute_what_their_quantized_weights_say(name: str, precision: str) -> None:
    """GIVEN widths of 96 THEN every layer and the model are as with restored weights in float32, and noted.

    Rounding the activations to INT8 turns the least difference into a step, which grows from layer to layer.
    """
    loaded = load_model(name, precision=precision, device="cpu")
    expected = reference(name, precision, loaded.model)
    for path, layer in quantized_layers(loaded.model):
        inputs = 3 * states(2, 7, layer.in_features)
        products = expected.get_submodule(path)(inputs)
        assert distance(layer(inputs), products) < (0.002 if precision == "int8" else 0.006), path
    assert distance(logits(loaded.model), logits(expected)) < (0.04 if precision == "int8" else 0.01)
    repaired = sum(type(module).__name__ == "RestoringLinear4bit" for module in loaded.model.modules())
    assert bool(repaired) == bool(loaded.notes)
    assert all((note.code, note.values["layers"]) == ("not-its-kernels", repaired) for note in loaded.notes)


@pytest.mark.parametrize("precision", BITSANDBYTES)
@pytest.mark.parametrize("name", bundled.MODELS)
def test_quantized_bundled_models_predict_nearly_as_well(name: str, precision: str) -> None:
    """GIVEN held-out data THEN the loss and the accuracy are near those of the float32 model."""
    (plain_loss, plain_right), (loss, right) = judged(name, "fp32"), judged(name, precision)
    assert abs(loss - plain_loss) < (0.002 if precision == "int8" else 0.008)
    assert abs(right - plain_right) < 0.01


@pytest.mark.parametrize("precision", FOUR_BIT)
@pytest.mark.parametrize("columns", [16, 31, 64, 96, 100])
def test_rows_are_restored_by_plain_arithmetic(columns: int, precision: str) -> None:
    """GIVEN rows that blocks and bytes end within THEN all rows, or the last, are those restored one by one."""
    weight = heavy(269, columns)
    layer, expected = layer_of(weight, precision), restored(weight, precision)
    assert torch.equal(restored_rows(layer.weight), expected)
    assert torch.equal(restored_rows(layer.weight, 128), expected[128:])
    assert [first_checked_row(rows) for rows in (8, 256, 383, 384)] == [0, 0, 0, 128]


@pytest.mark.parametrize("precision", BITSANDBYTES)
@pytest.mark.parametrize("columns", [64, 96, 160])
def test_mended_layers_compute_what_their_weights_say(columns: int, precision: str) -> None:
    """GIVEN layers of any width, one of them with a large bias THEN all are near their weights once repaired."""
    weight, inputs = heavy(32, columns), states(2, 3, columns).clamp(-3, 3)
    model = nn.Sequential(*(layer_of(weight, precision, bias) for bias in (None, states(32) * 100)))
    spare_small_layers(model)
    count, size = parameter_count(model), weight_bytes(model)
    notes = repair_layers(model, LoadOptions(precision=precision, device=CPU))
    assert len(notes) == any("Restoring" in type(layer).__name__ for layer in model)
    assert parameter_count(model) == count
    assert weight_bytes(model) <= size  # less where the processor has scales of its own packed
    expected = inputs @ restored(weight, precision).T
    for layer in model:
        outputs = layer(inputs) - (0 if layer.bias is None else layer.bias)
        assert distance(outputs, expected) < 0.012


def test_a_scale_in_the_wrong_place_is_found_and_mended() -> None:
    """GIVEN a kernel that takes one block's scale for another's THEN the trial sees it, and the repair ends it."""

    class Confused(bnb.nn.Linear4bit):  # type: ignore[misc]
        def forward(self, x: Tensor) -> Tensor:
            rows = restored_rows(self.weight)
            rows[31] *= 3
            return functional.linear(x, rows)

    model = nn.Sequential(layer_of(heavy(32, 64), "nf4"), layer_of(heavy(32, 64), "nf4"))
    spare_small_layers(model)
    model[1].__class__ = Confused
    error = layer_error(model[1], torch.float32)
    assert error is not None
    assert error > 10 * TOLERANCE
    (note,) = repair_layers(model, LoadOptions(precision="nf4", device=CPU))
    assert note.code == "not-its-kernels"
    expected = {"precision": "nf4", "inputs": [64], "device": "CPU", "error": pytest.approx(error, rel=1e-4)}
    assert note.values == {**expected, "layers": 1, "total": 2}
    assert type(model[0]).__name__ == "Linear4bit"
    assert layer_error(model[1], torch.float32) == pytest.approx(0, abs=1e-6)


def test_weights_that_a_layer_has_packed_are_as_they_were() -> None:
    """GIVEN a layer that stores its weight anew when it runs, and is wrong THEN its weight is as before."""

    class Packing(bnb.nn.Linear4bit):  # type: ignore[misc]
        def forward(self, x: Tensor) -> Tensor:
            self.weight.data = self.weight.data.flip(0)
            self.weight.quant_state.absmax = self.weight.quant_state.absmax.flip(0).bfloat16()
            return torch.zeros(len(x), self.out_features)

    layer = layer_of(heavy(32, 64), "nf4")
    layer.__class__ = Packing
    assert repair_layers(nn.Sequential(layer), LoadOptions(precision="nf4", device=CPU))
    assert torch.equal(restored_rows(layer.weight), restored(heavy(32, 64), "nf4"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_mended_layers_answer_in_the_dtype_of_their_inputs(dtype: torch.dtype) -> None:
    """GIVEN inputs of another dtype than the bias THEN the outputs have theirs, and the bias keeps its own."""
    layer = repaired_layer("nf4", states(32))
    outputs = layer(states(2, 96).to(dtype))
    assert outputs.dtype == dtype
    assert layer.bias.dtype == torch.float32
    expected = functional.linear(states(2, 96), restored(heavy(32, 96), "nf4"), states(32))
    assert distance(outputs.float(), expected) < 0.02


def test_a_copy_has_weights_of_its_own() -> None:
    """GIVEN a copy of a repaired layer, as in replay THEN changing its weight changes its outputs alone."""
    layer = repaired_layer("nf4")
    other = copy.deepcopy(layer)
    before = layer(states(2, 96))
    assert torch.equal(other(states(2, 96)), before)
    other.weight.data.zero_()
    assert torch.equal(layer(states(2, 96)), before)
    assert not torch.equal(other(states(2, 96)), before)


@pytest.mark.parametrize("precision", ["int8", "nf4"])
def test_what_cannot_be_mended_is_refused(precision: str) -> None:
    """GIVEN a layer with another forward of its own, or an INT8 kernel that is wrong THEN one line names it."""
    model = nn.ModuleDict({"up": layer_of(heavy(32, 96), precision)})
    model["up"].forward = lambda x: torch.full((len(x), 32), math.nan)
    with pytest.raises(ModelError) as error:
        repair_layers(model, LoadOptions(precision=precision, device=CPU))
    assert str(error.value).startswith(f"bitsandbytes computes up of 32 x 96 in {precision} wrongly on cpu")
    assert "\n" not in str(error.value)


def test_weights_without_a_finite_answer_are_left_alone() -> None:
    """GIVEN scales that are NaN THEN no kernel is blamed for it."""
    layer = layer_of(heavy(32, 96), "nf4")
    layer.weight.quant_state.absmax.fill_(math.nan)
    assert layer_error(layer, torch.float32) is None
    assert repair_layers(nn.Sequential(layer), LoadOptions(precision="nf4", device=CPU)) == ()


def test_elsewhere_than_on_a_cpu_one_layer_of_each_shape_is_tried() -> None:
    """GIVEN four layers of two shapes, not on a CPU THEN two are tried, and both shapes repaired whole."""
    tried: list[int] = []

    class Wrong(bnb.nn.Linear4bit):  # type: ignore[misc]
        def forward(self, x: Tensor) -> Tensor:
            tried.append(self.in_features)
            return 2 * functional.linear(x, restored_rows(self.weight).to(x.dtype))

    model = nn.Sequential(*(layer_of(heavy(32, width), "nf4") for width in (64, 96, 64, 96)))
    for layer in model:
        layer.__class__ = Wrong
    (note,) = repair_layers(model, LoadOptions(precision="nf4", device=torch.device("meta")))
    assert sorted(tried) == [64, 96]
    assert (note.values["layers"], note.values["total"], note.values["inputs"]) == (4, 4, [64, 96])
    assert {type(layer).__name__ for layer in model} == {"RestoringLinear4bit"}


def test_a_plain_model_is_not_tried() -> None:
    """GIVEN a model that is not quantized THEN there is nothing to note."""
    assert load_model("tiny-gpt2", device="cpu").notes == ()
