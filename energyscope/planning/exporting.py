"""A plan as a folder that loads elsewhere: weights, a configuration and a README.

Which precisions a format holds is in `energyscope.loading.checkpoint_formats`, what it stores in `checkpoints`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from energyscope.errors import ModelError, UsageError
from energyscope.loading.checkpoint_formats import ExportFormat, format_of
from energyscope.loading.cpu_int8 import as_linear
from energyscope.loading.libraries import missing
from energyscope.planning import export_readme
from energyscope.planning.applying import named_plan, precisions_of
from energyscope.planning.checkpoints import bitsandbytes, compressed_tensors, torchao
from energyscope.reasons import Reason, reason

_CHECKPOINTS: dict[str, Any] = {
    "compressed-tensors": compressed_tensors,
    "torchao": torchao,
    "bitsandbytes": bitsandbytes,
}
_LIBRARIES = {  # that write a format: its module, and what to give to pip
    "torchao": ("torchao.quantization", "'energyscope-llm[torchao]'"),
    "bitsandbytes": ("bitsandbytes", "bitsandbytes"),
}


def export_plan(
    model: Any, plan: str | Path | Mapping[str, Any], folder: str | Path, tokenizer: Any = None, *,
    workload: str | None = None, force: bool = False,
    format: str | None = None,  # noqa: A002 - what everybody calls it
) -> Path:  # fmt: skip
    """Write a model with the precisions of a plan to a folder, and return it; the model stays as it is.

    Args:
        model: the model of the plan as transformers loads it, unquantized, in the plan's own precision.
        plan: a ``plan.json``, the run's folder that holds it, or what it holds.
        folder: is made; it must not hold files yet.
        tokenizer: is saved beside the model, where there is one.
        workload: for which the plan is, such as ``decode:32``; None: the first that was planned for.
        force: export it even if it was not shown to save anything, or breaks its budget.
        format: compressed-tensors, torchao or bitsandbytes; None: the first of them that holds the precisions.

    Raises:
        UsageError: the folder holds files, the plan changes nothing, or the format does not hold its precisions.
        RunError: the file cannot be read, or is of a newer version.
        ModelError: the model is another one, or the format does not hold its linears.

    """
    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(f"{target} holds files: name a folder that does not exist")
    chosen = precisions_of(model, plan, workload, force=force)
    if not chosen:
        raise UsageError("the plan changes nothing: there is nothing to export")
    form = format_of(set(chosen.values()), format)
    check_exportable(model, chosen, form)
    document, named = named_plan(plan, workload)
    target.mkdir(parents=True, exist_ok=True)
    _write_weights(model, chosen, form, target)
    _write_configuration(model, chosen, form, target)
    if tokenizer is not None:
        tokenizer.save_pretrained(target)
    kernels = kernels_of("this folder", model, chosen, form)
    text = export_readme.text(
        document, named, chosen, form, kernels.words, type(model).__name__,
        has_tokenizer=tokenizer is not None,
    )  # fmt: skip
    (target / "README.md").write_text(text, encoding="utf-8")
    return target


def check_exportable(model: Any, paths: Iterable[str], form: ExportFormat) -> None:
    """Refuse linears that a format does not hold: GPT-2's Conv1D is one of bitsandbytes' alone.

    Raises:
        ModelError: there is one, or the format's library is missing.

    """
    module, package = _LIBRARIES.get(form.name, ("", ""))
    if module and (why := missing(module, package)):
        raise ModelError(f"no model can be exported for {form.name}: {why.words}")
    if not type(model).__module__.startswith("transformers."):
        raise ModelError(
            f"{type(model).__name__} is the model's own code, which is not exported: apply the plan in Python "
            "(energyscope.apply_plan)"
        )
    for path in paths:
        module = model.get_submodule(path)
        if form.name == "bitsandbytes":
            _check_converted(model, path)
        elif not isinstance(module, nn.Linear):
            raise ModelError(
                f"{path} is a {type(module).__name__}, and {form.name} has Linear only: export for bitsandbytes "
                "(--plan-precisions nf4), or apply the plan in Python, with energyscope.apply_plan"
            )


def _check_converted(model: Any, path: str) -> None:
    """Refuse a linear that transformers leaves unquantized in every model of its class."""
    from transformers.quantizers.quantizers_utils import should_convert_module

    if not should_convert_module(path, list(getattr(model, "_keep_in_fp32_modules", None) or ())):
        raise ModelError(f"transformers keeps {path} unquantized: leave it out of the plan with --skip-modules")


def kernels_of(folder: str, model: nn.Module, chosen: Mapping[str, str], form: ExportFormat) -> Reason:
    """Return what is known of the kernels that an exported model runs on, beside those that were measured."""
    of_torch = "int8" in chosen.values() and next(model.parameters()).device.type == "cpu"
    return reason(f"exported-{form.name}{'-cpu' if of_torch else ''}", folder=folder)


def _write_weights(model: Any, chosen: Mapping[str, str], form: ExportFormat, folder: Path) -> None:
    """Write all weights; tied ones are stored once, as transformers does it."""
    from safetensors.torch import save_file

    weights: dict[str, Tensor] = dict(model.state_dict())
    for path, precision in chosen.items():
        linear = as_linear(model.get_submodule(path))
        del weights[f"{path}.weight"]
        stored = _CHECKPOINTS[form.name].tensors(linear, precision)
        weights |= {f"{path}.{name}": tensor for name, tensor in stored.items()}
    tied = set(getattr(model, "all_tied_weights_keys", None) or ())
    weights = {name: tensor.detach() for name, tensor in weights.items() if name not in tied}
    weights, metadata = torchao.flattened(weights) if form.name == "torchao" else (weights, {})
    plain = {name: tensor.cpu().contiguous() for name, tensor in weights.items()}
    save_file(plain, folder / "model.safetensors", metadata={"format": "pt", **metadata})


def _write_configuration(model: Any, chosen: Mapping[str, str], form: ExportFormat, folder: Path) -> None:
    config = model.config.to_dict()
    config["quantization_config"] = _CHECKPOINTS[form.name].configuration(model, chosen)
    config["architectures"] = [type(model).__name__]
    type(model.config).from_dict(config).save_pretrained(folder)
    if getattr(model, "generation_config", None) is not None:
        model.generation_config.save_pretrained(folder)
