"""A plan as a checkpoint that loads elsewhere: compressed-tensors, which vLLM and transformers read.

Weights and scales are those of the layers that were verified (`energyscope.loading.torch_kernels`). Only they
are formats of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from energyscope.errors import ModelError, UsageError
from energyscope.loading.linears import group_of, is_linear
from energyscope.loading.torch_kernels import LAYERS, RowScaledLinear, int4_groups, round_weight
from energyscope.planning.applying import precisions_of

_PACKED = "pack-quantized"


@dataclass(frozen=True)
class _Format:
    """A precision in compressed-tensors: its format, the weights' type, and whether inputs are quantized too."""

    name: str
    kind: str
    bits: int
    quantizes_inputs: bool


_FORMATS = {
    "fp8": _Format("float-quantized", "float", 8, quantizes_inputs=True),
    "w8a8": _Format("int-quantized", "int", 8, quantizes_inputs=True),
    "w8a16": _Format(_PACKED, "int", 8, quantizes_inputs=False),
    "int4": _Format(_PACKED, "int", 4, quantizes_inputs=False),
}


def export_plan(
    model: Any, plan: str | Path | Mapping[str, Any], folder: str | Path, tokenizer: Any = None, *,
    workload: str | None = None, force: bool = False,
) -> Path:  # fmt: skip
    """Write a model with the precisions of a plan to a folder, and return it; the model stays as it is.

    Args:
        model: the model of the plan as transformers loads it, unquantized, in the plan's own precision.
        plan: a ``plan.json``, the run's folder that holds it, or what it holds.
        folder: is made; it must not hold files yet.
        tokenizer: is saved beside the model, where there is one.
        workload: for which the plan is, such as ``decode:32``; None: the first that was planned for.
        force: export it even if it was not shown to save anything, or breaks its budget.

    Raises:
        UsageError: the folder holds files, the plan changes nothing, or it has a precision without such a format.
        RunError: the file cannot be read, or is of a newer version.
        ModelError: the model is another one, or its linears have no such format.

    """
    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(f"{target} holds files: name a folder that does not exist")
    chosen = precisions_of(model, plan, workload, force=force)
    if not chosen:
        raise UsageError("the plan changes nothing: there is nothing to export")
    if others := sorted(set(chosen.values()) - set(_FORMATS)):
        raise UsageError(
            f"{', '.join(others)} has no format in compressed-tensors checkpoints: plan with --plan-precisions "
            f"{','.join(_FORMATS)}, or apply the plan with energyscope.apply_plan"
        )
    check_exportable(model, chosen)
    weights = dict(model.state_dict())
    for path, precision in chosen.items():
        weight = weights.pop(f"{path}.weight")
        weights |= {f"{path}.{name}": tensor for name, tensor in _stored(weight, precision).items()}
    _save(model, weights, chosen, target)
    if tokenizer is not None:
        tokenizer.save_pretrained(target)
    return target


def check_exportable(model: nn.Module, paths: Iterable[str]) -> None:
    """Refuse linears that the format does not hold: GPT-2's Conv1D, which transformers loads without its scales.

    Raises:
        ModelError: there is one.

    """
    for path in paths:
        module = model.get_submodule(path)
        if not isinstance(module, nn.Linear):
            raise ModelError(
                f"{path} is a {type(module).__name__}, and compressed-tensors has Linear only: do not export, and "
                "apply the plan in Python with energyscope.apply_plan"
            )


def _stored(weight: Tensor, precision: str) -> dict[str, Tensor]:
    """Return the tensors of one linear's weight (out, in) by the names that the format gives them."""
    layer, form = LAYERS[precision], _FORMATS[precision]
    if issubclass(layer, RowScaledLinear):
        values, scales = round_weight(weight, layer.kind, weight.dtype)
        if form.name != _PACKED:
            return {"weight": values.contiguous(), "weight_scale": scales.to(weight.dtype).contiguous()}
        codes = values.int() + 2 ** (form.bits - 1)
    else:
        codes, scales = int4_groups(weight.float(), weight.dtype)
        codes = codes.flatten(1)
    return {
        "weight_packed": packed(codes, form.bits),
        "weight_scale": scales.to(weight.dtype).contiguous(),
        "weight_shape": torch.tensor(weight.shape),
    }


def packed(codes: Tensor, bits: int) -> Tensor:
    """Return codes (n, m) from 0 on, of 4 or 8 bits, packed to int32, the first in its lowest bits."""
    per_word = 32 // bits
    rows, columns = codes.shape
    filled = nn.functional.pad(codes.to(torch.int64), (0, -columns % per_word)).view(rows, -1, per_word)
    words = (filled << torch.arange(per_word, device=codes.device) * bits).sum(dim=2)
    return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)


def _save(model: Any, weights: dict[str, Tensor], chosen: Mapping[str, str], folder: Path) -> None:
    """Write weights and configuration; tied weights are stored once, as transformers does it."""
    from safetensors.torch import save_file

    tied = set(getattr(model, "all_tied_weights_keys", None) or ())
    folder.mkdir(parents=True, exist_ok=True)
    stored = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items() if name not in tied}
    save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    config = model.config.to_dict()
    config["quantization_config"] = _configuration(model, chosen)
    config["architectures"] = [type(model).__name__]
    type(model.config).from_dict(config).save_pretrained(folder)
    if getattr(model, "generation_config", None) is not None:
        model.generation_config.save_pretrained(folder)


def _configuration(model: nn.Module, chosen: Mapping[str, str]) -> dict[str, Any]:
    """Return the configuration that names every linear exactly: patterns would match others."""
    targets: dict[tuple[str, int | None], list[str]] = {}
    for path, precision in sorted(chosen.items(), key=lambda item: list(_FORMATS).index(item[1])):
        linear: Any = model.get_submodule(path)
        group_size = group_of(linear.in_features) if precision == "int4" else None
        targets.setdefault((precision, group_size), []).append(path)
    groups = [{"targets": paths, **_scheme(*key)} for key, paths in targets.items()]
    formats = {str(group["format"]) for group in groups}
    linears = [path for path, module in model.named_modules() if is_linear(module)]
    return {
        "quant_method": "compressed-tensors",
        "format": formats.pop() if len(formats) == 1 else "mixed-precision",
        "quantization_status": "compressed",
        "config_groups": {f"group_{number}": group for number, group in enumerate(groups)},
        "ignore": [path for path in linears if path not in chosen],
    }


def _scheme(precision: str, group_size: int | None) -> dict[str, Any]:
    """Return how weights and inputs are quantized; without a ``group_size``, each output has one scale."""
    form = _FORMATS[precision]
    values = {"num_bits": form.bits, "type": form.kind, "symmetric": True}
    shared = {"strategy": "group", "group_size": group_size} if group_size else {"strategy": "channel"}
    inputs = {**values, "strategy": "token", "dynamic": True} if form.quantizes_inputs else None
    return {
        "format": form.name, "weights": {**values, **shared, "dynamic": False}, "input_activations": inputs,
    }  # fmt: skip
