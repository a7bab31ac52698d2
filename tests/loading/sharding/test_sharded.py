"""Models over several devices: the same numbers as on one, ties that hold, and nothing built twice.

The CPU stands for both sides: as ``cpu:0`` it computes, as ``cpu`` it is the host memory that modules wait in.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import config, model_class, save_model

from energyscope.loading import load_model, parameter_count, random_weights, weight_bytes
from energyscope.loading.model import LoadedModel
from energyscope.loading.options import LoadOptions
from energyscope.loading.sharding import placing
from energyscope.loading.sharding.placement import Placement, dispatch, offload_notes, undispatch
from energyscope.loading.variants import put_in_autocast
from energyscope.reasons import reason

FAMILIES = ["distilbert", "gpt2", "llama"]
IDS = torch.tensor([[2, 5, 6, 7, 3]])
HOST, COMPUTING = torch.device("cpu"), torch.device("cpu", 0)
LAYERS = {"distilbert": "distilbert.transformer.layer", "gpt2": "transformer.h", "llama": "model.layers"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    return {family: save_model(root / family, family) for family in FAMILIES}


@pytest.fixture
def over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Return a function that loads a model with these modules waiting on the host and the others computing."""

    def load(folder: Path, waiting: tuple[str, ...] = (), **options: Any) -> LoadedModel:
        modules = {"": COMPUTING, **dict.fromkeys(waiting, HOST)}
        monkeypatch.setattr(placing, "place", lambda *_: spread_out(options, folder, modules))
        path = tmp_path / "map.json"
        path.write_text('{"": "cpu"}', encoding="utf-8")
        return load_model(str(folder), device_map=str(path), **options)

    return load


def spread_out(options: dict[str, Any], folder: Path, modules: dict[str, torch.device]) -> Placement:
    """The placement of a file that names every child and layer."""
    plain = load_model(str(folder), device="cpu")
    names = [path for path, module in plain.model.named_modules() if path and not list(module.children())]
    placement = Placement(modules, COMPUTING)
    return Placement({path: placement.device_of(path) for path in names}, COMPUTING)


def logits(model: Any) -> torch.Tensor:
    with torch.inference_mode():
        result: torch.Tensor = model(input_ids=IDS).logits
    return result


