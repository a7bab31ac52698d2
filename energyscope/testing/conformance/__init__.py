"""The conformance kit for adapters: what a run relies on with any family, checked on a tiny model on the CPU.

    from energyscope.testing import check_adapter

    def test_conforms():
        assert check_adapter("energyscope_qwen3:adapter").problems == []

`energyscope check-adapter` prints the same as a table. Checks, in their order:

- ``declaration``: every field is valid (`Adapter.problems`).
- ``import``: in a fresh process, the module neither imports torch or transformers, nor prints, nor changes the
  working folder or the environment, nor leaves a thread running.
- ``model``: the class and the type are known, and a tiny model can be built.
- ``paths``: parts that are not optional are modules of the model.
- ``calls``: one forward pass calls them, in every layer.
- ``weights``: 99 % of the weights are in a component at coarse granularity; the others are named.
- ``once``: no weight counts twice, also where the head is tied to the embedding.
- ``FLOPs``: 99 % of the matrix work is in a block, what granularity medium measures; the rest is named.
- ``sums``: the parts of each component do its matrix work together, within 1 %.
- ``replay``: components alone, and parents without their children, return the bits that they did in the model.
- ``decode``: a decode step's KV cache is the same after replays.
- ``ablation``: ablating all components ends well, and the model comes back.
- ``removal``: each kind of components, set to zero, changes the model's output.
- ``traces``: no hooks, replaced functions or changed buffers are left.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from energyscope.adapter_import import Place, import_report, load, place_of
from energyscope.adapter_registry import installed, load_adapter
from energyscope.adapters import BY_STRUCTURE, Adapter
from energyscope.errors import EnergyscopeError, UsageError
from energyscope.testing.conformance.check import Check, Conformance, said

if TYPE_CHECKING:
    from energyscope.loading import LoadedModel

__all__ = ["Check", "Conformance", "check_adapter"]

LENGTH, BATCH = 12, 2  # of the inputs, in tokens and examples


def check_adapter(adapter: Adapter | str, config: Any = None) -> Conformance:
    """Check an adapter on a tiny model with random weights, on the CPU in float32; it takes seconds.

    ``adapter`` is one, or where it is: an installed NAME, FILE.py or PACKAGE:ATTRIBUTE. ``config`` is a small
    transformers configuration, or keyword arguments of ``AutoConfig.for_model`` (of the adapter's first model
    type, unless ``model_type`` is among them); without it the sizes of the family's default one are cut.

    Raises:
        UsageError: there is no such adapter, or it cannot be imported.

    """
    begin = time.perf_counter()
    place = place_of(adapter) if isinstance(adapter, str) else _place(adapter)
    imported = _import(place)
    declared = load(place) if isinstance(adapter, str) and place is not None else adapter
    assert isinstance(declared, Adapter)  # noqa: S101  by the line before
    checks = [_declaration(declared, place), imported]
    loaded = None
    if checks[0].passed:
        built, loaded = _model(declared, config)
        checks.append(built)
    if loaded is not None:
        checks += _on_model(loaded)
    return Conformance(
        declared.name,
        type(loaded.model).__name__ if loaded else None,
        sum(weight.numel() for weight in loaded.model.parameters()) if loaded else None,
        tuple(checks),
        time.perf_counter() - begin,
    )


def _place(adapter: Adapter) -> Place | None:
    """Return where an adapter is that is installed under its name."""
    try:
        is_installed = adapter.name in installed() and load_adapter(adapter.name) is adapter
    except EnergyscopeError:
        return None
    return place_of(adapter.name) if is_installed else None


def _import(place: Place | None) -> Check:
    if place is None:
        why = "its module is not known: check it by NAME, FILE.py or PACKAGE:ATTRIBUTE"
        return Check("import", passed=None, detail=why)
    report = import_report(place)
    if report.problem:
        raise UsageError(f"{place} cannot be imported: {report.problem}")
    return Check.of(
        "import", report.effects, f"{place} in {1e3 * (report.seconds or 0):.0f} ms, without side effects"
    )


def _declaration(adapter: Adapter, place: Place | None) -> Check:
    found_by_structure = adapter.name == BY_STRUCTURE
    problems = (replace(adapter, name="structure") if found_by_structure else adapter).problems()
    if place is not None and place.name not in (None, adapter.name):
        problems.append(f"name: it is {adapter.name!r}, and the entry point's is {place.name!r}")
    if problems:
        return Check.of("declaration", problems, "")
    return Check.of("declaration", (), f"{len(adapter.parts)} parts for {', '.join(adapter.model_types)}")


def _model(adapter: Adapter, config: Any) -> tuple[Check, LoadedModel | None]:
    from energyscope.testing.conformance.tiny import tiny_model

    try:
        loaded = tiny_model(adapter, config)
    except EnergyscopeError as error:
        return Check("model", passed=False, detail=str(error)), None
    size = sum(weight.numel() for weight in loaded.model.parameters())
    return Check("model", passed=True, detail=f"{type(loaded.model).__name__} with {size:,} weights"), loaded


def _on_model(loaded: LoadedModel) -> Iterator[Check]:
    """Yield the checks that run a model; each stands for itself, so that one failure does not hide another."""
    from energyscope.model_inputs import reads_tokens
    from energyscope.testing.conformance import behaviour, structure
    from energyscope.testing.conformance.tiny import tied
    from energyscope.workloads import profile_inputs

    model, adapter = loaded.model, loaded.adapter
    yield from _tried("paths", lambda: structure.paths(model, adapter))
    try:
        length = LENGTH if reads_tokens(model) else None
        inputs = profile_inputs(loaded, batch_size=BATCH, sequence_length=length).inputs
        traces = behaviour.Traces(loaded, inputs)
        passed = traces.of_a_pass()
    except Exception as error:  # noqa: BLE001  (a model's own code may raise anything)
        yield Check("calls", passed=False, detail=f"no forward pass can be run: {said(error)}")
        return

    def tree(granularity: Any) -> Any:
        return structure.called_tree(model, adapter, granularity, inputs)

    def once() -> Check:
        other = tied(loaded)
        return structure.once(tree("fine"), other.model if other else None)

    yield from _tried("calls", lambda: structure.calls(model, adapter, inputs))
    yield from _tried("weights", lambda: structure.weights(tree("coarse")))
    yield from _tried("once", once)
    yield from _tried("FLOPs", lambda: structure.flops(tree("medium"), inputs))
    yield from _tried("sums", lambda: structure.sums(tree("fine"), inputs))
    yield from _tried("replay", lambda: behaviour.replay(model, adapter, inputs))
    yield from _tried("decode", lambda: behaviour.decode(loaded))
    yield from _tried("ablation", lambda: behaviour.removal(loaded, tree("fine")))
    yield from _tried("traces", lambda: traces.check(passed))


def _tried(name: str, check: Callable[[], Check | tuple[Check, ...]]) -> tuple[Check, ...]:
    try:
        result = check()
    except Exception as error:  # noqa: BLE001  (a model's own code may raise anything)
        return (Check(name, passed=False, detail=said(error)),)
    return result if isinstance(result, tuple) else (result,)
