"""The benchmark's precisions: one model in each, from the same weights, honestly counted or honestly refused."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import save_model
from torch import Tensor

from energyscope import bundled
from energyscope.errors import DeviceError, UsageError
from energyscope.loading import VARIANTS, Variant, estimated_bytes, load_model, load_variant, unsupported
from energyscope.loading import parameter_count as counted
from energyscope.loading.kernel_trials import _int8_rows
from energyscope.loading.options import BY_TORCH
from energyscope.reasons import reason, split

CPU = torch.device("cpu")
MADE = ["fp16-autocast", "int8", "int8-static"]  # those that load_model does not know
# The largest mean KL to FP32 that each may have on a bundled, trained model: what the worst showed, times three.
FAR = {"fp16": 1e-4, "bf16": 4e-3, "fp16-autocast": 1e-4, "int8": 0.3, "int8-static": 0.2}


def ids(count: int = 4, length: int = 40) -> Tensor:
    return torch.randint(5, 150, (count, length), generator=torch.Generator().manual_seed(0))


def variant(name: str, precision: str, **options: Any) -> Variant:
    """Load a variant, calibrated on other token ids than those of `answers`."""
    batches = [{"input_ids": torch.randint(5, 150, (8, 40), generator=torch.Generator().manual_seed(1))}]
    return load_variant(name, precision, device="cpu", **{"calibration": batches, **options})


def answers(model: Any, tokens: Tensor | None = None) -> Tensor:
    with torch.inference_mode():
        logits: Tensor = model(input_ids=ids() if tokens is None else tokens).logits
    return logits.float().log_softmax(-1)


def divergence(expected: Tensor, answered: Tensor) -> float:
    return float((expected.exp() * (expected - answered)).sum(-1).mean())


@pytest.mark.parametrize("precision", VARIANTS)
@pytest.mark.parametrize("name", bundled.MODELS)
def test_every_precision_of_a_bundled_model_answers_nearly_as_in_fp32(name: str, precision: str) -> None:
    """GIVEN a trained model on a CPU THEN each precision runs any shape, and differs from FP32 by its rounding."""
    assert unsupported(precision, CPU) is None
    made = variant(name, precision)
    assert (made.precision, made.loaded.precision) == (precision, precision)
    expected, answered = answers(load_model(name, device="cpu").model), answers(made.loaded.model)
    kl = divergence(expected, answered)
    assert kl < FAR.get(precision, 1.5)
    assert precision == "fp32" or not torch.equal(expected, answered)  # it is not FP32 under another name
    assert answers(made.loaded.model, ids(1, 1)).isfinite().all()
    with torch.inference_mode():
        masked = made.loaded.model(input_ids=ids(), attention_mask=torch.ones(4, 40, dtype=torch.long))
    assert divergence(answered, masked.logits.float().log_softmax(-1)) == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize("precision", VARIANTS)
@pytest.mark.parametrize("name", bundled.MODELS)
def test_parameters_and_bytes_are_those_of_the_weights(name: str, precision: str) -> None:
    """GIVEN weights packed in any way THEN all are counted, and their bytes are those that were planned."""
    made = variant(name, precision)
    plain = load_model(name, device="cpu").model
    assert made.parameters == counted(plain)
    planned = estimated_bytes(name, precision, device="cpu")
    assert planned is not None
    exact = precision not in {"int8-static", "nf4", "fp4"}
    assert made.size_bytes == (planned if exact else pytest.approx(planned, rel=0.02))
    assert (made.size_bytes < 4 * made.parameters / 1.5) == (made.dtype != "float32")


@pytest.mark.parametrize(
    ("precision", "implementation", "dtype"),
    [
        ("fp32", "torch", "float32"),
        ("fp16", "torch", "float16"),
        ("bf16", "torch", "bfloat16"),
        ("fp16-autocast", "torch autocast", "float32"),
        ("int8", "PyTorch dynamic INT8", "int8"),
        ("int8-static", "torchao static INT8", "int8"),
        ("fp8", "PyTorch FP8 per row", "fp8"),
        ("w8a8", "energyscope INT8 per row", "w8a8"),
        ("w8a16", "energyscope INT8 weights per row", "w8a16"),
        ("int4", "PyTorch INT4 in groups", "int4"),
        ("nf4", "bitsandbytes NF4", "nf4"),
        ("fp4", "bitsandbytes FP4", "fp4"),
    ],
)
def test_each_says_whose_layers_compute_it(precision: str, implementation: str, dtype: str) -> None:
    """GIVEN a CPU THEN each precision names its implementation and what its weights are stored in."""
    made = variant("tiny-gpt2", precision)
    assert (made.implementation, made.dtype) == (implementation, dtype)
    assert made.notes == made.loaded.notes
    assert all("\n" not in note for note in made.notes)
    assert bool(made.notes) >= (precision in MADE)


@pytest.mark.parametrize("family", ["distilbert", "gpt2", "llama"])
def test_random_weights_are_the_same_in_every_precision(tmp_path: Path, family: str) -> None:
    """GIVEN one seed THEN what is not quantized is the rounding of the same numbers, in every precision.

    The shapes are no multiples of 16, where PyTorch's own draws depend on the data type; its kernels take none.
    """
    widths = {
        "distilbert": {"dim": 18, "hidden_dim": 30},
        "gpt2": {"n_embd": 18},
        "llama": {"hidden_size": 20, "intermediate_size": 30},
    }[family]
    folder = str(save_model(tmp_path / family, family, **widths))
    options = {"weights": "random", "seed": 3, "calibration": [{"input_ids": torch.tensor([[4, 5, 6, 7]])}]}
    plain = dict(variant(folder, "fp32", **options).loaded.model.named_parameters())
    for precision in (name for name in VARIANTS[1:] if name not in BY_TORCH):
        model = variant(folder, precision, **options).loaded.model
        weights = [(name, weight) for name, weight in model.named_parameters() if weight.is_floating_point()]
        weights = [(name, weight) for name, weight in weights if type(weight) is torch.nn.Parameter]
        same = [(name, weight) for name, weight in weights if weight.shape == plain[name].shape]
        assert len(same) >= 4, precision
        for name, weight in same:
            assert torch.equal(plain[name].to(weight.dtype), weight), (precision, name)


@pytest.mark.parametrize("name", bundled.MODELS)
def test_random_outputs_of_all_precisions_are_near(name: str) -> None:
    """GIVEN random weights THEN outputs differ by rounding, which other weights of the same kind would exceed."""
    plain = answers(variant(name, "fp32", weights="random").loaded.model)
    other = divergence(plain, answers(variant(name, "fp32", weights="random", seed=1).loaded.model))
    for precision in VARIANTS[1:]:
        far = divergence(plain, answers(variant(name, precision, weights="random").loaded.model))
        limit = {"fp16": 1e-5, "bf16": 3e-4, "fp16-autocast": 1e-5}.get(precision, other / 2)
        assert far < limit, precision


def test_residual_weights_of_gpt2_are_scaled_in_every_precision() -> None:
    """GIVEN GPT-2, whose blocks draw some weights of their children again THEN quantized ones are those too.

    They are smaller by the root of the number of residual additions.
    """
    options = {"weights": "random", "device": "cpu"}
    plain, eight = (load_model("tiny-gpt2", precision=name, **options).model for name in ("fp32", "int8"))
    config: Any = plain.config
    expected = plain.get_submodule("transformer.h.0.mlp.c_proj").weight.T
    rows = _int8_rows(eight.get_submodule("transformer.h.0.mlp.c_proj"), 0)
    assert float(rows.std()) == pytest.approx(config.initializer_range / (2 * config.n_layer) ** 0.5, rel=0.03)
    assert float((rows - expected).norm() / expected.norm()) < 0.02


@pytest.mark.parametrize("precision", MADE)
def test_heads_are_left_unquantized(precision: str) -> None:
    """GIVEN models with a head THEN it is a plain FP32 layer, and keeps its tie to the embedding."""
    model: Any = variant("tiny-gpt2", precision).loaded.model
    assert type(model.lm_head) is torch.nn.Linear
    assert model.lm_head.weight is model.transformer.wte.weight
    model = variant("tiny-distilbert", precision).loaded.model
    assert {type(model.classifier), type(model.pre_classifier)} == {torch.nn.Linear}


@pytest.mark.parametrize("precision", MADE)
@pytest.mark.parametrize("name", bundled.MODELS)
def test_a_copy_answers_the_same(name: str, precision: str) -> None:
    """GIVEN a copy THEN it answers as the original does, and goes on so when the original is changed."""
    model: Any = variant(name, precision).loaded.model
    expected = answers(model)
    other = copy.deepcopy(model)
    with torch.no_grad():
        model.get_input_embeddings().weight.zero_()
    assert torch.equal(answers(other), expected)
    assert not torch.equal(answers(model), expected)


def test_every_linear_but_the_head_is_quantized() -> None:
    """GIVEN GPT-2's Conv1D layers THEN none is left beside the INT8 ones."""
    for precision in ("int8", "int8-static"):
        model = variant("tiny-gpt2", precision).loaded.model
        assert [name for name, module in model.named_modules() if type(module).__name__ == "Conv1D"] == []
        assert sum(type(module).__name__ in {"Linear", "_FlatLinear"} for module in model.modules()) == 4 * 4 + 1


