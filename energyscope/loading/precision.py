"""The precision that ``auto`` means for a model on a device."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from energyscope.loading.devices import pick_device
from energyscope.loading.sources import find_model

_NAMES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}


def resolve_precision(reference: str, precision: str, device: str) -> str:
    """Return ``precision``, or for ``auto`` what the weights are stored in on a GPU and fp32 on a CPU.

    Where it is not known without a download, fp32.
    """
    if precision != "auto":
        return precision
    if pick_device(device).type == "cpu":
        return "fp32"
    found = find_model(reference)
    if found.checkpoint is not None:
        return _named(found.checkpoint.configuration)
    config = None if found.folder is None else Path(found.folder) / "config.json"
    if config is None or not config.is_file():
        return "fp32"
    try:
        return _named(json.loads(config.read_text(encoding="utf-8")))
    except ValueError:
        return "fp32"  # loading says what is wrong with the file


def _named(configuration: Any) -> str:
    stored = configuration.get("dtype") or configuration.get("torch_dtype") or "float32"
    return _NAMES.get(str(stored).removeprefix("torch."), "fp32")
