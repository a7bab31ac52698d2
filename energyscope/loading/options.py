"""How a model is loaded: the settings that a caller gives, and the options with the devices found."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from energyscope.errors import UsageError

if TYPE_CHECKING:
    import torch

Settings = TypeVar("Settings")

NATIVE = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
QUANTIZED = ("fp8", "int8", "w8a8", "w8a16", "int4", "nf4", "fp4")
BY_TORCH = ("fp8", "w8a8", "w8a16", "int4")  # need torch alone (`torch_kernels`); the others are bitsandbytes'
EIGHT_BIT = ("fp8", "int8", "w8a8", "w8a16")
FOUR_BIT = ("nf4", "fp4")
PRECISIONS = (*NATIVE, *QUANTIZED)


@dataclass(frozen=True, kw_only=True)
class _Choices:
    """What `LoadSettings` and `LoadOptions` have in common."""

    precision: str = "fp32"
    weights: Literal["pretrained", "random"] = "pretrained"
    seed: int = 0
    trust_remote_code: bool = False
    allow_pickle: bool = False
    device_map: str | None = None
    double_quant: bool = False
    compute_dtype: str | None = None
    skip_modules: Sequence[str] = ()
    tensor_parallel: bool = False
    adapter: str | None = None


@dataclass(frozen=True, kw_only=True)
class LoadSettings(_Choices):
    """How a model is asked for: the keywords of `energyscope.loading.load_model`.

    ``precision`` is one of `PRECISIONS`, of which those of `QUANTIZED` quantize all linears but the head;
    ``device`` auto (the GPU if there is one), cpu, cuda or cuda:N. ``weights`` ``random`` builds the true shape
    with random weights from ``seed``. ``trust_remote_code`` runs the model's own Python code;
    ``allow_pickle`` accepts ``.bin`` weights, which can run code when they are read.

    ``device_map`` spreads the model over devices: auto, balanced, sequential, or a JSON file of module paths and
    devices (see `energyscope.loading.sharding.device_maps`); ``devices`` are the GPUs that a word may take, in
    their order, all if none is named. ``double_quant`` quantizes the scales of 4-bit weights, ``compute_dtype``
    (fp32, fp16, bf16; default: that of the other layers) is what 4-bit layers multiply in, and ``skip_modules``
    names more modules that stay unquantized. ``tensor_parallel`` loads this process's share of a model that is
    split over the processes joined before (`energyscope.loading.tensor_parallel.join`). ``adapter`` names the
    adapter, where it is not to be the one that serves the model's type.
    """

    device: str = "auto"
    devices: Sequence[torch.device] = ()

    def resolved(self) -> LoadOptions:
        """Return these settings with the devices found.

        Raises:
            UsageError: the device map cannot be used here.
            DeviceError: there is no such device.

        """
        from energyscope.loading.devices import pick_device
        from energyscope.loading.sharding.device_maps import map_devices

        devices = map_devices(self.device_map, self.device, self.devices) if self.device_map else ()
        device = devices[0] if devices else pick_device(self.device)
        return LoadOptions(**{**vars(self), "device": device, "devices": devices})


@dataclass(frozen=True, kw_only=True)
class LoadOptions(_Choices):
    """`LoadSettings` with the devices found on this machine, as the loading steps share them.

    ``device`` is the one that inputs go to; ``devices`` those that ``device_map`` may spread the model over, that
    one first (empty without a map).
    """

    device: torch.device
    devices: tuple[torch.device, ...] = ()

    @property
    def dtype(self) -> torch.dtype:
        """The data type of everything that is not quantized.

        bitsandbytes' INT8 kernels take float16 inputs on a GPU, and would convert every other type.
        """
        import torch

        if self.precision in NATIVE:
            return _dtype(self.precision)
        if self.device.type == "cpu":
            return torch.float32
        return torch.float16 if self.precision == "int8" else torch.bfloat16

    @property
    def widest(self) -> str:
        """The precision that takes the most room while a model is loaded.

        Trained weights for PyTorch's kernels are read as they are, and then quantized one by one.
        """
        return "bf16" if self.precision in BY_TORCH and self.weights == "pretrained" else self.precision

    @property
    def compute(self) -> torch.dtype:
        """The data type that 4-bit layers multiply in."""
        return self.dtype if self.compute_dtype is None else _dtype(self.compute_dtype)


def _dtype(name: str) -> torch.dtype:
    import torch

    dtype: torch.dtype = getattr(torch, NATIVE[name])
    return dtype


def check_precision(precision: str) -> None:
    """Refuse what a model cannot be loaded in.

    Raises:
        UsageError: it is not one of ``PRECISIONS``.

    """
    if precision not in PRECISIONS:
        raise UsageError(f"a model cannot be loaded in {precision!r}: use one of {', '.join(PRECISIONS)}")


def check_quantization(
    precision: str,
    *,
    double_quant: bool = False,
    compute_dtype: str | None = None,
    skip_modules: Sequence[str] = (),
) -> None:
    """Refuse bitsandbytes' options that do not apply to a precision.

    Raises:
        UsageError: one of them is given for another precision, or the data type is unknown.

    """
    if compute_dtype is not None and compute_dtype not in NATIVE:
        raise UsageError(f"--compute-dtype {compute_dtype!r} is not known: use one of {', '.join(NATIVE)}")
    four_bit = {"--double-quant": double_quant, "--compute-dtype": compute_dtype is not None}
    used = [option for option, is_used in four_bit.items() if is_used]
    if used and precision not in FOUR_BIT:
        raise UsageError(
            f"{used[0]} is for 4-bit weights, not {precision}: "
            f"use --precision {' or '.join(FOUR_BIT)}, or leave it out"
        )
    if skip_modules and precision not in QUANTIZED:
        raise UsageError(
            f"--skip-modules keeps modules unquantized, and {precision} quantizes none: "
            f"use --precision {', '.join(QUANTIZED)}, or leave it out"
        )


def in_precision(settings: Settings, precision: str) -> Settings:
    """Return `LoadSettings`, or others with these fields, in another precision, without options of the old one."""
    given: Any = settings
    four_bit = precision in FOUR_BIT
    result: Settings = replace(
        given,
        precision=precision,
        double_quant=given.double_quant and four_bit,
        compute_dtype=given.compute_dtype if four_bit else None,
        skip_modules=given.skip_modules if precision in QUANTIZED else (),
    )
    return result


def resolve_precision(reference: str, precision: str, device: str) -> str:
    """Return ``precision``, or for ``auto`` what the weights are stored in on a GPU and fp32 on a CPU.

    Where it is not known without a download, fp32.
    """
    from energyscope.loading.devices import pick_device
    from energyscope.loading.sources import find_model

    if precision != "auto":
        return precision
    if pick_device(device).type == "cpu":
        return "fp32"
    source = find_model(reference)
    if source.checkpoint is not None:
        return _stored_precision(source.checkpoint.configuration)
    config = None if source.folder is None else source.folder / "config.json"
    if config is None or not config.is_file():
        return "fp32"
    try:
        return _stored_precision(json.loads(config.read_text(encoding="utf-8")))
    except ValueError:
        return "fp32"  # loading says what is wrong with the file


def _stored_precision(configuration: Any) -> str:
    stored = configuration.get("dtype") or configuration.get("torch_dtype") or "float32"
    name = str(stored).removeprefix("torch.")
    return next((precision for precision, dtype in NATIVE.items() if dtype == name), "fp32")
