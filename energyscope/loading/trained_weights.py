"""Models with their trained weights, each tensor read straight to its device."""

from __future__ import annotations

from typing import Any

from energyscope.errors import ModelError
from energyscope.loading import tensor_parallel
from energyscope.loading.files import ModelFiles
from energyscope.loading.options import BY_TORCH, NATIVE
from energyscope.loading.planning import LoadPlan, auto_class
from energyscope.loading.sharding.placement import accelerate_map, undispatch


def read(files: ModelFiles, plan: LoadPlan) -> Any:
    """Return the model, each of its modules on its device; hooks that move what passes between are not on it yet.

    Raises:
        ModelError: there are no weights, or they do not fit the model.

    """
    if files.folder is None:
        raise ModelError(f"{files.source.name} has no files to read weights from")
    options = plan.options
    settings: dict[str, Any] = {"dtype": options.dtype}
    if options.precision not in (*NATIVE, *BY_TORCH):
        settings["quantization_config"] = _quantization(plan)
    if options.tensor_parallel:
        settings["distributed_config"] = tensor_parallel.distributed_config()
    elif plan.placement:
        settings["device_map"] = accelerate_map(plan.placement)
    elif options.device.type != "cpu":
        settings["device_map"] = {"": options.device}
    model, info = auto_class(files.adapter).from_pretrained(
        files.folder,
        use_safetensors=None if options.allow_pickle else True,
        local_files_only=True,
        trust_remote_code=options.trust_remote_code,
        output_loading_info=True,
        **settings,
    )
    if missing := sorted(info["missing_keys"]):
        names = ", ".join(missing[:2]) + (f" and {len(missing) - 2} more" if len(missing) > 2 else "")
        raise ModelError(
            f"{files.source.name} has no trained weights for {names}: give a checkpoint trained for "
            f"{files.adapter.task}, or use --weights random"
        )
    if plan.placement:
        undispatch(model)
    if options.tensor_parallel:
        tensor_parallel.unwrap(model)
    if options.precision in BY_TORCH:
        from energyscope.loading.torch_kernels import exchange

        exchange(model, options.precision, plan.keep)
    return model


def _quantization(plan: LoadPlan) -> Any:
    from transformers import BitsAndBytesConfig

    options = plan.options
    settings: dict[str, Any] = {"llm_int8_skip_modules": plan.keep}
    if plan.placement and plan.placement.offloaded:
        settings["llm_int8_enable_fp32_cpu_offload"] = True  # quantized modules never wait on the host
    if options.precision == "int8":
        return BitsAndBytesConfig(load_in_8bit=True, **settings)
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type=options.precision,
        bnb_4bit_compute_dtype=options.compute,
        bnb_4bit_use_double_quant=options.double_quant,
        **settings,
    )
