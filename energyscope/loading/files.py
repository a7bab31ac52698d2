"""The files of a model: its folder, adapter, configuration and tokenizer, each checked before weights are read."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from energyscope import bundled
from energyscope.adapter_registry import adapter_for
from energyscope.adapters import Adapter
from energyscope.errors import DeviceError, EnergyscopeError, ModelError
from energyscope.failures import first_line, no_memory_left
from energyscope.loading import hub, tensor_parallel
from energyscope.loading.libraries import silence_libraries
from energyscope.loading.options import LoadOptions
from energyscope.loading.sources import ModelSource
from energyscope.reasons import Reason, reason

_FOUND: dict[str, Adapter] = {}  # by structure, for each configuration
UNKNOWN_FAMILY = "Transformers does not recognize this architecture"


@dataclass(frozen=True)
class ModelFiles:
    """What is known of a model before it is built. ``folder`` is None where no file is needed."""

    source: ModelSource
    folder: Path | None
    adapter: Adapter
    config: Any


@contextmanager
def model_files(source: ModelSource, options: LoadOptions) -> Iterator[ModelFiles]:
    """Yield what a model's files say; errors of the libraries in this context become one line each.

    Raises:
        ModelError: its files are missing, broken or out of reach, no adapter serves it, or something fails here.
        DeviceError: the device ran out of memory.

    """
    silence_libraries()
    with one_line_errors(source.name, options):
        folder = _folder_of(source, options)
        adapter = _adapter_of(source, folder, options)
        config = _configuration_of(source, folder, code=options.trust_remote_code)
        # last: nobody should fetch weights for a model that cannot be run
        if folder is not None and options.weights == "pretrained":
            _check_weight_files(folder, allow_pickle=options.allow_pickle)
        yield ModelFiles(source, folder, adapter, config)


def _adapter_of(source: ModelSource, folder: Path | None, options: LoadOptions) -> Adapter:
    """Return the adapter that was asked for, that a short name came with, or that serves the model."""

    def by_structure() -> Adapter:
        return _found_by_structure(source, folder, code=options.trust_remote_code)

    if source.adapter is not None:
        known = source.adapter.model_types[0]
        return (
            source.adapter
            if options.adapter is None
            else adapter_for(known, name=options.adapter, otherwise=by_structure)
        )
    model_type, architectures = _model_type(source, folder)
    return adapter_for(model_type, architectures, name=options.adapter, otherwise=by_structure)


def _found_by_structure(source: ModelSource, folder: Path | None, *, code: bool) -> Adapter:
    """Build the model without weights and look at it, once for each configuration."""
    from energyscope.auto import structure_map

    config = _configuration_of(source, folder, code=code)
    key = f"{config.to_dict()} {code}"
    if key not in _FOUND:
        _FOUND[key] = structure_map(config, trust_remote_code=code).adapter
    return _FOUND[key]


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
    return folder


def _hub_folder(source: ModelSource, options: LoadOptions, *, needs_weights: bool) -> Path:
    """Fetch the configuration first: without an adapter, gigabytes of weights would be fetched for nothing."""
    code = options.trust_remote_code
    if source.adapter is None:
        _adapter_of(source, hub.model_folder(source.source, weights=False, code=code), options)
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


def _configuration_of(source: ModelSource, folder: Path | None, *, code: bool) -> Any:
    """Return the transformers configuration, from the folder or else from the short name's checkpoint."""
    from transformers import AutoConfig

    if folder is not None:
        return AutoConfig.from_pretrained(folder, trust_remote_code=code, local_files_only=True)
    checkpoint = source.checkpoint
    if checkpoint is None:
        raise ModelError(f"{source.name} has neither files nor a known configuration")
    shape = copy.deepcopy(dict(checkpoint.configuration))  # transformers edits nested values in place
    if not shape:
        raise ModelError(f"no configuration of {source.name} is stated beside its short name")
    model_type, architectures = _model_type(source, folder)
    if architectures:
        shape["architectures"] = list(architectures)
    return AutoConfig.for_model(model_type, **shape)


def _model_type(source: ModelSource, folder: Path | None) -> tuple[str, tuple[str, ...]]:
    """Return the ``model_type`` of a folder, or else of a short name, and the names of the architectures.

    The configuration is not built: its class may be unknown.
    """
    if folder is not None:
        return _types_in(folder / "config.json")
    checkpoint = source.checkpoint
    if source.adapter is not None:
        return source.adapter.model_types[0], ()
    if checkpoint is None or checkpoint.model_type is None:
        raise ModelError(f"{source.name} has no files to read its model type from")
    return checkpoint.model_type, (checkpoint.architecture,) if checkpoint.architecture else ()


def _types_in(path: Path) -> tuple[str, tuple[str, ...]]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read ({first_line(error)}): fetch it again") from error
    document = document if isinstance(document, dict) else {}
    model_type, architectures = document.get("model_type"), document.get("architectures")
    if not isinstance(model_type, str):
        raise ModelError(f"{path} names no model_type: it is not a transformers model")
    names = architectures if isinstance(architectures, list) else []
    return model_type, tuple(name for name in names if isinstance(name, str))


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
            where = ", ".join(map(str, options.devices)) if options.device_map else options.device
            raise DeviceError(
                f"{where} ran out of memory loading {name} in {options.precision}: "
                "use a smaller --precision or model, or end what else uses the device"
            ) from error
        line = first_line(error)
        if tensor_parallel.world_size() > 1 and "tensor parallel" in line:  # transformers has no class for it
            message = f"{name} cannot be split like this ({line}): start another number of processes"
            raise ModelError(message) from error
        remedy = "check its files, or fetch them again"
        if UNKNOWN_FAMILY in str(error):  # a plain ValueError, which goes on with advice
            line = str(error).partition(UNKNOWN_FAMILY)[0] + UNKNOWN_FAMILY
            remedy = "upgrade transformers, or use --trust-remote-code with a model that brings code you trust"
        raise ModelError(f"{name} cannot be loaded ({line}): {remedy}") from error
