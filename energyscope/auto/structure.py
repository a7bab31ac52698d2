"""Components found in a model that no adapter describes: by structure first, by names where that is not enough.

    model
      embed_tokens    get_input_embeddings()                             embedding
      layers          every list of like modules                         layer, and in it:
        self_attn       holds a class that records attentions             attention
        mlp             remaining module with matrices                    mlp
        norms           class, or one vector of weights                   norm
      lm_head         get_output_embeddings()                            lm_head

Layers may differ (every sixth is an attention, the first have no experts): each kind of layer is looked at, and a
path has one kind in all of them, or is ``other``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from energyscope.adapters import CACHE_UPDATE, Part
from energyscope.auto import patterns
from energyscope.auto.kernels import attention_core, mixer_functions
from energyscope.auto.patterns import (
    ATTENTION,
    CONVOLUTION,
    CROSS,
    CROSS_ATTENTION,
    LAYER,
    MIXER,
    MLP,
    OUTSIDE,
    RULES,
    TRANSPARENT,
    UNDECLARED,
)
from energyscope.auto.shapes import own, shapes, weights
from energyscope.auto.stacks import find_stacks, numbered_stacks
from energyscope.auto.wrappers import has_its_own, holds_wrappers, is_layer, is_norm, is_wrapper
from energyscope.errors import ModelError

OTHER = "other"
_NAMELESS = {"{layer}", "linear"}  # what such a module is called says nothing: its parent's name does
_CORES = {"attention": "attention.core", "cross_attention": "cross_attention.core"}
_FUSED = "cross_attention.qkv"  # the keys and values of the encoder's states: the query is apart


@dataclass(frozen=True)
class Finding:
    """A part, and the reason why it has its kind."""

    part: Part
    reason: str


@dataclass(frozen=True)
class _Match:
    """What one module is. ``below`` is the place of its modules; None where they are not looked at."""

    kind: str
    reason: str
    below: str | None = None


def find_parts(model: Any) -> tuple[tuple[str, ...], list[Finding]]:
    """Return the paths of the stacks of layers and a model's parts, in the order of its modules.

    Raises:
        ModelError: it has no list of layers.

    """
    stacks = find_stacks(model)
    if not stacks:
        raise ModelError(
            f"{type(model).__name__} has no list of layers: its components cannot be found by structure"
        )
    return numbered_stacks(stacks), _Finder(model, stacks).findings()


class _Finder:
    """Walks through a model once, and remembers the kind of each path."""

    def __init__(self, model: Any, stacks: dict[str, nn.Module]) -> None:
        self.model = model
        self.stacks = stacks
        self.attentions = _recorded_classes(model)
        self.ends = {
            id(_end(model, "get_input_embeddings")): _Match(
                "embedding", "get_input_embeddings()", patterns.EMBEDDING
            ),
            id(_end(model, "get_output_embeddings")): _Match("lm_head", "get_output_embeddings()"),
        }
        self.matches: dict[str, _Match] = {}
        self.kinds: dict[str, list[str]] = {}  # of each path, in any layer
        self.functions: dict[str, dict[str, str]] = {}  # of each mixer's path, by kind
        self.cores: dict[str, str] = {}  # of each attention's path

    def findings(self) -> list[Finding]:
        self._walk(self.model, "", OUTSIDE)
        kinds = {path: match.kind for path, match in self.matches.items()}
        return [
            finding
            for path, match in self.matches.items()
            for finding in self._with_functions(_part(path, kinds), match.reason)
        ]

    def _with_functions(self, part: Part, reason: str) -> Iterator[Finding]:
        """Yield a part; after an attention also the functions that transformers' attention interface calls."""
        yield Finding(part, reason)
        functions, core = dict(self.functions.get(part.path, {})), self.cores.get(part.path)
        if part.kind in _CORES and (core or getattr(self.model, "_supports_sdpa", False)):
            functions["attention.cache"] = CACHE_UPDATE
        if part.kind in _CORES and core:  # which is a mixer where other layers have one at its path
            functions[_CORES[part.kind]] = core
        for kind, function in functions.items():
            calls = f"calls {function.rpartition('.')[2]}"
            yield Finding(Part(kind, part.path, "fine", optional=True, function=function), calls)

    def _walk(self, module: nn.Module, path: str, place: str) -> None:
        for name, child in module.named_children():
            below = f"{path}.{name}".lstrip(".")
            if below in self.stacks:
                self._walk_layers(self.stacks[below], below)
            elif isinstance(child, nn.ModuleList):
                self._walk(child, below, place)
            elif isinstance(child, nn.ParameterList | nn.ParameterDict):  # never called: its parent's weights
                continue
            elif match := self._match(child, below, module, place):
                if match.kind == "mixer":
                    self.functions.setdefault(below, {}).update(mixer_functions(child))
                if match.kind in _CORES and (core := attention_core(child, self._implementation(child))):
                    self.cores[below] = core
                if match.kind not in {TRANSPARENT, UNDECLARED} and match.kind not in self.functions.get(path, {}):
                    self._remember(below, match)
                by_function = match.below == CONVOLUTION and "mixer.convolution" in mixer_functions(child)
                if match.below is not None and not by_function:
                    self._walk(child, below, match.below)

    def _implementation(self, module: nn.Module) -> str | None:
        """Return what computes the attention of a module: ``sdpa``, ``eager``, ..."""
        config = getattr(module, "config", None) or getattr(self.model, "config", None)
        implementation: str | None = getattr(config, "_attn_implementation", None)
        return implementation

    def _walk_layers(self, stack: nn.Module, path: str) -> None:
        layer, layers = f"{path}.{{layer}}", list(stack.children())
        self._remember(layer, _Match("layer", f"one of {len(layers)} in the list {path}"))
        for module in {_signature(module): module for module in reversed(layers)}.values():
            is_block = not any(
                "container" in shapes(child) for child in module.children()
            )  # XLM lists attentions, MLPs
            match = self._match_table(module, layer, LAYER) if is_block else None
            self._walk(module, layer, match.below if match and match.below in {ATTENTION, MLP, MIXER} else LAYER)

    def _remember(self, path: str, match: _Match) -> None:
        kinds = self.kinds.setdefault(path, [])
        if match.kind not in kinds:
            kinds.append(match.kind)
        if len(kinds) > 1:
            match = replace(match, kind=_in_common(kinds), reason=f"differs between layers: {', '.join(kinds)}")
        self.matches[path] = match

    def _match(self, module: nn.Module, path: str, parent: nn.Module, place: str) -> _Match | None:
        """Return what a module is, None if nothing is known of it and it holds no weights."""
        return (
            self._match_structure(module, path, parent, place)
            or self._match_table(module, path, place)
            or self._match_rest(module, parent, place)
        )

    def _match_structure(self, module: nn.Module, path: str, parent: nn.Module, place: str) -> _Match | None:
        """Return what a module is by the model's own word, or by what it holds."""
        if match := self.ends.get(id(module)):
            sees = match.kind == "embedding" and any("convolution" in shapes(child) for child in module.modules())
            return replace(match, kind="patch_embedding") if sees else match
        if place == LAYER:
            return self._match_in_layer(module, path, parent)
        if place == OUTSIDE and any(stack.startswith(f"{path}.") for stack in self.stacks):
            return _Match(TRANSPARENT, "holds the layers", OUTSIDE)
        return None

    def _match_in_layer(self, module: nn.Module, path: str, parent: nn.Module) -> _Match | None:
        if has_its_own(parent, module):
            return _Match(UNDECLARED, "the layer's MLP has its own")
        if is_wrapper(module) or holds_wrappers(module):
            return _Match(TRANSPARENT, "adds the residual itself", self._place_within(module, parent, path))
        if match := _cross_attention(module, path):
            return match
        if self._records_attention(module) and not is_layer(module):
            return _Match("attention", "holds the class that records attentions", ATTENTION)
        return None

    def _match_rest(self, module: nn.Module, parent: nn.Module, place: str) -> _Match | None:
        """Return what neither structure nor name tells: the MLP if only that is missing, else ``other``."""
        if not weights(module):
            return None
        if place == LAYER and self._is_the_rest(module, parent):
            return _Match("mlp", "the layer's remaining module with matrices", MLP)
        if own(module) or place not in {OUTSIDE, LAYER}:
            return _Match(OTHER, "holds weights, kind not known")
        return _Match(TRANSPARENT, "", place)

    def _match_table(self, module: nn.Module, path: str, place: str) -> _Match | None:
        name = next(word for word in reversed(path.split(".")) if not word.isdigit() and word not in _NAMELESS)
        words, class_name = shapes(module), type(module).__name__
        place, crosses = (ATTENTION, True) if place == CROSS_ATTENTION else (place, False)
        for rule in RULES:
            if place in rule.places.split() and (reason := rule.reason(class_name, name, words)):
                match = _Match(rule.kind, reason, rule.below)
                return _across(match) if crosses else match
        return None

    def _place_within(self, module: nn.Module, parent: nn.Module, path: str) -> str:
        """Return what a wrapper's linear is part of: an MLP in the layer itself, else the attention."""
        if not is_wrapper(module):
            return LAYER
        inner = next(child for child in module.children() if weights(child) and not is_norm(child))
        if "container" in shapes(inner):
            return LAYER
        if any(parent is layer for stack in self.stacks.values() for layer in stack.children()):
            return MLP
        return CROSS_ATTENTION if CROSS.search(_in_layer(path)) else ATTENTION

    def _records_attention(self, module: nn.Module) -> bool:
        return any(isinstance(child, self.attentions) for child in module.modules())

    def _is_the_rest(self, module: nn.Module, parent: nn.Module) -> bool:
        """Whether this is the only module of its layer that holds matrices beside the attention."""
        rest = [
            child
            for child in parent.children()
            if "matrices" in shapes(child) and not self._records_attention(child) and not is_norm(child)
        ]
        return rest == [module] and any(self._records_attention(child) for child in parent.children())


