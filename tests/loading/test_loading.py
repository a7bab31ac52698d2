"""Loading: names, weights, precisions, devices, and one clear line for each thing that can go wrong."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tiny_models import config, model_class, save_model

from energyscope import bundled
from energyscope.errors import DeviceError, EnergyscopeError, ModelError, UsageError
from energyscope.loading import devices, load_model, model_names, parameter_count, weight_bytes
from energyscope.reasons import reason

FAMILIES = ["distilbert", "gpt2", "llama"]
IDS = torch.tensor([[2, 5, 6, 7, 3]])


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    return {family: save_model(root / f"my-{family}", family) for family in FAMILIES}


@pytest.fixture
def copy(folders: dict[str, Path], tmp_path: Path) -> Path:
    """A GPT-2 folder that a test may damage."""
    return Path(shutil.copytree(folders["gpt2"], tmp_path / "damaged"))


def cached(folder: Path, cache: Path, *ignored: str) -> None:
    """Put a model's folder into the cache of `no_network` as that of ``someone/tiny``."""
    repository = cache / "models--someone--tiny"
    shutil.copytree(folder, repository / "snapshots" / "abc", ignore=shutil.ignore_patterns(*ignored))
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc", encoding="ascii")


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty cache, and a hub whose port nobody listens on."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)


def logits(model: Any, ids: torch.Tensor = IDS) -> torch.Tensor:
    with torch.inference_mode():
        result: torch.Tensor = model(input_ids=ids).logits
    return result


def modules_of(model: torch.nn.Module, *types: str) -> set[str]:
    return {name for name, module in model.named_modules() if type(module).__name__ in types}


def one_line(error: pytest.ExceptionInfo[EnergyscopeError]) -> str:
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("family", FAMILIES)
def test_folder_gives_the_saved_model(folders: dict[str, Path], family: str) -> None:
    """GIVEN a saved model WHEN its folder is loaded THEN it computes what the saved one computes."""
    loaded = load_model(str(folders[family]), device="cpu")
    original = model_class(family).from_pretrained(folders[family]).eval()
    assert torch.equal(logits(loaded.model), logits(original))
    assert (loaded.adapter.name, loaded.weights, loaded.name) == (family, "pretrained", f"my-{family}")
    assert loaded.tokenizer("the cat")["input_ids"]
    assert not loaded.model.training
    assert loaded.seconds > 0


@pytest.mark.parametrize(
    ("precision", "dtype"), [("fp32", torch.float32), ("fp16", torch.float16), ("bf16", torch.bfloat16)]
)
@pytest.mark.parametrize("weights", ["pretrained", "random"])
def test_native_precisions_are_the_dtype_of_all_weights(
    folders: dict[str, Path], precision: str, dtype: torch.dtype, weights: Any
) -> None:
    """WHEN a native precision is asked for THEN every weight has it."""
    loaded = load_model(str(folders["llama"]), precision=precision, device="cpu", weights=weights)
    assert {parameter.dtype for parameter in loaded.model.parameters()} == {dtype}
    assert logits(loaded.model).dtype == dtype


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("precision", ["int8", "nf4", "fp4"])
@pytest.mark.parametrize("weights", ["pretrained", "random"])
def test_quantization_takes_all_linears_but_the_head(
    folders: dict[str, Path], family: str, precision: str, weights: Any
) -> None:
    """WHEN weights are quantized, trained or random, THEN all linears are but the head's, and it runs."""
    loaded = load_model(str(folders[family]), precision=precision, device="cpu", weights=weights)
    plain = load_model(str(folders[family]), device="cpu")
    expected = "Int8Params" if precision == "int8" else "Params4bit"
    linears = {
        name for name, module in plain.model.named_modules() if type(module).__name__ in {"Linear", "Conv1D"}
    }
    weights_of = {name: getattr(module, "weight", None) for name, module in loaded.model.named_modules()}
    quantized = {name for name, weight in weights_of.items() if type(weight).__name__ == expected}
    heads = {"lm_head", "classifier", "pre_classifier"} & linears
    assert heads
    assert quantized == linears - heads
    assert logits(loaded.model).isfinite().all()
    assert parameter_count(loaded.model) == parameter_count(plain.model)
    assert weight_bytes(loaded.model) < weight_bytes(plain.model)


