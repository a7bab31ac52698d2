"""Resume: go on with a run that was interrupted or failed, under the conditions that it began with.

Stages that are done stay, and so do finished phases and whole passes of a profile, whole blocks of a benchmark,
generations and windows of a traced generation, and ablations. What was cut off half-way is measured anew: its
windows and new ones would be of two temperatures. Its entries stay in the journal, and count no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from energyscope.errors import RunError, UsageError
from energyscope.reasons import reason
from energyscope.runs import schema
from energyscope.runs.files import as_kept, with_home
from energyscope.runs.locks import BEING_MEASURED, is_being_written
from energyscope.runs.method import FIELD, REVISION
from energyscope.runs.store import RunStore, lacking_stages, read_document, read_journal
from energyscope.settings.benchmark import BenchmarkSettings
from energyscope.settings.run import RunSettings
from energyscope.stages.phases import finished_phases
from energyscope.stages.registry import STAGES
from energyscope.stages.session import whole_passes

PROFILE = "profile"
DECIDE_THEMSELVES = ("benchmark", "generate", "ablate")  # what stays, once the model is there
MODEL_CHANGES = ("host_peak_bytes",)  # from one loading to the next
OF_A_HOST = ("platform", "threads", "clock")
OF_A_BOARD = ("name", "uuid", "measured", "driver", "power_limit_w")


def settings_in(document: Mapping[str, Any]) -> RunSettings:
    """Return the settings that a run was begun with, as it keeps them.

    Raises:
        RunError: they cannot be read.

    """
    try:
        known = with_tuples(document["settings"])
        benchmark = BenchmarkSettings(**with_tuples(known["benchmark"]))
        return RunSettings.of(**{**known, "benchmark": benchmark})
    except (KeyError, TypeError, AttributeError, UsageError) as error:
        raise RunError(f"the settings in {schema.RUN_FILE} cannot be read ({error}): start a new run") from error


def with_tuples(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as their fields hold them, of what files of a run do."""
    return {
        name: tuple(value) if isinstance(value, list) else with_home(value) for name, value in document.items()
    }


def resumable(path: Path) -> tuple[RunSettings, list[str]]:
    """Return the settings of a run and the stages that it lacks, if it can go on here at all.

    Raises:
        RunError: it cannot be read, another process measures it, or it was measured by another version's method.
        UsageError: it is a cell of a sweep, or is split by torchrun, whose processes cannot go on.

    """
    linked = next((file for file in path.iterdir() if file.is_symlink()), None)
    if linked is not None:  # what is written would go to where it leads
        raise RunError(f"{linked} is a link: put the file itself there")
    document, lacking = read_document(path), lacking_stages(path)
    settings = settings_in(document)
    if (path.parent / schema.SWEEP_FILE).is_file():
        raise UsageError(f"{path} is a cell of a sweep: use `energyscope sweep --resume {path.parent}`")
    if is_being_written(path):
        raise RunError(f"{path} {BEING_MEASURED}")
    if lacking and settings.tensor_parallel:
        raise UsageError("a run of --tensor-parallel cannot be resumed: start a new one")
    if lacking and document.get(FIELD) != REVISION:
        raise RunError(f"{path} was begun by a version of energyscope that measures otherwise: start a new run")
    return replace(settings, name=path.name, root=path.parent), lacking


def take_up(store: RunStore, lacking: Sequence[str], sections: Mapping[str, Any], command: str | None) -> None:
    """Go on with a run's directory: check what its numbers depend on, and mark what is measured anew.

    Raises:
        RunError: another process did meanwhile.
        UsageError: something has changed since the run began, with what.

    """
    if list(lacking) != lacking_stages(store.path):
        raise RunError(f"{store.path} was gone on with by another process meanwhile")
    joules = any(stage.metered for stage in STAGES if stage.name in lacking)
    changed = list(changes(as_kept(store.document), as_kept(sections), joules=joules))
    if changed:
        raise UsageError(
            f"{store.path.name} was begun with another {' and '.join(changed)}: go on as it began, or use "
            "--new-run for another run with its settings"
        )
    store.mend_journal()
    for entry in _begun_again(read_journal(store.path), lacking):
        store.journal(entry)
    at = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    warnings = [*store.document.get("warnings", ()), reason("run-resumed", at=at, stages=list(lacking))]
    store.update(warnings=warnings, resumed=[*store.document.get("resumed", ()), {"at": at, "command": command}])


def changes(before: Mapping[str, Any], now: Mapping[str, Any], *, joules: bool) -> Iterator[str]:
    """Yield what differs of model, data and versions, and of the board where ``joules`` are lacking."""
    yield from _differences("model's ", before["model"], now["model"], leave=MODEL_CHANGES)
    yield from _differences("input's ", _read(before["workload"]), _read(now["workload"]))
    yield from _differences("", before["environment"], now["environment"], leave=() if joules else OF_A_HOST)
    if not joules:
        return
    was, is_now = ({name: each["device"].get(name) for name in OF_A_BOARD} for each in (before, now))
    yield from _differences("device's ", was, is_now)
    if before.get("boot") != now["boot"]:
        yield "start of the machine (times of its two parts have no common clock)"


def _read(workload: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a run is fed, with the digest of its data alone: stages add to what is known of those."""
    judged = workload.get("evaluation")
    return {**workload, "evaluation": judged and judged.get("digest")}


def _differences(
    whose: str, before: Mapping[str, Any], now: Mapping[str, Any], leave: Sequence[str] = ()
) -> Iterator[str]:
    for name in dict.fromkeys((*before, *now)):
        was, is_now = before.get(name), now.get(name)
        if name not in leave and was != is_now:
            yield f"{whose}{name.replace('_', ' ')} ({was}, now {is_now})"


def _begun_again(entries: Sequence[Mapping[str, Any]], lacking: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield entries that say which of those before count no more: see `energyscope.runs.store.read_journal`."""
    finished = finished_phases(entries)
    for name in lacking:
        own = [entry for entry in entries if entry.get("stage") == name]
        if name == PROFILE:
            scenes = dict.fromkeys(entry.get("scene") for entry in own)
            for scene in scenes:
                if scene not in finished:
                    passes = whole_passes([entry for entry in own if entry.get("scene") == scene])
                    kept = {schema.KEPT_BEFORE: passes} if passes else {}
                    yield {"stage": name, "scene": scene, schema.BEGUN_AGAIN: True, **kept}
        elif own and name not in DECIDE_THEMSELVES:
            yield {"stage": name, schema.BEGUN_AGAIN: True}
