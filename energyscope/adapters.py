"""The adapter contract: what a package of another author declares about a family of models.

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

and is found through the entry-point group ``energyscope.adapters`` (`energyscope.adapter_registry`). The component
tree follows from the module paths: a component's parent is the nearest declared module above it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Granularity = Literal["coarse", "medium", "fine"]
Task = Literal[
    "next-token", "masked-token", "sequence-to-sequence", "classification", "image-classification", "embedding"
]

TOKEN_TASKS: frozenset[Task] = frozenset({"next-token", "masked-token", "sequence-to-sequence"})
"""The tasks that predict tokens; the others predict once for each example."""
Phase = Literal["prefill", "both"]

ADAPTER_API = 1  # the version of this contract; a package that needs a later one is refused in one line
BY_STRUCTURE = "auto"  # the name of an adapter that no package has: see `energyscope.auto`
SDPA = "torch.nn.functional.scaled_dot_product_attention"  # the attention core of most models
CACHE_UPDATE = "transformers.cache_utils.Cache.update"  # a layer's new keys and values go into the KV cache
GRANULARITIES: tuple[Granularity, ...] = ("coarse", "medium", "fine")
KINDS = frozenset(
    {
        "embedding", "patch_embedding", "convolution", "rotary", "norm", "attention", "attention.query",
        "attention.key", "attention.value", "attention.qkv", "attention.output", "attention.core",
        "attention.cache", "cross_attention", "cross_attention.query", "cross_attention.key",
        "cross_attention.value", "cross_attention.output", "cross_attention.core", "mlp", "mlp.up", "mlp.gate",
        "mlp.down", "mlp.activation", "mixer", "mixer.projection", "mixer.convolution", "mixer.scan", "router",
        "experts", "lm_head", "pooler", "classifier", "layer", "model", "other",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Part:
    """One kind of component and the module path at which a model of the family has it.

    ``path`` is dotted, from the model's root; ``{layer}`` in it stands for every layer's index.
    ``granularity`` is the coarsest one at which the part is measured. ``optional`` parts may be missing, not
    be called, or not be read.
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
    for a token. A checkpoint outside an adapter (`energyscope.adapter_registry.MODELS`) also has what its
    ``config.json`` says of itself: its ``model_type``, and the ``architecture`` that names its task.
    """

    hub_id: str
    configuration: Mapping[str, Any] = field(default_factory=dict)
    gated: bool = False
    model_type: str | None = None
    architecture: str | None = None


@dataclass(frozen=True)
class Adapter:
    """What energyscope needs to know about one model family. Plain data; nothing here imports torch.

    ``model_types`` are the ``model_type`` values of the configurations it serves; ``auto_class`` the
    transformers class that loads the model with its head; ``layers`` the path of the list of layers, or of several
    such stacks (an encoder's, then a decoder's), whose layers are numbered through. ``dataset`` is the default
    data set for impact (``sst2``, ``wikitext2``); ``phase`` the default of ``--phase``: a forward pass, or a
    prompt's and the decode steps after it. ``api`` is the `ADAPTER_API` that it is written for.

    Three hooks have defaults by task. ``inputs`` makes the keyword arguments of the model's forward of a batch of
    the task (``input_ids``, ``attention_mask``, ``pixel_values``, ...: tensors by name); ``outcome`` takes of the
    model's output what is compared (logits, or an embedding); ``distance``, of the task ``embedding``, is how far
    each of N embeddings (N, D) is from each of M others (M, D), (N, M).
    """

    name: str
    model_types: tuple[str, ...]
    task: Task
    layers: str | tuple[str, ...]
    parts: tuple[Part, ...]
    auto_class: str = "AutoModelForCausalLM"
    dataset: str | None = None
    phase: Phase = "prefill"
    checkpoints: Mapping[str, Checkpoint] = field(default_factory=dict)
    api: int = 1
    inputs: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    outcome: Callable[[Any], Any] | None = None
    distance: Callable[[Any, Any], Any] | None = None

    @property
    def stacks(self) -> tuple[str, ...]:
        """The paths of the lists of layers, in the order in which their layers are numbered."""
        return (self.layers,) if isinstance(self.layers, str) else self.layers

    @property
    def metric(self) -> str:
        """The quality of its task's predictions: of tokens the perplexity, else the accuracy."""
        return "perplexity" if self.task in TOKEN_TASKS else "accuracy"

    def parts_at(self, granularity: Granularity) -> tuple[Part, ...]:
        """Return the parts that are measured at a granularity: its own and every coarser one's."""
        allowed = GRANULARITIES[: GRANULARITIES.index(granularity) + 1]
        return tuple(part for part in self.parts if part.granularity in allowed)

    def problems(self) -> list[str]:
        """Return what is wrong with this declaration, a sentence each that begins with the field."""
        from energyscope.adapter_checks import problems

        return problems(self)
