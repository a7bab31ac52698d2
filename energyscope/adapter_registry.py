"""Which adapters are installed, and which one serves a model.

Adapters are entry points of packages. Those of energyscope itself are looked at first, so that others are imported
only for a model that none of these serves; one that is broken then costs itself and no more.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from energyscope.adapters import BY_STRUCTURE, Adapter, Task
from energyscope.errors import ModelError, UsageError, did_you_mean
from energyscope.failures import first_line

GROUP = "energyscope.adapters"
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
    """An installed adapter, not imported yet: its entry point, and the package that it belongs to.

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
def installed() -> Mapping[str, Installed]:
    """Return the installed adapters by name, without importing them: our own first."""
    found: dict[str, Installed] = {}
    entries = map(_installed, entry_points(group=GROUP))
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
    adapter = _imported(name)
    if isinstance(adapter, str):
        raise ModelError(adapter)
    return adapter


@cache
def _imported(name: str) -> Adapter | str:
    """Import an adapter once, and return it or what is wrong with it. What its import prints goes to stderr."""
    entry = installed()[name]
    which = f"the adapter {name!r} ({entry.origin}, {entry.point.value})"
    if entry.rivals and not entry.own:
        rivals = " and ".join([entry.origin, *entry.rivals])
        return f"the adapter name {name!r} is used by {rivals}: uninstall all but one"
    try:
        with contextlib.redirect_stdout(sys.stderr):
            adapter = entry.point.load()
    except Exception as error:  # noqa: BLE001  (another package's import may raise anything)
        return f"{which} cannot be imported: {type(error).__name__}: {first_line(error)}"
    except SystemExit as error:
        return f"{which} cannot be imported: it exits the process ({error})"
    if not isinstance(adapter, Adapter):
        return f"{which} is not an energyscope.adapters.Adapter"
    problems = adapter.problems()
    if not problems and adapter.name != name:
        problems = [f"name: it is {adapter.name!r}, and the entry point's is {name!r}"]
    return f"{which} is not valid: {'; '.join(problems)}" if problems else adapter


def own_adapters() -> list[Adapter]:
    """Import and return the adapters that ship with energyscope."""
    return [load_adapter(name) for name, entry in installed().items() if entry.own]


def other_adapters(first: str = "") -> Iterable[Adapter]:
    """Import the adapters of other packages, one by one; those whose name begins ``first`` come before others.

    One that is broken is named in the log and left out.
    """
    names = [name for name, entry in installed().items() if not entry.own]
    for name in sorted(names, key=lambda name: (not first.startswith(name), name)):
        try:
            yield load_adapter(name)
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
