"""Where the modules of a model go, settled on the meta device: GPUs need not be there for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import config, model_class

from energyscope.errors import DeviceError, UsageError
from energyscope.loading.options import LoadOptions
from energyscope.loading.random_weights import float32_bytes
from energyscope.loading.sharding.placement import Placement
from energyscope.loading.sharding.placing import infer_placement, place
from energyscope.loading.sizes import planned_bytes, planned_parameters

CPU, FIRST, SECOND = torch.device("cpu"), torch.device("cuda", 0), torch.device("cuda", 1)
HEAD = ["lm_head"]
LAYERS = {"llama": "LlamaDecoderLayer", "gpt2": "GPT2Block"}


def shape(family: str = "llama", **changes: Any) -> Any:
    """A model on the meta device, of eight layers unless told."""
    layers = {"llama": "num_hidden_layers", "gpt2": "n_layer"}[family]
    with torch.device("meta"):
        return model_class(family)(config(family, **{layers: 8, **changes}))


def options(precision: str = "fp32", device_map: str = "auto", **changes: Any) -> LoadOptions:
    given = {"weights": "pretrained", "device_map": device_map, "devices": (FIRST, SECOND), **changes}
    return LoadOptions(precision=precision, device=FIRST, **given)


def by_device(model: Any, placement: Placement, precision: str, **changes: Any) -> dict[torch.device, int]:
    """The bytes of weights on each device."""
    sizes: dict[torch.device, int] = {}
    for path, size in planned_parameters(model, precision, HEAD, **changes):
        home = placement.device_of(path)
        sizes[home] = sizes.get(home, 0) + size
    return sizes


def infer(model: Any, choices: LoadOptions, **free: float) -> Placement:
    names = {"first": FIRST, "second": SECOND, "host": CPU}
    rooms = {names[name]: int(size) for name, size in free.items()}
    return infer_placement(model, choices, HEAD, [LAYERS[model.config.model_type]], rooms, "giant in fp32")


@pytest.mark.parametrize(
    ("precision", "double"), [("fp32", False), ("int8", False), ("nf4", False), ("nf4", True)]
)
@pytest.mark.parametrize("word", ["auto", "balanced", "sequential"])
def test_what_is_placed_fits_and_no_layer_is_split(word: str, precision: str, double: bool) -> None:
    """GIVEN two GPUs that together have room, in whatever precision, THEN each part fits and layers are whole."""
    model = shape(hidden_size=64, intermediate_size=256)
    total = planned_bytes(model, precision, HEAD, double_quant=double)
    choices = options(precision, word, double_quant=double)
    free = {"first": total * 0.85, "second": total * 0.85}
    placement = infer(model, choices, **free)
    placed = by_device(model, placement, precision, double_quant=double)
    assert placement.devices == (FIRST, SECOND)
    assert placement.offloaded == ()
    assert all(size <= total * 0.85 for size in placed.values())
    for layer in range(8):
        inner = [name for name, _ in model.model.layers[layer].named_parameters()]
        assert len({placement.device_of(f"model.layers.{layer}.{name}") for name in inner}) == 1
    if word == "sequential":
        assert placed[FIRST] > placed[SECOND]
    else:
        assert max(placed.values()) < 0.7 * total


def test_quantized_weights_need_less_room() -> None:
    """GIVEN GPUs that are too small for FP32 THEN 4-bit weights are placed there by their own sizes."""
    model = shape(hidden_size=64, intermediate_size=256)
    size = 0.75 * planned_bytes(model, "nf4", HEAD)
    assert infer(model, options("nf4"), first=size, second=size).devices == (FIRST, SECOND)
    with pytest.raises(DeviceError):
        infer(model, options("fp32"), first=size, second=size)


def test_a_model_that_one_gpu_holds_has_one_device() -> None:
    """GIVEN the first GPU has room for all WHEN filled in sequence THEN nothing is spread."""
    placement = infer(shape(), options(device_map="sequential"), first=1e9, second=1e9)
    assert placement.devices == (FIRST,)
    assert placement.device_of("model.layers.3.mlp.up_proj.weight") == FIRST


def test_a_busy_first_gpu_leaves_the_model_to_the_second() -> None:
    """GIVEN another process fills the first GPU THEN the second has the model and its inputs."""
    placement = infer(shape(), options(), first=0, second=1e9)
    assert placement.main == SECOND
    assert placement.devices == (SECOND,)


def test_tied_weights_go_to_one_device() -> None:
    """GIVEN a head that is its embedding THEN both are on one device wherever the layers go."""
    model = shape("gpt2")
    total = planned_bytes(model, "fp32", HEAD)
    placement = infer(model, options(), first=total * 0.8, second=total * 0.8)
    assert placement.devices == (FIRST, SECOND)
    assert placement.device_of("lm_head.weight") == placement.device_of("transformer.wte.weight")


def test_what_finds_no_room_waits_on_the_host() -> None:
    """GIVEN GPUs that are too small together THEN the rest waits in host memory, and runs on the main GPU."""
    model = shape()
    total = planned_bytes(model, "fp32", HEAD)
    placement = infer(model, options(), first=total * 0.4, second=total * 0.4, host=1e9)
    assert CPU in placement.devices
    assert placement.offloaded
    assert all(placement.runs_on(path) == FIRST for path in placement.offloaded)


def test_no_arrangement_says_what_is_free_where() -> None:
    """WHEN weights fit nowhere, or on the host alone, THEN one line says what is needed and each device's room."""
    model = shape(hidden_size=512, intermediate_size=4096)
    with pytest.raises(DeviceError) as error:
        infer(model, options(), first=1.4e8, second=4e7, host=4e7)
    line = str(error.value)
    assert line.startswith("giant in fp32 needs about 0.2 GB")
    assert "cuda:0 has 0.1 GB free, cuda:1 has 0.0 GB free, the host has 0.0 GB free" in line
    with pytest.raises(DeviceError, match="more GPUs"):
        infer(model, options(), first=1e5, second=1e5, host=1e12)
    with pytest.raises(DeviceError, match="where alone quantized weights can be"):
        infer(model, options("nf4"), first=1e5, second=1e5)