def test_mistyped_precision_suggests_the_nearest() -> None:
    """WHEN a precision is mistyped THEN the error suggests what was meant, exit code 2."""
    with pytest.raises(UsageError, match="did you mean 'fp16-autocast'"):
        unsupported("fp16-autocats", CPU)
    with pytest.raises(UsageError, match="there is no precision 'fp6'"):
        load_variant("tiny-gpt2", "fp6", device="cpu")
    with pytest.raises(UsageError, match="there is no precision"):
        estimated_bytes("tiny-gpt2", "fp6", device="cpu")


@pytest.mark.parametrize("precision", ["int8", "nf4", "fp4", "int8-static"])
def test_a_missing_library_is_named(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN no bitsandbytes and no torchao THEN what needs them says what to install; the CPU's INT8 does not."""
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    monkeypatch.setitem(sys.modules, "torchao.quantization", None)
    (why,) = split(unsupported(precision, CPU)) or [None]
    if precision == "int8":
        assert why is None
        return
    assert why is not None
    package = "torchao" if precision == "int8-static" else "bitsandbytes"
    assert (why.code, why.values["package"]) == ("package-missing", package)
    with pytest.raises(DeviceError) as error:
        variant("tiny-gpt2", precision)
    assert str(error.value).startswith(f"{precision} cannot be computed on cpu: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("capability", "refused"),
    [((7, 0), {"bf16", "int8", "nf4", "fp4"}), ((7, 5), {"bf16", "nf4", "fp4"}), ((9, 0), set())],
)
def test_old_gpus_are_told_what_they_lack(
    capability: tuple[int, int], refused: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN a GPU of some age THEN BF16 and INT8 are refused with the numbers; static INT8 on every GPU."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Old GPU")
    gpu = torch.device("cuda:0")
    tried = {"fp16-autocast", *BY_TORCH}  # on the GPU, and there is none
    reasons = {name: unsupported(name, gpu) for name in VARIANTS if name not in tried}
    assert {name for name, why in reasons.items() if why} == refused | {"int8-static"}
    for precision in refused:
        (why,) = split(reasons[precision])
        assert why.code == "gpu-too-old"
        assert why.values["what"].startswith("INT8" if precision == "int8" else "BF16")
        assert (why.values["gpu"], why.values["has"]) == ("Old GPU", f"{capability[0]}.{capability[1]}")
    assert reasons["int8-static"] == reason("torchao-for-compile", device="cuda")


def test_what_cannot_be_read_has_no_estimate(tmp_path: Path) -> None:
    """GIVEN a folder without a configuration THEN its bytes are unknown; an unknown name is an error."""
    assert estimated_bytes(str(tmp_path), "bf16", device="cpu") is None
    with pytest.raises(UsageError, match="no model is called"):
        estimated_bytes("no-such-model", "bf16", device="cpu")


def test_estimates_take_no_memory() -> None:
    """GIVEN a model larger than any machine's memory here THEN its bytes are known all the same."""
    names = ("bf16", "int8", "nf4")
    native, eight, four = [estimated_bytes("llama-3.3-70b", name, device="cpu") for name in names]
    assert native == 2 * 70_553_706_496
    assert four < eight < native  # on a CPU, embedding and head in FP32
    assert eight == pytest.approx(70.55e9 + 3 * 2 * 128256 * 8192, rel=0.01)


def test_names_need_no_torch_and_loading_is_silent() -> None:
    """WHEN variants are loaded in a fresh process THEN no library writes to the terminal."""
    code = (
        "import sys; from energyscope.loading import VARIANTS, unsupported, load_variant\n"
        "assert not {'torch', 'transformers', 'torchao'} & set(sys.modules)\n"
        "import torch; batch = {'input_ids': torch.tensor([[5, 6, 7]])}\n"
        "for precision in VARIANTS:\n"
        "    unsupported(precision, torch.device('cpu'))\n"
        "    model = load_variant('tiny-llama', precision, device='cpu', calibration=[batch]).loaded.model\n"
        "    with torch.inference_mode(): model(**batch)"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (output.stdout, output.stderr) == ("", "")
