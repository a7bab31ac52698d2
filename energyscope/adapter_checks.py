"""What is wrong with an adapter's declaration: each problem a sentence that begins with the field."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from energyscope import bundled
from energyscope.adapters import ADAPTER_API, GRANULARITIES, KINDS, Adapter, Checkpoint, Part, Phase, Task
from energyscope.errors import did_you_mean

RESERVED = ("auto",)  # names that mean something else
DATASETS = ("sst2", "wikitext2")
LAYER = "{layer}"
_PATH = re.compile(r"[A-Za-z_]\w*(\.([A-Za-z_]\w*|\d+|\{layer\}))*")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_MODEL_TYPE = re.compile(r"[\w.-]+")
_TYPES: Mapping[str, Any] = {
    "name": str, "model_types": tuple, "task": str, "layers": str | tuple, "parts": tuple, "auto_class": str,
    "phase": str, "checkpoints": Mapping, "api": int,
}  # fmt: skip


def problems(adapter: Adapter) -> list[str]:
    """Return what is wrong with a declaration; empty if nothing is. Types come first: the rest relies on them."""
    if isinstance(adapter.api, int) and adapter.api > ADAPTER_API:
        return [
            f"api: {adapter.api} is newer than {ADAPTER_API}, which this energyscope knows: update energyscope"
        ]
    if type(adapter.api) is not int or adapter.api < 1:
        return [f"api: {adapter.api!r} is no version of the contract: use {ADAPTER_API}"]
    return list(_wrong_types(adapter)) or [*_wrong_words(adapter), *_wrong_parts(adapter), *_wrong_names(adapter)]


def _wrong_types(adapter: Adapter) -> Iterator[str]:
    for name, wanted in _TYPES.items():
        value = getattr(adapter, name)
        if wanted is tuple and isinstance(value, str):
            yield f"{name}: {value!r} is a string: write ({value!r},) for a tuple of one"
        elif not isinstance(value, wanted):
            yield f"{name}: {value!r} is no {getattr(wanted, '__name__', str(wanted)).lower()}"
    for name, items, wanted in (("model_types", adapter.model_types, str), ("parts", adapter.parts, Part)):
        for item in items if isinstance(items, tuple) else ():
            if not isinstance(item, wanted):
                yield f"{name}: {item!r} is no {wanted.__name__}"


def _wrong_words(adapter: Adapter) -> Iterator[str]:
    if not _NAME.fullmatch(adapter.name) or adapter.name in RESERVED:
        yield f"name: {adapter.name!r} cannot be used: take a word in lower case other than {', '.join(RESERVED)}"
    if not adapter.model_types:
        yield "model_types: none is named: give the model_type of a config.json"
    for model_type in adapter.model_types:
        if not _MODEL_TYPE.fullmatch(model_type):
            yield f"model_types: {model_type!r} is no model_type of a config.json"
    yield from _not_among("task", adapter.task, get_args(Task))
    yield from _not_among("phase", adapter.phase, get_args(Phase))
    if adapter.dataset is not None:
        yield from _not_among("dataset", adapter.dataset, DATASETS)
    for hook in ("inputs", "outcome", "distance"):
        if (value := getattr(adapter, hook)) is not None and not callable(value):
            yield f"{hook}: {value!r} is no function"
    if adapter.distance is not None and adapter.task != "embedding":
        yield f"distance: it is between embeddings, and the task is {adapter.task}"
    if not adapter.auto_class.startswith("AutoModel"):
        yield f"auto_class: {adapter.auto_class!r} is not an AutoModel class of transformers"


def _wrong_parts(adapter: Adapter) -> Iterator[str]:
    for part in adapter.parts:
        yield from _wrong_part(part)
    for name, times in Counter(part.name for part in adapter.parts if isinstance(part.kind, str)).items():
        if times > 1:
            yield f"parts: {name} is declared {times} times"
    paths = [part.path for part in adapter.parts if part.kind == "layer"]
    if not adapter.stacks:
        yield "layers: none is named: give the path of the list of layers"
    if not paths:
        yield "parts: none has the kind 'layer'"
    for stack in adapter.stacks:
        if not isinstance(stack, str) or LAYER in stack or not _PATH.fullmatch(stack):
            yield f"layers: {stack!r} is no dotted module path"
        elif paths and f"{stack}.{LAYER}" not in paths:
            yield f"layers: no part of kind 'layer' has the path {stack}.{LAYER}, but {paths[0]}"


def _wrong_part(part: Part) -> Iterator[str]:
    where = f"parts: {part.path!r}"
    if not isinstance(part.kind, str) or part.kind not in KINDS:
        near = did_you_mean(str(part.kind), sorted(KINDS))
        yield f"{where} has the unknown kind {part.kind!r}{near}"
    if not isinstance(part.path, str) or not _PATH.fullmatch(part.path):
        yield f"{where} is no dotted module path; {LAYER} stands for a layer's number"
    if part.granularity not in GRANULARITIES:
        yield f"{where} has the granularity {part.granularity!r}: use {', '.join(GRANULARITIES)}"
    if not isinstance(part.optional, bool):
        yield f"{where} has optional={part.optional!r}: use True or False"
    if part.function is not None and ("." not in str(part.function) or not isinstance(part.function, str)):
        yield f"{where} has function={part.function!r}, which is not a function's dotted path"


def _wrong_names(adapter: Adapter) -> Iterator[str]:
    for name, checkpoint in adapter.checkpoints.items():
        where = f"checkpoints: {name!r}"
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            yield f"{where} cannot be typed as a model's name: use lower case, without slashes"
        elif name in bundled.MODELS:
            yield f"{where} is the name of a bundled model"
        if not isinstance(checkpoint, Checkpoint):
            yield f"{where} is no Checkpoint"
        elif not isinstance(checkpoint.hub_id, str) or not _HUB_ID.fullmatch(checkpoint.hub_id):
            yield f"{where} has hub_id={checkpoint.hub_id!r}: use owner/name"
        elif not isinstance(checkpoint.configuration, Mapping):
            yield f"{where} has a configuration that is no mapping"
        elif not isinstance(checkpoint.gated, bool):
            yield f"{where} has gated={checkpoint.gated!r}: use True or False"


def _not_among(name: str, value: Any, known: tuple[str, ...]) -> Iterator[str]:
    if value not in known:
        yield f"{name}: {value!r} is unknown: use {', '.join(known[:-1])} or {known[-1]}"