def test_random_weights_leave_room_to_be_drawn_in_float32() -> None:
    """GIVEN BF16 random weights THEN the main GPU keeps room for what is drawn there in float32."""
    model = shape(vocab_size=4000).to(torch.bfloat16)
    room = planned_bytes(model, "bf16", HEAD) * 1.2
    read = infer(model, options("bf16", "sequential"), first=room, second=1e9)
    drawn = infer(model, options("bf16", "sequential", weights="random"), first=room, second=1e9)
    assert float32_bytes(model) >= 4 * 2 * 4000 * 16
    assert by_device(model, read, "bf16").get(SECOND, 0) < by_device(model, drawn, "bf16")[SECOND]


# files


@pytest.fixture
def placed(tmp_path: Path) -> Any:
    """Return a function that places a model by a file."""

    def by_file(
        model: Any, entries: dict[str, Any], precision: str = "fp32", devices: Any = (FIRST, SECOND)
    ) -> Any:
        path = tmp_path / "map.json"
        path.write_text(json.dumps(entries), encoding="utf-8")
        choices = options(precision, str(path), devices=devices)
        return place(model, choices, HEAD, [LAYERS[model.config.model_type]], "giant")

    return by_file


@pytest.fixture
def roomy(monkeypatch: pytest.MonkeyPatch) -> None:
    """GPUs with a gigabyte free each."""
    from energyscope.loading.sharding import placing

    monkeypatch.setattr(placing, "_free", lambda device: 10**9)


def test_the_nearest_entry_decides(placed: Any, roomy: None) -> None:
    """GIVEN a file with an entry for all and exceptions THEN it becomes the fewest whole modules."""
    placement = placed(
        shape(num_hidden_layers=2),
        {"": 1, "model.layers.0": 0, "model.embed_tokens": "cpu"},
        devices=(SECOND, FIRST),
    )
    assert placement.main == SECOND
    assert placement.modules == {
        "model.embed_tokens": CPU,
        "model.layers.0": FIRST,
        "model.layers.1": SECOND,
        "model.norm": SECOND,
        "model.rotary_emb": SECOND,
        "lm_head": SECOND,
    }
    assert placement.devices == (SECOND, CPU, FIRST)
    assert placement.offloaded == ("model.embed_tokens",)
    assert placement.runs_on("model.embed_tokens.weight") == SECOND


def test_one_device_in_a_file_is_the_whole_model(placed: Any, roomy: None) -> None:
    """GIVEN a file whose entries all name one device THEN there is nothing to spread."""
    placement = placed(shape(), {"model": 1, "lm_head": "cuda:1"}, devices=(SECOND,))
    assert placement.modules == {"": SECOND}
    assert placement.devices == (SECOND,)


@pytest.mark.parametrize(
    ("family", "entries", "complaint"),
    [
        ("llama", {"": 0, "model.layer.1": 1}, "which the model does not have: did you mean 'model.layers.1'"),
        ("llama", {"": 0, "zzzzzzzz": 1}, "which the model does not have$"),
        ("llama", {"model.layers": 0, "model.norm": 1}, "leaves out lm_head, model.embed_tokens: add them, or"),
        ("llama", {"": 0, "model.layers.1.mlp": 1}, r"model.layers.1 \(LlamaDecoderLayer\) adds its parts up"),
        ("gpt2", {"": 0, "lm_head": 1}, "transformer.wte.weight are the same weights|are the same weights"),
    ],
)  # fmt: skip
def test_a_file_that_does_not_fit_the_model_is_refused(
    placed: Any, roomy: None, family: str, entries: dict[str, Any], complaint: str
) -> None:
    """WHEN a file names what is not there, leaves modules out or tears them apart THEN one line says so."""
    with pytest.raises(UsageError, match=complaint):
        placed(shape(family), entries)


def test_part_of_a_layer_may_wait_where_the_rest_runs(placed: Any, roomy: None) -> None:
    """GIVEN a layer on the main GPU whose MLP waits on the host THEN it runs in one place; elsewhere in two."""
    assert placed(shape(), {"": 0, "model.layers.1.mlp": "cpu"}).offloaded == ("model.layers.1.mlp",)
    with pytest.raises(UsageError, match="adds its parts up"):
        placed(shape(), {"": 0, "model.layers.1": 1, "model.layers.1.mlp": "cpu"})


def test_quantized_layers_do_not_wait_on_the_host(placed: Any, roomy: None) -> None:
    """WHEN a file lets quantized layers wait THEN it is refused; what is not quantized may."""
    with pytest.raises(UsageError, match=r"\(model\.layers\.1\..*--skip-modules"):
        placed(shape(), {"": 0, "model.layers.1": "cpu"}, "nf4")
    assert placed(shape(), {"": 0, "lm_head": "cpu"}, "nf4").offloaded == ("lm_head",)


def test_a_file_that_puts_too_much_on_a_gpu_is_refused(placed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """WHEN a part does not fit where the file puts it THEN the line says how much and what is free."""
    from energyscope.loading.sharding import placing

    monkeypatch.setattr(placing, "_free", lambda device: 10**9 if device == FIRST else 1)
    with pytest.raises(
        DeviceError, match=r"giant: the device map puts .* on cuda:1, and cuda:0 has 1\.0 GB free, cuda:1"
    ):
        placed(shape(), {"": 0, "model.layers.1": 1})
