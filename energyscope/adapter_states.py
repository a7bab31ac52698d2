"""Whether installed adapters and tables of models can be imported: those of other packages are, each in a process.

So one that hangs, exits or takes long does no harm, also where a model's name is looked up. What was found is kept
in the user's application directory until the package's version or the adapter's file changes; what was wrong is
looked at anew.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from energyscope import user_files
from energyscope.adapter_import import IMPORT_LIMIT_S, reply_of, say
from energyscope.adapter_registry import GROUP, MODELS, Installed, import_here, installed

FILES = {GROUP: "adapters.json", MODELS: "models.json"}
AT_ONCE = 4  # processes
_CODE = "import sys; from energyscope.adapter_states import answer; answer(*sys.argv[1:])"


@dataclass(frozen=True)
class AdapterState:
    """What an import showed: what an adapter serves, ``models`` (hub ids by short name), or the ``problem``."""

    model_types: tuple[str, ...] = ()
    task: str | None = None
    metric: str | None = None
    models: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None
    seconds: float | None = None


def states(group: str = GROUP, *, again: bool = False) -> dict[str, AdapterState]:
    """Return the state of every adapter, or what else a group has, by name; ``again`` forgets what was kept."""
    own = {name: _imported(name, group) for name, entry in installed(group).items() if entry.own}
    others = {name: _key(entry) for name, entry in installed(group).items() if not entry.own}
    before = {} if again else user_files.read(FILES[group])
    kept = {key: before[key] for key in others.values() if isinstance(before.get(key), dict)}
    lacking = [name for name, key in others.items() if key not in kept]
    if lacking:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            answers = pool.map(partial(_asked, group=group), lacking)
            kept |= {others[name]: state for name, state in zip(lacking, answers, strict=True)}
    fine = {key: state for key, state in kept.items() if not state.get("problem")}  # a problem may be mended
    if fine != before:
        user_files.write(FILES[group], fine)
    return own | {name: _state(kept[key]) for name, key in others.items()}


def why_stopped(name: str, group: str) -> str | None:
    """Return why importing what another package has would stop this process; None if it would not."""
    key, before = _key(installed(group)[name]), user_files.read(FILES[group])
    if key in before:
        return None
    state = _asked(name, group)
    if not state.get("problem"):
        user_files.add(FILES[group], {key: state})
    return state["problem"] if state.get("stopped") else None


def answer(name: str, group: str) -> None:
    """Print the state of one adapter, or of what else a group has, imported in this process."""
    say(asdict(_imported(name, group)))


def _imported(name: str, group: str) -> AdapterState:
    begin = time.perf_counter()
    known = name in installed(group)
    value, problem = import_here(name, group) if known else (None, f"there is no {name!r}")
    if value is None or problem:
        return AdapterState(problem=problem)
    checkpoints = value.checkpoints if group == GROUP else value
    models = {short: checkpoint.hub_id for short, checkpoint in checkpoints.items()}
    seconds = time.perf_counter() - begin
    if group != GROUP:
        return AdapterState(models=models, seconds=seconds)
    return AdapterState(value.model_types, value.task, value.metric, models, seconds=seconds)


def _asked(name: str, group: str) -> dict[str, Any]:
    """Return what a process of its own answers about an adapter or a table of models."""
    reply = reply_of(_CODE, name, group, limit_s=IMPORT_LIMIT_S)
    return {"problem": reply.problem, "stopped": True} if reply.problem else dict(reply.document)


def _state(kept: Mapping[str, Any]) -> AdapterState:
    known = {name: value for name, value in kept.items() if name in AdapterState.__dataclass_fields__}
    return AdapterState(**{**known, "model_types": tuple(known.get("model_types") or ())})


def _key(entry: Installed) -> str:
    """Return what a kept state is of: adapter, package and version, when its file was written, and where."""
    packages = " and ".join([entry.origin, *entry.rivals])
    written = _written_ns(entry.point.value.partition(":")[0])
    return f"{entry.point.name} of {packages}, {written}, {sys.prefix}"


def _written_ns(module: str) -> int | None:
    """Return when a module's file was written, None where it is not found without importing its package."""
    package, *rest = module.split(".")
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        return None
    folders = (spec and spec.submodule_search_locations) or [""]
    module_file = Path(folders[0], *rest).with_suffix(".py") if rest else Path((spec and spec.origin) or "")
    files = [module_file, Path(folders[0], *rest, "__init__.py")]
    return next((file.stat().st_mtime_ns for file in files if file.is_file()), None)