def tensors(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return dict(model.state_dict(keep_vars=True))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8", "nf4"])
@pytest.mark.parametrize("weights", ["pretrained", "random"])
def test_a_model_with_waiting_modules_computes_the_same(
    folders: dict[str, Path], over: Any, family: str, precision: str, weights: Any
) -> None:
    """GIVEN a layer, or quantized a head, that waits on the host THEN every number is that of the whole model."""
    head = {"distilbert": "classifier", "gpt2": "transformer.ln_f", "llama": "lm_head"}[family]
    waiting = head if precision in {"int8", "nf4"} else f"{LAYERS[family]}.1"
    loaded = over(folders[family], (waiting,), precision=precision, weights=weights)
    plain = load_model(str(folders[family]), precision=precision, weights=weights, device="cpu")
    for _ in range(2):
        assert torch.equal(logits(loaded.model), logits(plain.model))
    assert loaded.devices == (COMPUTING, HOST)
    assert loaded.device == COMPUTING
    assert all(path.startswith(waiting) for path in loaded.offloaded)
    assert {path: loaded.device_map[path] for path in loaded.offloaded} == dict.fromkeys(loaded.offloaded, "cpu")
    meta = {name for name, parameter in loaded.model.named_parameters() if parameter.is_meta}
    assert meta == {name for name, _ in plain.model.named_parameters() if name.startswith(waiting)}
    assert weight_bytes(loaded.model) == weight_bytes(plain.model)
    assert loaded.notes[-1].code == "waiting-modules"
    assert not loaded.model.training


@pytest.mark.parametrize("weights", ["pretrained", "random"])
def test_tied_weights_that_wait_stay_tied(folders: dict[str, Path], over: Any, weights: Any) -> None:
    """GIVEN GPT-2's embedding and its head, one tensor, on the host THEN they are one still, and it runs."""
    loaded = over(folders["gpt2"], ("transformer.wte", "lm_head"), weights=weights)
    plain = load_model(str(folders["gpt2"]), weights=weights, device="cpu").model
    assert torch.equal(logits(loaded.model), logits(plain))
    head, embedding = loaded.model.lm_head, loaded.model.transformer.wte
    assert head._hf_hook.weights_map["weight"].data_ptr() == embedding._hf_hook.weights_map["weight"].data_ptr()
    assert parameter_count(loaded.model) == parameter_count(plain)
    assert weight_bytes(loaded.model) == weight_bytes(plain)
    undispatch(loaded.model)
    assert loaded.model.lm_head.weight is loaded.model.transformer.wte.weight
    assert not loaded.model.lm_head.weight.is_meta


@pytest.mark.parametrize("family", FAMILIES)
def test_taking_the_hooks_off_leaves_the_model_as_it_was(folders: dict[str, Path], over: Any, family: str) -> None:
    """WHEN hooks are taken off THEN every weight is back, and no trace of accelerate remains."""
    loaded = over(folders[family], (f"{LAYERS[family]}.0",))
    undispatch(loaded.model)
    plain = load_model(str(folders[family]), device="cpu").model
    assert tensors(loaded.model).keys() == tensors(plain).keys()
    assert all(torch.equal(tensor, tensors(plain)[name]) for name, tensor in tensors(loaded.model).items())
    assert not any(hasattr(module, "_hf_hook") or "forward" in vars(module) for module in loaded.model.modules())


def test_a_map_with_one_device_is_as_none(folders: dict[str, Path], tmp_path: Path) -> None:
    """GIVEN a file that names the CPU alone THEN there are no hooks, and what is loaded is what it was."""
    path = tmp_path / "map.json"
    path.write_text(json.dumps({"model": "cpu", "lm_head": "cpu"}), encoding="utf-8")
    loaded = load_model(str(folders["llama"]), device_map=str(path))
    plain = load_model(str(folders["llama"]), device="cpu")
    assert torch.equal(logits(loaded.model), logits(plain.model))
    assert (loaded.devices, loaded.device_map, loaded.offloaded, loaded.notes) == ((HOST,), None, (), ())
    assert plain.devices == (plain.device,)
    assert not any(hasattr(module, "_hf_hook") for module in loaded.model.modules())


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("precision", ["fp32", "bf16", "nf4"])
def test_random_numbers_do_not_depend_on_where_modules_go(family: str, precision: str) -> None:
    """GIVEN modules that go elsewhere as soon as they are drawn THEN the others have the numbers that they had."""
    shape = config(family)

    def built(home: Any) -> dict[str, torch.Tensor]:
        options = LoadOptions(precision=precision, device=HOST, weights="random", seed=3)
        dtype = options.dtype
        made: Any = random_weights.build(
            lambda: model_class(family)._from_config(shape, dtype=dtype), options, ["lm_head", "classifier"], home
        )
        return dict(made.named_parameters()) | dict(made.named_buffers())

    gone = torch.device("meta")
    whole = built(None)
    same = built(lambda _: HOST)
    parted = built(lambda path: gone if f"{LAYERS[family]}.0" in path else HOST)
    assert all(torch.equal(whole[name], same[name]) for name in whole)
    stayed = {name: tensor for name, tensor in parted.items() if not tensor.is_meta}
    assert 0 < len(stayed) < len(whole)
    assert all(torch.equal(whole[name], tensor) for name, tensor in stayed.items())


def test_building_over_devices_needs_little_host_memory() -> None:
    """GIVEN a model of 600 MB whose layers go elsewhere THEN the process grows by a small part of that.

    The meta device stands for GPUs: what goes there leaves host memory, and is drawn there first as on a main GPU.
    """
    code = """
import resource, torch, transformers
from energyscope.loading import random_weights
from energyscope.loading.options import LoadOptions
shape = transformers.LlamaConfig(vocab_size=64, hidden_size=1024, intermediate_size=3072, num_hidden_layers=24,
                                 num_attention_heads=8, num_key_value_heads=8, dtype="bfloat16")
cpu, meta = torch.device("cpu"), torch.device("meta")
def build(layers, home):
    shape.num_hidden_layers = layers
    make = lambda: transformers.LlamaForCausalLM._from_config(shape, dtype=torch.bfloat16)
    options = LoadOptions(precision="bf16", device=cpu, weights="random")
    return random_weights.build(make, options, ["lm_head"], home)
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
build(1, lambda path: meta)
before = peak()
model = build(24, lambda path: meta if "layers" in path else cpu)
print(sum(one.nbytes for one in model.parameters()), peak() - before)
"""
    settled = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}  # what is freed goes back to the system at once
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=settled)
    size, growth = map(int, done.stdout.split())
    assert size > 600e6
    assert growth < 0.1 * size


def test_autocast_stays_within_the_hooks(folders: dict[str, Path], over: Any) -> None:
    """WHEN a model over devices is put in autocast THEN its modules are still moved, and it computes in FP16."""
    loaded = over(folders["gpt2"], ("transformer.h.1",))
    plain = load_model(str(folders["gpt2"]), device="cpu")
    for loaded_model in (loaded, plain):
        put_in_autocast(loaded_model.model, torch.device("cpu"))
    assert logits(loaded.model).dtype is torch.float16
    assert torch.equal(logits(loaded.model), logits(plain.model))


def test_the_note_names_what_waits() -> None:
    """GIVEN modules on the host beside a GPU THEN the note names them and the GPU; else there is none."""
    gpu = torch.device("cuda", 1)
    layers = [f"model.layers.{number}" for number in range(5)]
    many = Placement({"": gpu, **dict.fromkeys(layers, HOST)}, gpu)
    assert offload_notes(many) == (reason("waiting-modules", names=layers, device="cuda:1"),)
    assert offload_notes(Placement({"": gpu}, gpu)) == ()


def test_hooks_are_there_without_anything_waiting(folders: dict[str, Path]) -> None:
    """WHEN a model is dispatched THEN its root moves inputs to the main device and every layer has its hook."""
    model: Any = load_model(str(folders["llama"]), device="cpu").model
    expected = logits(model)
    names = ["model.embed_tokens", "model.layers.0", "model.layers.1", "model.norm", "model.rotary_emb", "lm_head"]
    dispatch(model, Placement(dict.fromkeys(names, COMPUTING), COMPUTING))
    assert model._hf_hook.io_same_device
    assert all(hasattr(layer, "_hf_hook") for layer in model.model.layers)
    assert torch.equal(logits(model), expected)
