"""Checks that run components: replay, removal, a decode step, and what all of it leaves behind."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from energyscope.adapters import GRANULARITIES, Adapter
from energyscope.components import ComponentTree, component_tree
from energyscope.functions import FunctionCall
from energyscope.impact.outputs import checksum
from energyscope.kv_cache import CACHE_KINDS, CacheKind, caches_in, kept_by, states_put_back
from energyscope.loading import LoadedModel
from energyscope.reasons import words
from energyscope.replay.capture import Capture, capture, forward_inputs
from energyscope.replay.replay_setup import bypassed
from energyscope.replay.rotation import calls_of
from energyscope.replay.tensors import cloned, tensors_in
from energyscope.stages.ablate import ablate
from energyscope.testing.conformance.check import Check, said, some
from energyscope.testing.conformance.structure import called_tree
from energyscope.workloads.decoding import can_decode, decode_step
from energyscope.workloads.inputs import synthetic_evaluation

EXAMPLES = 4
CONTEXT = 8  # tokens in the KV cache of the decode step
PADDED = 3  # tokens of the last example


def padded(inputs: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the inputs with the last positions of the last example masked; None of a model that has no mask."""
    if "attention_mask" not in inputs:
        return None
    mask = inputs["attention_mask"].clone()
    mask[-1, -PADDED:] = 0
    return {**inputs, "attention_mask": mask}


def replay(model: nn.Module, adapter: Adapter, inputs: Mapping[str, Any]) -> Check:
    """Check that components, run again by themselves, return what they did in the model, as often as they run."""
    wrong: dict[str, None] = {}
    batches = [inputs, *filter(None, [padded(inputs)])]
    count = 0
    for batch in batches:
        for granularity in GRANULARITIES:
            tree = called_tree(model, adapter, granularity, batch)
            count = len(tree) - 1
            wrong |= dict.fromkeys(unfaithful(tree, batch))
    problems = [f"other outputs than in the model: {some(wrong)}"] if wrong else []
    return Check.of(
        "replay", problems, f"{count} components and all parents without their children return the same bits"
    )


def unfaithful(tree: ComponentTree, inputs: Mapping[str, Any]) -> list[str]:
    """Return the components that, run alone twice, do not return what they did in the model.

    Parents are also run with their children bypassed by their records, as overhead is measured.
    """
    captures = capture(tree, inputs)
    names = [part.name for part in tree.components[1:] if not _repeats(part.module, captures[part.name])]
    for parent in tree:
        children = [(child.module, cloned(captures[child.name].output)) for child in tree.children(parent.name)]
        with bypassed(children):
            if children and not _repeats(parent.module, captures[parent.name], times=1):
                names.append(f"{parent.name} without its children")
    if not _repeats(tree.root.module, captures[tree.root.name]):
        names.append("the model afterwards")
    return names


def _repeats(module: nn.Module, recorded: Capture, kept: Mapping[str, Any] | None = None, times: int = 2) -> bool:
    """Tell whether replays give what was recorded; what a step keeps of those before it is ``kept`` as it is."""
    (call,) = calls_of([module], recorded)

    def once() -> bool:
        with states_put_back(kept or {}):
            return same(call(), recorded.output)

    with torch.inference_mode():
        return all(once() for _ in range(times))


def same(left: Any, right: Any) -> bool:
    """Tell whether two outputs hold the same tensors, bit by bit; NaN (at padded positions) is equal to itself."""
    pairs = zip(tensors_in(left), tensors_in(right), strict=True)
    return all(one.shape == two.shape and _equal(one, two) for one, two in pairs)


def _equal(left: Tensor, right: Tensor) -> bool:
    return torch.equal(left, right) or torch.allclose(left, right, rtol=0.0, atol=0.0, equal_nan=True)


def removal(loaded: LoadedModel, tree: ComponentTree) -> tuple[Check, Check]:
    """Ablate every component by zeros; check that the stage ends well, and that each kind reaches the output."""
    try:
        evaluation = synthetic_evaluation(loaded, examples=EXAMPLES)
        rows = ablate(loaded.model, tree, evaluation, methods=("zero",)).rows
    except Exception as error:  # noqa: BLE001  (a model's own code may raise anything)
        unknown = Check("removal", passed=None, detail="not known: the ablation failed")
        return Check("ablation", passed=False, detail=said(error)), unknown
    reached: dict[str, bool] = {}
    why: dict[str, str] = {}
    for row in rows:
        if row.metric == "output_change":
            continue
        group = tree[row.component].group
        reached[group] = reached.get(group, False) or row.valid
        if not row.valid:
            why.setdefault(group, words(row.reasons))
    optional = {part.name for part in loaded.adapter.parts if part.optional}
    without = [group for group, ok in reached.items() if not ok]
    problems = [f"{group} ({why[group]})" for group in without if group not in optional]
    unread = [group for group in without if group in optional]
    ran = {row.component for row in rows}
    skipped = [part.name for part in tree.components[1:] if part.name not in ran]
    lost = [f"no result for {some(skipped)}"] if skipped else []
    done = f"{len(ran)} components on {evaluation.examples} examples; the model came back bit by bit"
    kinds = f"{len(reached) - len(unread)} kinds of components, set to zero, change the model's output"
    kinds += f"; optional and without effect: {some(unread)}" if unread else ""
    return Check.of("ablation", lost, done), Check.of("removal", problems, kinds)


