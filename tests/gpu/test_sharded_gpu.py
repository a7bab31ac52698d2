"""On real GPUs: a model over two of them computes what it computes on one, and is built beside no second copy."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch
from tiny_models import save_model

from energyscope.loading import load_model, weight_bytes
from energyscope.loading.devices import cuda_uuid
from energyscope.loading.sharding import placing
from energyscope.metering.nvml.devices import bare
from energyscope.settings.run import RunSettings
from energyscope.stages.measured_devices import find_devices

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(torch.cuda.device_count() < 2, reason="a model over two GPUs needs two"),
]
FIRST, SECOND, HOST = torch.device("cuda", 0), torch.device("cuda", 1), torch.device("cpu")
IDS = torch.tensor([[2, 5, 6, 7, 3, 9, 4, 8]])
SIZES = {
    "llama": {"num_hidden_layers": 8, "hidden_size": 256, "intermediate_size": 1024},
    "gpt2": {"n_layer": 8, "n_embd": 256},
}


@pytest.fixture(scope="module", params=["llama", "gpt2"])
def folder(tmp_path_factory, request):
    return str(
        save_model(tmp_path_factory.mktemp("models") / request.param, request.param, **SIZES[request.param])
    )


def logits(loaded, device=None):
    ids = IDS.to(device or loaded.device)
    with torch.inference_mode():
        return loaded.model(input_ids=ids, use_cache=False).logits


def near(found, expected):
    """Boards of one kind give the same bits; two kinds need not."""
    return torch.allclose(found.cpu().float(), expected.cpu().float(), atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("weights", ["pretrained", "random"])
@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8", "nf4"])
def test_a_model_over_two_gpus_computes_what_it_does_on_one(folder, precision, weights):
    """GIVEN a word that spreads THEN both GPUs hold a part, and the numbers are those of one GPU."""
    plain = load_model(folder, precision=precision, weights=weights, device="cuda:0")
    loaded = load_model(folder, precision=precision, weights=weights, device_map="auto", devices=(FIRST, SECOND))
    assert loaded.devices == (FIRST, SECOND)
    assert loaded.device == FIRST
    assert set(loaded.device_map.values()) == {"cuda:0", "cuda:1"}
    assert loaded.offloaded == ()
    assert {one.device for one in loaded.model.parameters()} == {FIRST, SECOND}
    expected = plain.model.state_dict()
    for name, one in loaded.model.state_dict().items():
        if isinstance(one, torch.Tensor):
            assert torch.equal(one.cpu(), expected[name].cpu()), name
    found = logits(loaded)
    assert found.device == FIRST
    assert near(found, logits(plain))
    assert weight_bytes(loaded.model) == weight_bytes(plain.model)


def test_the_gpu_that_is_named_first_takes_the_inputs(folder):
    """GIVEN the GPUs in another order THEN the embedding and the inputs are on the first of that order."""
    loaded = load_model(folder, device_map="auto", devices=(SECOND, FIRST))
    assert loaded.devices == (SECOND, FIRST)
    assert loaded.model.get_input_embeddings().weight.device == SECOND
    assert near(logits(loaded), logits(load_model(folder, device="cuda:0")))


def test_a_small_first_gpu_is_filled_before_the_next(folder, monkeypatch):
    """GIVEN little free memory on the first GPU WHEN filled in sequence THEN the rest goes to the second."""
    plain = load_model(folder, device="cuda:0")
    total = weight_bytes(plain.model)
    monkeypatch.setattr(placing, "_free", lambda device: int(0.7 * total) if device.type == "cuda" else 0)
    loaded = load_model(folder, device_map="sequential", devices=(FIRST, SECOND))
    assert loaded.devices == (FIRST, SECOND)
    assert near(logits(loaded), logits(plain))


def test_a_model_that_fits_one_gpu_is_not_dispatched_in_sequence(folder):
    """GIVEN room on the first GPU WHEN filled in sequence THEN the model is as without a map."""
    loaded = load_model(folder, device_map="sequential", devices=(FIRST, SECOND))
    assert (loaded.devices, loaded.device_map) == ((FIRST,), None)
    assert not any(hasattr(module, "_hf_hook") for module in loaded.model.modules())


@pytest.mark.parametrize("weights", ["pretrained", "random"])
def test_a_file_with_a_layer_on_the_host_is_followed(folder, tmp_path, weights):
    """GIVEN a file with one layer waiting on the host THEN it is copied in every pass, and the note says so."""
    layers = load_model(folder, device="cpu").adapter.layers
    path = tmp_path / "map.json"
    path.write_text(json.dumps({"": 1, f"{layers}.2": "cpu", f"{layers}.3": 0}), encoding="utf-8")
    loaded = load_model(folder, device_map=str(path), weights=weights)
    assert loaded.device == SECOND
    assert set(loaded.devices) == {SECOND, FIRST, HOST}
    assert loaded.offloaded == (f"{layers}.2",)
    assert (loaded.notes[-1].code, loaded.notes[-1].values["device"]) == ("waiting-modules", "cuda:1")
    assert near(logits(loaded), logits(load_model(folder, device="cuda:1", weights=weights)))


def test_generation_goes_over_both_gpus(folder):
    """GIVEN a KV cache WHEN tokens are generated over two GPUs THEN they are those of one GPU."""
    plain = load_model(folder, device="cuda:0")
    loaded = load_model(folder, device_map="auto", devices=(FIRST, SECOND))
    options = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0}
    with torch.inference_mode():
        found, expected = (one.model.generate(IDS.to(one.device), **options) for one in (loaded, plain))
    assert torch.equal(found.cpu(), expected.cpu())


def test_random_weights_over_gpus_pass_by_the_host():
    """GIVEN Llama 3.2 1B, 2.5 GB, WHEN built over two GPUs THEN host memory grows by a small part of it."""
    code = (
        "import resource; from energyscope.loading import load_model; "
        "load_model('tiny-gpt2', device='cuda:0'); load_model('tiny-gpt2', device='cuda:1'); "
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "loaded = load_model('llama-3.2-1b', weights='random', precision='bf16', device_map='auto')\n"
        "print(len(loaded.devices), (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e6)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    devices, growth_gb = done.stdout.split()
    assert int(devices) >= 2
    assert float(growth_gb) < 0.6


def test_all_gpus_are_targets():
    """GIVEN --device-map auto THEN every visible GPU is measured, in the order of its devices."""
    found = find_devices(RunSettings("gpt2", device_map="auto"))
    assert len(found.devices) == torch.cuda.device_count()
    assert [bare(uuid) for uuid in found.gpus] == [bare(cuda_uuid(device)) for device in found.devices]
