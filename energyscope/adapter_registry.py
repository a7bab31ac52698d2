"""Which adapters are installed, and which one serves a model; and short names of models without one of their own.

Both are entry points of packages: an `Adapter`, or a mapping of short names to checkpoints. Those of energyscope
itself are looked at first, so that others are imported only for a model that none of these serves; one that is
broken then costs itself and no more.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from energyscope.adapters import BY_STRUCTURE, Adapter, Checkpoint, Task
from energyscope.errors import ModelError, UsageError, did_you_mean

GROUP = "energyscope.adapters"
MODELS = "energyscope.models"
_WORDS = {GROUP: "adapter", MODELS: "table of models"}
OWN_PACKAGE = "energyscope-llm"
LOG = logging.getLogger("energyscope")
# What the name of an architecture class of config.json says about the task; others say nothing.
TASKS: Mapping[str, Task] = {
    "ForSequenceClassification": "classification",
    "ForCausalLM": "next-token",
    "LMHeadModel": "next-token",
    "ForMaskedLM": "masked-token",
    "ForImageClassification": "image-classification",
    "Model": "embedding",
}


@dataclass(frozen=True)
class Installed:
    """What is installed, not imported yet: its entry point, and the package that it belongs to.

    ``rivals`` are packages that use the same name: none of them can be meant by it. The name of one of our own
    stays ours.
    """

    point: EntryPoint
    package: str
    version: str
    rivals: tuple[str, ...] = ()

    @property
    def own(self) -> bool:
        """Whether it ships with energyscope."""
        return self.package == OWN_PACKAGE

    @property
    def origin(self) -> str:
        """The package and its version."""
        return f"{self.package} {self.version}".strip()


@cache
def installed(group: str = GROUP) -> Mapping[str, Installed]:
    """Return a group's entries by name, the adapters by default, without importing them: our own first."""
    found: dict[str, Installed] = {}
    entries = map(_installed, entry_points(group=group))
    for entry in sorted(entries, key=lambda entry: (not entry.own, entry.point.name, entry.package)):
        first = found.setdefault(entry.point.name, entry)
        if first.point.value != entry.point.value:
            found[entry.point.name] = replace(first, rivals=(*first.rivals, entry.origin))
    return found


def _installed(point: EntryPoint) -> Installed:
    if point.dist is None:
        return Installed(point, f"the package of {point.value}", "")
    return Installed(point, point.dist.name or f"the package of {point.value}", point.dist.version or "")


def load_adapter(name: str) -> Adapter:
    """Import one adapter and check it.

    Raises:
        UsageError: no adapter has this name.
        ModelError: several packages use it, its module cannot be imported, or what it declares is not valid.

    """
    if name not in installed():
        raise UsageError(f"no adapter is called {name!r}{did_you_mean(name, installed())}")
    adapter: Adapter = _loaded(name, GROUP)
    return adapter


def load_models(name: str) -> Mapping[str, Checkpoint]:
    """Import one installed table of models and check it: short names, with a checkpoint each.

    Raises:
        ModelError: several packages use its name, its module cannot be imported, or what it declares is not valid.

    """
    models: Mapping[str, Checkpoint] = _loaded(name, MODELS)
    return models


def _loaded(name: str, group: str) -> Any:
    value, problem = _imported(name, group)
    if problem:
        raise ModelError(problem)
    return value


@cache
def _imported(name: str, group: str) -> tuple[Any, str | None]:
    """Import an entry once; return it and what is wrong with it: one that would never end is not imported."""
    from energyscope.adapter_states import why_stopped  # late: it imports this module

    entry = installed(group)[name]
    if entry.own or entry.rivals or entry.point.module in sys.modules or (why := why_stopped(name, group)) is None:
        return import_here(name, group)
    return None, f"{_described(name, group)} cannot be imported: {why}"


def _described(name: str, group: str) -> str:
    entry = installed(group)[name]
    return f"the {_WORDS[group]} {name!r} ({entry.origin}, {entry.point.value})"


def import_here(name: str, group: str) -> tuple[Any, str | None]:
    """Import an entry; return it and what is wrong with it. What its import prints goes to stderr."""
    entry, which = installed(group)[name], _described(name, group)
    if entry.rivals and not entry.own:
        rivals = " and ".join([entry.origin, *entry.rivals])
        return None, f"the {_WORDS[group]} name {name!r} is used by {rivals}: uninstall all but one"
    try:
        with contextlib.redirect_stdout(sys.stderr):
            value = entry.point.load()
    except Exception as error:  # noqa: BLE001  (another package's import may raise anything)
        from energyscope.failures import first_line  # late: `energyscope models` is quick without

        return None, f"{which} cannot be imported: {type(error).__name__}: {first_line(error)}"
    except SystemExit as error:
        return None, f"{which} cannot be imported: it exits the process ({error})"
    problem = _wrong_models(value) if group == MODELS else _wrong_adapter(value, name)
    return value, f"{which} {problem}" if problem else None


