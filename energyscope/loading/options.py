"""How a model is to be loaded, as one value that the loading steps share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch

Weights = Literal["pretrained", "random"]

NATIVE = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
QUANTIZED = ("int8", "nf4", "fp4")
PRECISIONS = (*NATIVE, *QUANTIZED)


@dataclass(frozen=True)
class LoadOptions:
    """The options of `energyscope.loading.load_model`, with the device found."""

    precision: str
    device: torch.device
    weights: Weights = "pretrained"
    seed: int = 0
    trust_remote_code: bool = False
    allow_pickle: bool = False

    @property
    def dtype(self) -> torch.dtype:
        """The data type of everything that is not quantized.

        bitsandbytes' INT8 kernels take float16 inputs on a GPU, and would convert every other type.
        """
        import torch

        if self.precision in NATIVE:
            dtype: torch.dtype = getattr(torch, NATIVE[self.precision])
            return dtype
        if self.device.type == "cpu":
            return torch.float32
        return torch.float16 if self.precision == "int8" else torch.bfloat16