def _end(model: Any, method: str) -> Any:
    """Return a model's embeddings or head by its own word; the model itself, which is no part, without one."""
    try:
        module = getattr(model, method)()
    except (AttributeError, NotImplementedError):
        return model
    return module if isinstance(module, nn.Module) else model


def _cross_attention(module: nn.Module, path: str) -> _Match | None:
    """Return what attends to an encoder: its name says so, or its class; the layer's own attention is another."""
    name, class_name = _in_layer(path), type(module).__name__
    if "matrices" not in shapes(module) or is_layer(module):
        return None
    if CROSS.search(name):
        return _Match("cross_attention", f"module named {name}", CROSS_ATTENTION)
    return _Match("cross_attention", f"class {class_name}", CROSS_ATTENTION) if CROSS.search(class_name) else None


def _in_layer(path: str) -> str:
    return path.rpartition("{layer}.")[2]


def _across(match: _Match) -> _Match:
    """Return what a match in an attention is in a cross attention."""
    kind = f"cross_{match.kind}" if match.kind.startswith("attention.") else match.kind
    below = CROSS_ATTENTION if match.below == ATTENTION else match.below
    return replace(match, kind="cross_attention.key" if kind == _FUSED else kind, below=below)


def _in_common(kinds: list[str]) -> str:
    """Return what is true of all kinds of a path: an attention is one mixer, and its linears are projections.

    Where attentions, MLPs and mixers share a path, they are the one block of each layer, which mixes (Nemotron-H).
    """
    families = {kind.partition(".")[0] for kind in kinds}
    if len(families) == 1:
        return families.pop()
    if not families <= {"attention", "mixer", "mlp"}:
        return OTHER
    return "mixer.projection" if all("." in kind for kind in kinds) else "mixer"


def _recorded_classes(model: nn.Module) -> tuple[type, ...]:
    """Return the classes whose attentions transformers itself records."""
    classes: list[type] = []
    for module in model.modules():
        recorded = (getattr(module, "_can_record_outputs", None) or {}).get("attentions", ())
        for item in recorded if isinstance(recorded, list | tuple) else (recorded,):
            target = getattr(item, "target_class", item)
            if isinstance(target, type):
                classes.append(target)
    return tuple(classes)


def _signature(module: nn.Module) -> tuple[Any, ...]:
    return tuple((name, type(child)) for name, child in module.named_modules())


def _part(path: str, kinds: dict[str, str]) -> Part:
    """Return the part at a path: what it is part of decides the coarsest granularity at which it is measured.

    What is inside a mixer is optional, since kernels on a GPU read the weights of some of it and do not call it.
    """
    kind, parent = kinds[path], path.rpartition(".")[0]
    while parent and parent not in kinds:
        parent = parent.rpartition(".")[0]
    within = kinds.get(parent)
    if within is None:
        return Part(kind, path, "fine" if kind == "rotary" else "coarse")
    return Part(kind, path, "medium" if within == "layer" else "fine", optional=within == "mixer")
