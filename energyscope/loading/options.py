"""How a model is to be loaded, as one value that the loading steps share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from energyscope.errors import UsageError

if TYPE_CHECKING:
    import torch

Weights = Literal["pretrained", "random"]

NATIVE = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
QUANTIZED = ("int8", "nf4", "fp4")
FOUR_BIT = ("nf4", "fp4")
PRECISIONS = (*NATIVE, *QUANTIZED)


@dataclass(frozen=True)
class LoadOptions:
    """The options of `energyscope.loading.load_model`, with the devices found.

    ``device`` is the one that inputs go to; ``devices`` those that ``device_map`` may spread the model over, that
    one first (empty without a map). ``compute_dtype`` None is ``dtype``.
    """

    precision: str
    device: torch.device
    weights: Weights = "pretrained"
    seed: int = 0
    trust_remote_code: bool = False
    allow_pickle: bool = False
    device_map: str | None = None
    devices: tuple[torch.device, ...] = ()
    double_quant: bool = False
    compute_dtype: str | None = None
    skip_modules: tuple[str, ...] = ()
    tensor_parallel: bool = False

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
    def compute(self) -> torch.dtype:
        """The data type that 4-bit layers multiply in."""
        return self.dtype if self.compute_dtype is None else _dtype(self.compute_dtype)


def _dtype(name: str) -> torch.dtype:
    import torch

    dtype: torch.dtype = getattr(torch, NATIVE[name])
    return dtype


def check_quantization(
    precision: str,
    *,
    double_quant: bool = False,
    compute_dtype: str | None = None,
    skip_modules: Sequence[str] = (),
) -> None:
    """Refuse bitsandbytes' options that a precision has no use for.

    Raises:
        UsageError: one of them is given for another precision, or the data type is unknown.

    """
    if compute_dtype is not None and compute_dtype not in NATIVE:
        raise UsageError(f"--compute-dtype {compute_dtype!r} is not known: use one of {', '.join(NATIVE)}")
    four_bit = {"--double-quant": double_quant, "--compute-dtype": compute_dtype is not None}
    given = [option for option, is_given in four_bit.items() if is_given]
    if given and precision not in FOUR_BIT:
        raise UsageError(
            f"{given[0]} is for 4-bit weights, not {precision}: "
            f"use --precision {' or '.join(FOUR_BIT)}, or leave it out"
        )
    if skip_modules and precision not in QUANTIZED:
        raise UsageError(
            f"--skip-modules keeps modules unquantized, and {precision} quantizes none: "
            f"use --precision {', '.join(QUANTIZED)}, or leave it out"
        )