@pytest.mark.parametrize("precision", ["int8", "nf4"])
@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_quantized_weights_stand_for_the_trained_ones(tmp_path: Path, family: str, precision: str) -> None:
    """GIVEN a layer quantized by our own code THEN its output is near the original's, transposed or not.

    It has 64 inputs, a whole block: on some CPUs bitsandbytes restores narrower 4-bit layers wrongly.
    """
    from energyscope.loading.random_weights import quantized_linear

    width = {"gpt2": {"n_embd": 64}, "llama": {"hidden_size": 64}}[family]
    plain: Any = load_model(str(save_model(tmp_path, family, **width)), device="cpu").model
    linear = plain.transformer.h[0].mlp.c_fc if family == "gpt2" else plain.model.layers[0].mlp.up_proj
    inputs = torch.randn(4, 64, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        expected = linear(inputs)
        outputs = quantized_linear(linear, precision, torch.float32)(inputs)
    distance = (outputs - expected).norm() / expected.norm()
    assert distance < (0.05 if precision == "int8" else 0.2)


def test_small_layers_are_spared_the_packed_kernel() -> None:
    """GIVEN a CPU that bitsandbytes packs weights for THEN only layers of whole blocks are packed."""
    from energyscope.loading.random_weights import spare_small_layers

    layers = [torch.nn.Linear(columns, rows) for columns, rows in ((64, 32), (64, 16), (16, 32))]
    for layer in layers:
        layer.support_avx512bf16_for_cpu = True
    spare_small_layers(torch.nn.Sequential(*layers))
    assert [layer.support_avx512bf16_for_cpu for layer in layers] == [True, False, False]


def test_random_weights_follow_the_seed(folders: dict[str, Path]) -> None:
    """WHEN the seed is the same THEN so are the weights; another seed gives others."""
    first, again, other = (
        load_model(str(folders["gpt2"]), device="cpu", weights="random", seed=seed).model for seed in (1, 1, 2)
    )
    assert torch.equal(logits(first), logits(again))
    assert not torch.equal(logits(first), logits(other))


def test_random_weights_leave_the_global_generator_alone(folders: dict[str, Path]) -> None:
    """WHEN a random model is built THEN the caller's own random numbers go on as if it had not been."""
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    load_model(str(folders["gpt2"]), device="cpu", weights="random")
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("precision", ["fp32", "nf4"])
def test_random_weights_fill_every_parameter_and_buffer(
    folders: dict[str, Path], family: str, precision: str
) -> None:
    """GIVEN a random model THEN its norms are ones, its buffers the configuration's, and ties hold."""
    model = load_model(str(folders[family]), device="cpu", weights="random", precision=precision).model
    trained: Any = model_class(family)(config(family))
    for name, buffer in trained.named_buffers():
        assert torch.equal(buffer, model.get_buffer(name)), name
    norms = [module for module in model.modules() if "Norm" in type(module).__name__]
    assert all(torch.equal(norm.get_parameter("weight").float(), torch.ones(16)) for norm in norms)
    tied = trained.get_output_embeddings() is not None and trained.config.tie_word_embeddings
    assert not tied or model.get_output_embeddings().weight is model.get_input_embeddings().weight


def test_short_name_with_random_weights_needs_no_files(no_network: None) -> None:
    """GIVEN no network WHEN a short name is built at random THEN it has the true shape, and no tokenizer."""
    loaded = load_model("distilbert", weights="random", precision="bf16", device="cpu")
    assert parameter_count(loaded.model) == 66_955_010
    assert weight_bytes(loaded.model) == 2 * 66_955_010
    assert loaded.weights == "random"
    assert loaded.tokenizer is None
    assert loaded.tokenizer_reason


@pytest.mark.parametrize("name", bundled.MODELS)
def test_bundled_models_load_by_name(name: str) -> None:
    """Every bundled model loads by its short name, with its tokenizer, and says what it is."""
    loaded = load_model(name, device="cpu")
    assert (loaded.name, loaded.weights, loaded.source) == (name, "bundled", f"bundled:{name}")
    assert loaded.tokenizer_reason is None
    assert load_model(name, device="cpu", weights="random").weights == "random"


def test_names_list_adapters_and_bundled_models_without_torch() -> None:
    """WHEN names are listed THEN all short names are there, with their source, and torch is not imported."""
    code = (
        "import sys; from energyscope.loading import model_names; print(*model_names());"
        "print('torch' in sys.modules, 'transformers' in sys.modules)"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names, heavy = output.stdout.splitlines()
    assert {"distilbert", "gpt2-xl", "llama-3.3-70b", *bundled.MODELS} <= set(names.split())
    assert heavy == "False False"
    assert model_names()["gpt2"].source == "openai-community/gpt2"


@pytest.mark.parametrize(
    ("reference", "options", "complaint"),
    [
        ("llama-3.2-1", {}, "did you mean 'llama-3.2-1b'"),
        *((path, {}, f"no folder {path}") for path in ("./absent", "/absent/folder", "a/b/c")),
        *(
            ("gpt2", {"precision": name}, "fp32, fp16, bf16, fp8, int8, w8a8, w8a16, int4, nf4, fp4")
            for name in ("fp6", "fp16-autocast", "4bit")
        ),
        *(("gpt2", {"device": name}, "auto, cpu, cuda or cuda:N") for name in ("mps", "cuda:x", "gpu")),
    ],
)
def test_what_is_not_known_is_bad_usage(reference: str, options: dict[str, str], complaint: str) -> None:
    """WHEN a model, folder, precision or device is not one THEN the line says what is; the hub is not asked."""
    with pytest.raises(UsageError) as error:
        load_model(reference, weights="random", **options)
    assert complaint in one_line(error)


def test_hub_id_without_network_fails_at_once(no_network: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN no network and an empty cache WHEN a hub id is loaded THEN one line says so, without long waits."""
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    with pytest.raises(ModelError) as error:
        load_model("openai-community/gpt2", device="cpu")
    assert "not in the local cache" in one_line(error)
    assert sum(waits) < 5


def test_hub_id_is_read_from_the_cache(no_network: None, folders: dict[str, Path], tmp_path: Path) -> None:
    """GIVEN a cached model and no network THEN its hub id loads."""
    cached(folders["gpt2"], tmp_path / "cache")
    loaded = load_model("someone/tiny", device="cpu")
    assert (loaded.name, loaded.source, loaded.weights) == ("tiny", "someone/tiny", "pretrained")


def test_partly_cached_model_is_not_taken_for_whole(
    no_network: None, folders: dict[str, Path], tmp_path: Path
) -> None:
    """GIVEN a cache that an interrupted download left without weights THEN the hub is asked, not the cache."""
    cached(folders["gpt2"], tmp_path / "cache", "*.safetensors")
    with pytest.raises(ModelError, match="cannot be reached"):
        load_model("someone/tiny", device="cpu")


def sharded(folder: Path) -> None:
    """Leave the first of two shards."""
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    index = '{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}'
    (folder / "model.safetensors.index.json").write_text(index, encoding="utf-8")


def truncated(folder: Path, size: int) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:size])


def configured(folder: Path, content: str) -> None:
    (folder / "config.json").write_text(content, encoding="utf-8")


def stored_quantized(folder: Path) -> None:
    text = (folder / "config.json").read_text(encoding="utf-8").rstrip()[:-1]
    configured(folder, text + ', "quantization_config": {"quant_method": "gptq", "bits": 4}}')


def of_unknown_family(folder: Path) -> None:
    """Take the weights away as well: nobody should download them for a family that cannot be loaded."""
    configured(folder, '{"model_type": "of-tomorrow", "architectures": ["OfTomorrow"]}')
    (folder / "model.safetensors").unlink()


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (sharded, r"lacks its weights \(model-00002-of-00002\.safetensors\)"),
        (lambda folder: truncated(folder, 3), "^damaged cannot be loaded"),
        (lambda folder: truncated(folder, 2000), "^damaged cannot be loaded"),
        (lambda folder: configured(folder, "{"), "cannot be read"),
        (lambda folder: configured(folder, "[]"), "names no model_type"),
        (lambda folder: configured(folder, '{"model_type": "detr"}'), "write an adapter"),
        (of_unknown_family, r"does not recognize this architecture\): upgrade transformers"),
        (lambda folder: (folder / "config.json").unlink(), r"holds no config\.json"),
        (stored_quantized, r"stored quantized .gptq"),
    ],
)
def test_damage_is_one_line(copy: Path, damage: Callable[[Path], object], complaint: str) -> None:
    """GIVEN a folder that is broken, incomplete, of an unknown family or quantized THEN one line says so."""
    damage(copy)
    with pytest.raises(ModelError, match=complaint) as error:
        load_model(str(copy), device="cpu")
    one_line(error)


def test_folder_without_weights_says_what_to_do(copy: Path) -> None:
    """GIVEN a folder with a configuration alone THEN pretrained is refused and random works."""
    (copy / "model.safetensors").unlink()
    with pytest.raises(ModelError) as error:
        load_model(str(copy), device="cpu")
    assert "lacks its weights" in one_line(error)
    assert load_model(str(copy), device="cpu", weights="random").weights == "random"


def test_pickled_weights_are_refused_unless_allowed(copy: Path) -> None:
    """GIVEN weights in a format that can run code THEN they are read only where that was asked for."""
    from safetensors.torch import load_file

    torch.save(load_file(copy / "model.safetensors"), copy / "pytorch_model.bin")
    (copy / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="only pickled weights"):
        load_model(str(copy), device="cpu")
    assert load_model(str(copy), device="cpu", allow_pickle=True).weights == "pretrained"


def test_head_without_trained_weights_is_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    """GIVEN an encoder that was never trained to classify THEN its random head is not passed off as trained."""
    import transformers

    transformers.DistilBertModel(config("distilbert")).save_pretrained(tmp_path / "encoder")
    with pytest.raises(ModelError, match=r"no trained weights for classifier\.bias"):
        load_model(str(tmp_path / "encoder"), device="cpu", adapter="distilbert")
    assert load_model(str(tmp_path / "encoder"), device="cpu").adapter.task == "embedding"


def test_missing_tokenizer_has_a_reason(tmp_path: Path) -> None:
    """GIVEN a model without a tokenizer THEN it loads, and says why it has none."""
    folder = save_model(tmp_path / "bare", "gpt2", tokenizer=False)
    loaded = load_model(str(folder), device="cpu")
    assert loaded.tokenizer is None
    assert loaded.tokenizer_reason == reason("no-tokenizer", folder=folder)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_cuda_without_a_gpu_says_why(device: str) -> None:
    """GIVEN no GPU WHEN one is asked for THEN the error says what to use instead; auto takes the CPU."""
    with pytest.raises(DeviceError) as error:
        load_model("gpt2", device=device, weights="random")
    assert "--device cpu" in one_line(error)
    assert devices.pick_device("auto").type == "cpu"


@pytest.mark.gpu
def test_missing_gpu_index_lists_those_that_exist() -> None:
    """GIVEN a GPU WHEN a higher index is asked for THEN the error lists what there is."""
    with pytest.raises(DeviceError, match="this machine has cuda:0"):
        devices.pick_device("cuda:99")


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["bf16", "int8", "nf4"])
def test_random_weights_stay_off_the_host(precision: str) -> None:
    """WHEN a random model is built on the GPU THEN the host's memory grows by far less than the weights."""
    import resource

    load_model("distilbert", weights="random", precision=precision, device="cuda")  # libraries and context
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    loaded = load_model("gpt2-large", weights="random", precision=precision, device="cuda")
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    assert {parameter.device.type for parameter in loaded.model.parameters()} == {"cuda"}
    assert grown < 0.2 * 2 * 774_030_080
    assert logits(loaded.model, IDS.cuda()).isfinite().all()


def test_every_gpu_is_listed_with_its_uuid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each GPU that CUDA counts is asked for its own UUID, in CUDA's order."""
    known = {0: "1a9f-11", 1: "1a2b-00"}
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(known))
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid=known[device.index])
    )
    assert devices.visible_gpus() == {"1a9f-11": torch.device("cuda:0"), "1a2b-00": torch.device("cuda:1")}
    assert devices.cuda_uuid(torch.device("cuda:1")) == "1a2b-00"


def test_without_cuda_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a torch that counts no GPU THEN nothing is listed, and nothing fails."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert devices.visible_gpus() == {}


def test_model_that_cannot_fit_is_refused_before_it_is_built() -> None:
    """GIVEN more weights than memory THEN the refusal states both numbers and comes at once."""
    needed = 2 * (devices.free_bytes(torch.device("cpu")) or 0)
    assert needed > 0
    with pytest.raises(DeviceError, match=r"giant needs about \d+\.\d GB .* free: use a smaller"):
        devices.require_room(needed, torch.device("cpu"), "giant")
    devices.require_room(1, torch.device("cpu"), "dwarf")


def test_loading_prints_nothing(folders: dict[str, Path]) -> None:
    """WHEN models are loaded and run at every precision THEN no library writes to the terminal."""
    code = (
        "import sys, torch; from energyscope.loading import load_model\n"
        "for precision in ('fp32', 'int8', 'nf4'):\n"
        "    model = load_model(sys.argv[1], precision=precision, device='cpu').model\n"
        "    with torch.inference_mode(): model(input_ids=torch.tensor([[5, 6]]))"
    )
    command = [sys.executable, "-c", code, str(folders["llama"])]
    output = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (output.stdout, output.stderr) == ("", "")
