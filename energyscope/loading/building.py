"""Fill a model with trained or random weights: the steps behind `energyscope.loading.load_model`."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from energyscope import bundled
from energyscope.adapters import Adapter, adapter_for
from energyscope.errors import DeviceError, EnergyscopeError, ModelError
from energyscope.failures import first_line, no_memory_left
from energyscope.loading import hub, random_weights, tensor_parallel
from energyscope.loading.options import NATIVE, LoadOptions
from energyscope.loading.planning import LoadPlan, auto_class, meta_model
from energyscope.loading.quiet import silence_libraries
from energyscope.loading.sharding.placement import as_accelerate_has_it, undispatch
from energyscope.loading.sources import ModelFiles, ModelSource
from energyscope.reasons import Reason, reason


@contextmanager
def opened(source: ModelSource, options: LoadOptions) -> Iterator[ModelFiles]:
    """Yield what a model's files say; what the libraries raise in this context becomes one clear line.

    Raises:
        ModelError: its files are missing, broken or out of reach, no adapter serves it, or something fails here.
        DeviceError: the device ran out of memory.

    """
    silence_libraries()
    with one_line_errors(source.name, options):
        folder = _folder_of(source, options)
        adapter = _adapter_of(source, folder)
        yield ModelFiles(source, folder, adapter, _configuration_of(source, folder, options))


def _folder_of(source: ModelSource, options: LoadOptions) -> Path | None:
    """Return the folder with a model's files; None if random weights need none."""
    needs_weights = options.weights == "pretrained"
    if source.kind == "checkpoint" and not needs_weights:
        return None
    if source.kind == "bundled":
        folder = bundled.directory(source.name)
    else:
        folder = source.folder or _hub_folder(source, options, needs_weights=needs_weights)
    if not (folder / "config.json").is_file():
        raise ModelError(f"{folder} holds no config.json: it is not a model folder")
    if needs_weights:
        _check_weight_files(folder, allow_pickle=options.allow_pickle)
    return folder


def _hub_folder(source: ModelSource, options: LoadOptions, *, needs_weights: bool) -> Path:
    """Fetch the configuration first: gigabytes of a model that no adapter serves would be for nothing."""
    code = options.trust_remote_code
    if source.adapter is None:
        adapter_for(_model_type(hub.model_folder(source.source, weights=False, code=code)))
    return hub.model_folder(source.source, weights=needs_weights, code=code, pickle=options.allow_pickle)


def _check_weight_files(folder: Path, *, allow_pickle: bool) -> None:
    missing = hub.missing_shards(folder)
    if missing:
        some = ", ".join(missing[:3]) + (" ..." if len(missing) > 3 else "")
        raise ModelError(f"{folder} lacks its weights ({some}): copy or download them, or use --weights random")
    if not allow_pickle and not any(folder.glob("*.safetensors")):
        raise ModelError(
            f"{folder} has only pickled weights, which can run code when read: save the model again with "
            "save_pretrained (safetensors), or use --weights random"
        )


def _adapter_of(source: ModelSource, folder: Path | None) -> Adapter:
    """Return the adapter that declares the checkpoint, else the one that serves the folder's model type."""
    if source.adapter is not None:
        return source.adapter
    if folder is None:
        raise ModelError(f"{source.name} has no files to read its model type from")
    return adapter_for(_model_type(folder))


def _configuration_of(source: ModelSource, folder: Path | None, options: LoadOptions) -> Any:
    """Return the transformers configuration, from the folder or else from the adapter's checkpoint."""
    from transformers import AutoConfig

    if folder is None:
        if source.adapter is None or source.checkpoint is None:
            raise ModelError(f"{source.name} has neither files nor a known configuration")
        shape = copy.deepcopy(dict(source.checkpoint.configuration))  # transformers edits nested values in place
        if not shape:
            raise ModelError(f"the adapter {source.adapter.name!r} states no configuration for {source.name}")
        return AutoConfig.for_model(source.adapter.model_types[0], **shape)
    return AutoConfig.from_pretrained(folder, trust_remote_code=options.trust_remote_code, local_files_only=True)


def _model_type(folder: Path) -> str:
    """Return a folder's ``model_type`` without building its configuration: its class may be unknown."""
    path = folder / "config.json"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read ({first_line(error)}): fetch it again") from error
    model_type = document.get("model_type") if isinstance(document, dict) else None
    if not isinstance(model_type, str):
        raise ModelError(f"{path} names no model_type: it is not a transformers model")
    return model_type