def _wrong_adapter(adapter: Any, name: str) -> str | None:
    if not isinstance(adapter, Adapter):
        return "is not an energyscope.adapters.Adapter"
    problems = adapter.problems()
    if not problems and adapter.name != name:
        problems = [f"name: it is {adapter.name!r}, and the entry point's is {name!r}"]
    return f"is not valid: {'; '.join(problems)}" if problems else None


def _wrong_models(models: Any) -> str | None:
    from energyscope.adapter_checks import checkpoint_problems

    if not isinstance(models, Mapping):
        return "is not a mapping of names to energyscope.adapters.Checkpoint"
    problems = list(checkpoint_problems(models))
    return f"is not valid: {'; '.join(problems)}" if problems else None


def own_adapters() -> list[Adapter]:
    """Import and return the adapters that ship with energyscope."""
    return [load_adapter(name) for name, entry in installed().items() if entry.own]


def other_adapters(first: str = "") -> Iterable[Adapter]:
    """Import the adapters of other packages, one by one; those whose name begins ``first`` come before others.

    One that is broken is named in the log and left out.
    """
    return _others(GROUP, first)


def models_without_adapter(*, own: bool) -> Iterator[tuple[str, Checkpoint]]:
    """Yield the short names that come with no adapter: those of energyscope, or those of other packages.

    A broken table of another package is named in the log and left out.
    """
    ours = (load_models(name) for name, entry in installed(MODELS).items() if entry.own)
    for models in ours if own else _others(MODELS):
        yield from models.items()


def _others(group: str, first: str = "") -> Iterator[Any]:
    names = [name for name, entry in installed(group).items() if not entry.own]
    for name in sorted(names, key=lambda name: (not first.startswith(name), name)):
        try:
            yield _loaded(name, group)
        except ModelError as error:
            _log_once(f"{error} (skipped)")


@cache
def _log_once(message: str) -> None:
    LOG.warning("energyscope: %s", message)


def adapter_for(
    model_type: str,
    architectures: Sequence[str] = (),
    *,
    name: str | None = None,
    otherwise: Callable[[], Adapter] | None = None,
) -> Adapter:
    """Return the adapter that serves a configuration's ``model_type``, and the task of its ``architectures``.

    ``name`` asks for one. Else energyscope's own comes first: another package's takes over a model type of ours
    only when it is named. ``otherwise`` makes one where none serves the model, or where ``auto`` is asked for.

    Raises:
        UsageError: no adapter has the name, or it serves other model types.
        ModelError: none serves the model, or several do.

    """
    if name == BY_STRUCTURE and otherwise is not None:
        return otherwise()
    if name is not None:
        return _named(name, model_type)
    task = next((task for end, task in TASKS.items() if architectures and architectures[0].endswith(end)), None)
    own = [adapter for adapter in own_adapters() if model_type in adapter.model_types]
    if right := _of_task(own, task):
        return _only(right, model_type)
    others = [adapter for adapter in other_adapters(model_type) if model_type in adapter.model_types]
    for serving in (_of_task(others, task), own, others):
        if serving and (otherwise is None or task in (None, serving[0].task)):
            return _only(serving, model_type)
    if otherwise is not None:
        return otherwise()
    known = sorted({kind for adapter in [*own_adapters(), *other_adapters()] for kind in adapter.model_types})
    raise ModelError(
        f"no adapter serves model type {model_type!r} (known: {', '.join(known)}): "
        "install a package that has one, or write it in about 30 lines (adapters/README.md)"
    )


def _named(name: str, model_type: str) -> Adapter:
    adapter = load_adapter(name)
    if model_type not in adapter.model_types:
        served = ", ".join(adapter.model_types)
        raise UsageError(f"--adapter {name} serves {served}, and this model is of type {model_type!r}")
    return adapter


def _of_task(adapters: Sequence[Adapter], task: Task | None) -> list[Adapter]:
    return [adapter for adapter in adapters if task in (None, adapter.task)]


def _only(serving: Sequence[Adapter], model_type: str) -> Adapter:
    if len(serving) > 1:
        names = " and ".join(adapter.name for adapter in serving)
        raise ModelError(
            f"the adapters {names} both serve model type {model_type!r}: choose one by --adapter NAME"
        )
    return serving[0]