def decode(loaded: LoadedModel) -> Check:
    """Check that a decode step, replayed component by component, leaves its KV cache as it was."""
    if not can_decode(loaded):
        return Check("decode", passed=None, detail="this model has no decode step with a KV cache")
    problems: list[str] = []
    held: list[str] = []
    others: list[str] = []
    for kind in CACHE_KINDS:
        try:
            problems += [f"{kind} cache: {problem}" for problem in _decode_problems(loaded, kind)]
            held.append(kind)
        except Exception as error:  # noqa: BLE001  (the library's own code may raise anything)
            by_default = kind == "dynamic" and loaded.adapter.phase == "both"  # in a run of this family
            (problems if by_default else others).append(f"{kind} cache: {said(error)}")
    if not held and not problems:
        return Check("decode", passed=None, detail="; ".join(others))
    same_after = f"{' and '.join(held)} cache: the same after two replays of every component"
    return Check.of("decode", problems, "; ".join([same_after, *others]))


def _decode_problems(loaded: LoadedModel, kind: CacheKind) -> Iterator[str]:
    step = decode_step(loaded, context_length=CONTEXT, kv_cache=kind)
    tree = component_tree(loaded.model, loaded.adapter, "fine", kv_cache=True)
    with states_put_back(step.inputs):
        captures = capture(tree, step.inputs)
    tree = tree.without([part.name for part in tree if part.name not in captures])
    before = _cached(step.inputs)
    wrong = [part.name for part in tree if not _repeats(part.module, captures[part.name], step.inputs)]
    if wrong:
        yield f"other outputs than in the step: {some(wrong)}"
    if _cached(step.inputs) != before:
        yield "its keys, values, states or length are others than before"


def _cached(inputs: Mapping[str, Any]) -> list[Any]:
    layers = [layer for cache in caches_in(inputs) for layer in cache.layers]
    lengths = [int(layer.get_seq_length()) for layer in layers if hasattr(layer, "get_seq_length")]
    return [*lengths, *(checksum(tensor) for layer in layers for tensor in kept_by(layer) if tensor.numel())]


class Traces:
    """What a model and the functions of its parts are like, to see what a forward pass or a measurement leaves."""

    def __init__(self, loaded: LoadedModel, inputs: Mapping[str, Any]) -> None:
        self.loaded = loaded
        self.inputs = forward_inputs(loaded.model, inputs)
        self._run()  # what the first pass sets up is no trace
        self.before = self._state()

    def of_a_pass(self) -> list[str]:
        """Return what one more forward pass leaves."""
        self._run()
        return self._changed()

    def check(self, passed: list[str]) -> Check:
        """Return a check of what all measurements left; ``passed`` is what a pass alone leaves."""
        problems = [f"a forward pass leaves {some(passed)}"] if passed else []
        if not passed and (left := self._changed()):
            problems.append(f"measuring leaves {some(left)}")
        return Check.of("traces", problems, "no hooks, replaced functions or changed buffers are left")

    def _changed(self) -> list[str]:
        now = self._state()
        return [name for name in {**self.before, **now} if self.before.get(name) != now.get(name)]

    def _run(self) -> None:
        with torch.no_grad():
            self.loaded.model(**self.inputs)

    def _state(self) -> dict[str, Any]:
        model: Any = self.loaded.model
        state: dict[str, Any] = {}
        for name, module in model.named_modules():
            hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks)  # noqa: SLF001
            state[f"hooks of {name or 'the model'}"] = [len(registered) for registered in hooks]
            state[f"attributes of {name or 'the model'}"] = (sorted(vars(module)), module.training)
        tensors = [*model.named_parameters(), *model.named_buffers()]
        state |= {name: checksum(tensor) for name, tensor in tensors if tensor.numel()}
        for path in {part.function for part in self.loaded.adapter.parts if part.function}:
            call = FunctionCall(path, model)
            state[f"a replaced {path}"] = id(call.function)
        state["a changed configuration"] = copy.deepcopy(model.config.to_dict())
        return state
