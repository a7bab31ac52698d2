"""The adapter contract, and the registry that finds adapters by entry point.

An adapter says, for one family of models, which modules are which components. It is plain data:

    from energyscope.adapters import Adapter, Part

    adapter = Adapter(
        name="gpt2",
        model_types=("gpt2",),
        task="next-token",
        layers="transformer.h",
        parts=(
            Part("embedding", "transformer.wte", "coarse"),
            Part("layer", "transformer.h.{layer}", "coarse"),
            Part("attention", "transformer.h.{layer}.attn", "medium"),
            Part("attention.qkv", "transformer.h.{layer}.attn.c_attn", "fine"),
            Part("lm_head", "lm_head", "coarse"),
        ),
    )

and is found through the entry-point group ``energyscope.adapters``. The component tree follows from
the module paths: a component's parent is the nearest declared module above it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

from energyscope.errors import ModelError, UsageError, did_you_mean

Granularity = Literal["coarse", "medium", "fine"]
Task = Literal["classification", "next-token"]

GROUP = "energyscope.adapters"
BY_STRUCTURE = "auto"  # the name of an adapter that no package has: see `energyscope.auto`
SDPA = "torch.nn.functional.scaled_dot_product_attention"  # the attention core of most models
CACHE_UPDATE = "transformers.cache_utils.Cache.update"  # a layer's new keys and values go into the KV cache
GRANULARITIES: tuple[Granularity, ...] = ("coarse", "medium", "fine")
KINDS = frozenset(
    {
        "embedding", "rotary", "norm", "attention", "attention.query", "attention.key", "attention.value",
        "attention.qkv", "attention.output", "attention.core", "attention.cache", "mlp", "mlp.up", "mlp.gate",
        "mlp.down", "mlp.activation", "mixer", "mixer.projection", "router", "experts", "lm_head",
        "pooler", "classifier", "layer", "model", "other",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Part:
    """One kind of component and the module path at which a model of the family has it.

    ``path`` is dotted, from the model's root; ``{layer}`` in it stands for every layer's index.
    ``granularity`` is the coarsest one at which the part is measured. ``optional`` parts may be missing, or not
    be called.
    With ``function``, the part is not that module but the calls that it makes of a function, given by its
    dotted path (``torch.nn.functional.scaled_dot_product_attention``).
    """

    kind: str
    path: str
    granularity: Granularity
    optional: bool = False
    function: str | None = None

    @property
    def name(self) -> str:
        """The components' name, with ``{layer}`` open: the path, for a function with the kind's last word."""
        return f"{self.path}.{self.kind.rpartition('.')[2]}" if self.function else self.path


@dataclass(frozen=True)
class Checkpoint:
    """A short name that users may type, with where its weights are and its true shape.

    ``hub_id`` is the Hugging Face id of the weights; ``configuration`` the keyword arguments of the family's
    configuration class, so that ``--weights random`` needs no network; ``gated`` says that the hub asks
    for a token.
    """

    hub_id: str
    configuration: Mapping[str, Any] = field(default_factory=dict)
    gated: bool = False


@dataclass(frozen=True)
class Adapter:
    """What energyscope needs to know about one model family. Plain data; nothing here imports torch.

    ``model_types`` are the ``model_type`` values of the configurations it serves; ``auto_class`` the
    transformers class that loads the model with its head; ``layers`` the path of the list of layers;
    ``dataset`` the default data set for impact (``sst2``, ``wikitext2``); ``phase`` the default of ``--phase``: a
    forward pass, or a prompt's and the decode steps after it.
    """

    name: str
    model_types: tuple[str, ...]
    task: Task
    layers: str
    parts: tuple[Part, ...]
    auto_class: str = "AutoModelForCausalLM"
    dataset: str | None = None
    phase: Literal["prefill", "both"] = "prefill"
    checkpoints: Mapping[str, Checkpoint] = field(default_factory=dict)

    @property
    def metric(self) -> str:
        """The quality of predictions: accuracy for classification, perplexity for next-token models."""
        return "accuracy" if self.task == "classification" else "perplexity"

    def parts_at(self, granularity: Granularity) -> tuple[Part, ...]:
        """Return the parts that are measured at a granularity: its own and every coarser one's."""
        allowed = GRANULARITIES[: GRANULARITIES.index(granularity) + 1]
        return tuple(part for part in self.parts if part.granularity in allowed)

    def problems(self) -> list[str]:
        """Return what is wrong with this declaration, a sentence each; empty if nothing is."""
        problems = [f"unknown kind {part.kind!r} ({part.path})" for part in self.parts if part.kind not in KINDS]
        names = [part.name for part in self.parts]
        problems += [f"path declared twice: {name}" for name in sorted({n for n in names if names.count(n) > 1})]
        functions = {part.function for part in self.parts if part.function}
        problems += [f"not a function's dotted path: {path!r}" for path in sorted(functions) if "." not in path]
        if not any(part.kind == "layer" for part in self.parts):
            problems.append("no part of kind 'layer'")
        if not self.model_types:
            problems.append("no model_types")
        return problems


@cache
def registry() -> Mapping[str, EntryPoint]:
    """Return the installed adapters by entry-point name, without importing them.

    Raises:
        ModelError: two packages registered the same name.

    """
    adapters: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP):
        other = adapters.get(point.name)
        if other is not None and other.value != point.value:
            raise ModelError(
                f"two packages register the adapter {point.name!r} ({other.value}, {point.value}): uninstall one"
            )
        adapters[point.name] = point
    return adapters


@cache
def load_adapter(name: str) -> Adapter:
    """Import one adapter and check it.

    Raises:
        UsageError: no adapter has this name.
        ModelError: its module cannot be imported, or what it declares is not valid.

    """
    points = registry()
    if name not in points:
        raise UsageError(f"no adapter is called {name!r}{did_you_mean(name, points)}")
    try:
        adapter = points[name].load()
    except Exception as error:  # another package's import may raise anything
        raise ModelError(f"the adapter {name!r} ({points[name].value}) cannot be imported: {error}") from error
    if not isinstance(adapter, Adapter):
        raise ModelError(f"the adapter {name!r} ({points[name].value}) is not an energyscope.adapters.Adapter")
    if problems := adapter.problems():
        raise ModelError(f"the adapter {name!r} is not valid: {'; '.join(problems)}")
    return adapter


def all_adapters() -> list[Adapter]:
    """Import and return every installed adapter, by name."""
    return [load_adapter(name) for name in sorted(registry())]


def adapter_for(model_type: str, otherwise: Callable[[], Adapter] | None = None) -> Adapter:
    """Return the adapter that serves a configuration's ``model_type``; where none does, what ``otherwise`` makes.

    Raises:
        ModelError: none does, or several do.

    """
    serving = [adapter for adapter in all_adapters() if model_type in adapter.model_types]
    if len(serving) > 1:
        names = " and ".join(adapter.name for adapter in serving)
        raise ModelError(f"the adapters {names} both serve model type {model_type!r}: uninstall one of them")
    if not serving and otherwise is not None:
        return otherwise()
    if not serving:
        known = sorted({kind for adapter in all_adapters() for kind in adapter.model_types})
        raise ModelError(
            f"no adapter serves model type {model_type!r} (known: {', '.join(known)}): "
            "install a package that has one, or write it in about 30 lines (adapters/README.md)"
        )
    return serving[0]