def build_model(files: ModelFiles, plan: LoadPlan) -> Any:
    """Build the model, each of its modules on its device; what passes between devices is not moved yet.

    Raises:
        ModelError: the weights do not fit the model.

    """
    options = plan.options
    if options.weights == "random" and options.tensor_parallel:
        shares = tensor_parallel.split_empty(meta_model(files, options))
        return random_weights.build(lambda: shares, options, keep=plan.keep, home=lambda _: options.device)
    if options.weights == "random":
        return random_weights.build(
            lambda: auto_class(files.adapter).from_config(
                files.config, dtype=options.dtype, trust_remote_code=options.trust_remote_code
            ),
            options,
            keep=plan.keep,
            home=plan.placement.device_of if plan.placement else None,
        )
    if files.folder is None:
        raise ModelError(f"{files.source.name} has no files to read weights from")
    return _read_weights(files, plan)


def _read_weights(files: ModelFiles, plan: LoadPlan) -> Any:
    options = plan.options
    settings: dict[str, Any] = {"dtype": options.dtype}
    if options.precision not in NATIVE:
        settings["quantization_config"] = _quantization(plan)
    if options.tensor_parallel:
        settings["distributed_config"] = tensor_parallel.distributed_config()
    elif plan.placement:
        settings["device_map"] = as_accelerate_has_it(plan.placement)
    elif options.device.type != "cpu":
        settings["device_map"] = {"": options.device}  # each tensor is read straight to the GPU
    model, info = auto_class(files.adapter).from_pretrained(
        files.folder,
        use_safetensors=None if options.allow_pickle else True,
        local_files_only=True,
        trust_remote_code=options.trust_remote_code,
        output_loading_info=True,
        **settings,
    )
    if absent := sorted(info["missing_keys"]):
        raise ModelError(
            f"{files.source.name} has no trained weights for {_some(absent)}: give a checkpoint trained for "
            f"{files.adapter.task}, or use --weights random"
        )
    if plan.placement:
        undispatch(model)
    if options.tensor_parallel:
        tensor_parallel.settle(model)
    return model


def _some(names: list[str]) -> str:
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")


def _quantization(plan: LoadPlan) -> Any:
    from transformers import BitsAndBytesConfig

    options = plan.options
    common: dict[str, Any] = {"llm_int8_skip_modules": plan.keep}
    if plan.placement and plan.placement.offloaded:
        common["llm_int8_enable_fp32_cpu_offload"] = True  # nothing that is quantized waits: it would be refused
    if options.precision == "int8":
        return BitsAndBytesConfig(load_in_8bit=True, **common)
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type=options.precision,
        bnb_4bit_compute_dtype=options.compute,
        bnb_4bit_use_double_quant=options.double_quant,
        **common,
    )


def tokenizer_of(folder: Path | None, options: LoadOptions) -> tuple[Any, Reason | None]:
    """Return the tokenizer, or None and why there is none."""
    if folder is None:
        return None, reason("no-model-files")
    from transformers import AutoTokenizer

    if not any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt")):
        return None, reason("no-tokenizer", folder=folder)
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=options.trust_remote_code
        )
    except Exception as error:  # noqa: BLE001  (tokenizers raise bare Exception on a broken file)
        return None, reason("tokenizer-unreadable", folder=folder, error=first_line(error))
    if tokenizer.pad_token_id is None:  # decoder tokenizers often have none; masked positions may hold anything
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer, None


@contextmanager
def one_line_errors(name: str, options: LoadOptions) -> Iterator[None]:
    """Turn what the libraries raise while loading into one clear line.

    Raises:
        DeviceError: the device ran out of memory.
        ModelError: anything else went wrong.

    """
    try:
        yield
    except EnergyscopeError:
        raise
    except Exception as error:
        if no_memory_left(error):
            raise _out_of_memory(name, options) from error
        line = first_line(error)
        if tensor_parallel.world_size() > 1 and "tensor parallel" in line:  # transformers has no class for it
            raise ModelError(f"{name} cannot be split so ({line}): start another number of processes") from error
        raise ModelError(f"{name} cannot be loaded ({line}): check its files, or fetch them again") from error


def _out_of_memory(name: str, options: LoadOptions) -> DeviceError:
    where = ", ".join(map(str, options.devices)) if options.device_map else options.device
    return DeviceError(
        f"{where} ran out of memory loading {name} in {options.precision}: "
        "use a smaller --precision or model, or end what else uses the device"
    )
