"""Serving: loads are sent to a running server while its GPUs' counters are watched, one after the other."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from energyscope.accounting.records import THERMAL, board
from energyscope.errors import RunError, UsageError
from energyscope.metering.choice import open_meter
from energyscope.metering.claims import claimed
from energyscope.metering.group import LOOK_BACK_S, MeterGroup
from energyscope.progress import Progress, silent
from energyscope.reasons import reason
from energyscope.runs import schema
from energyscope.runs.locks import write_lock
from energyscope.runs.store import DEFAULT_ROOT, RunStore, find_run, free_name, plain_name, read_journal
from energyscope.serving.design import DEFAULT_CONTEXT, Limits, loads_of, next_load, paced
from energyscope.serving.document import Measured, serving_document
from energyscope.serving.endpoint import Endpoint, find_endpoint
from energyscope.serving.engine import Engine
from energyscope.serving.process import Client
from energyscope.serving.requests import Load, Served
from energyscope.serving.run import COLUMNS, STAGE, ServingRun, load_serving, write_requests
from energyscope.serving.tokens import Count, counter_by_words, counter_of, with_prompt_tokens, words_as_tokens
from energyscope.settings.serving import ServingSettings, tokens_of
from energyscope.stages.facts import boot, environment

LATE_S = 0.5  # a counter shows what was drawn within this
REFUSALS = (400, 413, 422)  # of a request that is too long for the server, for one


@dataclass(frozen=True)
class Target:
    """What is measured: the server's API, its engine's processes and GPUs, their meters, and what it takes.

    ``count`` counts the tokens of a text: by the tokenizer that was named, else by words as the server counts.
    """

    endpoint: Endpoint
    engine: Engine
    meter: MeterGroup
    limits: Limits
    count: Count | None

    @classmethod
    def of(cls, settings: ServingSettings) -> Self:
        """Ask the server and NVML.

        Raises:
            EnergyscopeError: the server cannot be asked, or its GPUs are not known or cannot be read.

        """
        endpoint, count = _found(settings), _counter(settings)
        engine = Engine(settings.url, settings.gpu_id)
        unmetered = not engine.gpus and settings.meter == "auto"  # a CPU's joules would hold the client's
        name = "modelled" if unmetered else settings.meter
        meters = [
            open_meter(name, gpu_uuid=gpu, watts=settings.watts, whole_gpu=settings.whole_gpu)
            for gpu in engine.gpus or (None,)
        ]
        limits = _limits(endpoint, count)
        count = count or counter_by_words(endpoint.tokens_per_word, endpoint.overhead_tokens)
        return cls(endpoint, engine, MeterGroup(meters), limits, count)


def measure_server(
    url: str, *, progress: Progress = silent, command: str | None = None, **options: Any
) -> ServingRun:
    """Measure what requests cost on a running server, and return the run.

    Args:
        url: of a server that speaks the OpenAI API, such as ``http://localhost:8000``.
        progress: is called at each load.
        command: how the user called for it, for the record.
        options: those of the command line with underscores, or the fields of `ServingSettings`.

    Raises:
        EnergyscopeError: with what to do; what was finished is kept.

    """
    return serve(ServingSettings.of(url, **options), progress=progress, command=command)


def serve(settings: ServingSettings, *, progress: Progress = silent, command: str | None = None) -> ServingRun:
    """Do what settings ask for, as `measure_server` does."""
    settings.check()
    if settings.name is not None:
        RunStore.check_free(settings.name, settings.root)
    target = Target.of(settings)
    loads = loads_of(settings, target.limits)
    name = settings.name or free_name(f"{plain_name(target.endpoint.model)}-served", settings.root)
    store = RunStore.create(name, settings.root)
    with write_lock(store.path):
        _open(store, settings, target, command)
        _measure(store, settings, target, loads, progress)
    return load_serving(store.path)


def resume(path: str | Path, *, root: Path = DEFAULT_ROOT, progress: Progress = silent) -> ServingRun:
    """Send the loads that a run lacks, with its settings, and return it; one that lacks none as it is.

    Raises:
        RunError: it is no run of a server, or was begun before this machine was started.
        UsageError: the server has another model now.

    """
    path = find_run(path, root).resolve()
    store = RunStore.open(path)
    known = store.document.get(STAGE) or {}
    if not known:
        raise RunError(f"{path} is no run of a server: `energyscope run --resume {path}` takes others up again")
    if (store.document["stages"].get("report") or {}).get("state") == "done":
        return load_serving(path)
    if store.document.get("boot") != boot():
        raise RunError(f"{path} was begun before this machine was started anew, which its clock counts from")
    try:
        settings = ServingSettings.from_document({**store.document["settings"], "root": path.parent})
        model, gpus = known["endpoint"]["model"], known["gpus"]
    except (KeyError, TypeError, AttributeError) as error:
        raise RunError(f"{path / schema.RUN_FILE} cannot be read ({error!r}): measure again") from error
    target = Target.of(settings)
    if target.endpoint.model != model:
        raise UsageError(f"{path} is of {model}, and the server has {target.endpoint.model} now")
    if target.engine.gpus != gpus:
        raise UsageError(f"{path} was begun on {', '.join(gpus)}, and the engine is on other GPUs now")
    with write_lock(path):
        store.mend_journal()
        (path / schema.SERVING_JSON).unlink(missing_ok=True)  # of what was measured so far
        _measure(store, settings, target, loads_of(settings, target.limits), progress)
    return load_serving(path)


def foreseen(settings: ServingSettings) -> list[Load]:
    """Return the loads that would be sent: of the server, only its limits are asked."""
    settings.check()
    return loads_of(settings, _limits(_found(settings), _counter(settings)))


def _found(settings: ServingSettings) -> Endpoint:
    """Return the server's API as it answers, and the context that it takes."""
    lengths = (settings.prompt_tokens, "--prompt-tokens"), (settings.new_tokens, "--new-tokens")
    wanted = max(DEFAULT_CONTEXT, sum(tokens_of(*length)[0] for length in lengths))
    return asyncio.run(
        find_endpoint(
            settings.url,
            model=settings.model,
            api=settings.api,
            timeout_s=settings.timeout_s,
            context_tokens=wanted,
        )
    )


def _limits(endpoint: Endpoint, count: Count | None) -> Limits:
    """Return what the server takes; where neither it nor a tokenizer says, a word is a token."""
    rate, overhead = endpoint.tokens_per_word, endpoint.overhead_tokens
    if rate is None and count is not None:
        rate, overhead = words_as_tokens(count)
    context = endpoint.context_tokens
    return Limits(context or DEFAULT_CONTEXT, rate or 1.0, overhead or 0.0, stated=context is not None)


def _counter(settings: ServingSettings) -> Count | None:
    return None if settings.tokenizer is None else counter_of(settings.tokenizer)


def recover(path: Path) -> ServingRun:
    """Write what a run that was killed had measured, from its journal, and return it; any other as it is.

    Raises:
        RunError: nothing was measured, or its files cannot be read.

    """
    measured = _journalled(path)
    if measured and not (path / schema.SERVING_JSON).is_file():
        store = RunStore.open(path)
        write(store, measured, ServingSettings.from_document(store.document["settings"]))
    return load_serving(path)


def _journalled(path: Path) -> list[Measured]:
    """Return the loads that a journal holds.

    Raises:
        RunError: somebody changed it.

    """
    try:
        return [Measured.of(entry) for entry in read_journal(path) if entry.get("stage") == STAGE]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RunError(f"the journal of {path} holds what no load is ({error!r}): measure again") from error


def write(store: RunStore, measured: Sequence[Measured], settings: ServingSettings) -> None:
    """Write what the loads that were measured tell."""
    modelled = bool((store.document.get("sensor") or {}).get("modelled"))
    document, rows = serving_document(measured, settings.price, settings.carbon, modelled=modelled)
    store.write_json(schema.SERVING_JSON, document)
    store.write_rows(schema.SERVING_FILE, rows, COLUMNS)
    write_requests(store.path, [part.served for part in measured])


def _open(store: RunStore, settings: ServingSettings, target: Target, command: str | None) -> None:
    endpoint, engine = target.endpoint, target.engine
    versions = environment()
    store.update(
        name=store.path.name,
        energyscope=versions["energyscope_llm"],
        created=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        command=command,
        settings={**settings.document(), "stages": [STAGE, "report"]},
        model={"name": endpoint.model},
        environment=versions,
        device={"name": _board_name(engine), "measured": engine.gpus},
        boot=boot(),
        warnings=[],
        stages={STAGE: {"state": "waiting", "reason": None, "seconds": None}},
    )
    assumed = [] if target.limits.stated else [reason("context-assumed", tokens=target.limits.context)]
    notes = [*engine.notes, *assumed]
    store.update(**{STAGE: {"endpoint": asdict(endpoint), "gpus": engine.gpus, "notes": notes}})


def _board_name(engine: Engine) -> str | None:
    from energyscope.metering.nvml.board import Board

    names = [str(Board(gpu).facts()["name"]) for gpu in engine.gpus]
    return ", ".join(dict.fromkeys(names)) or None


def _measure(
    store: RunStore, settings: ServingSettings, target: Target, loads: Sequence[Load], progress: Progress
) -> None:
    """Send the loads that the journal lacks, and write what all of them tell, however this ends."""
    measured = _journalled(store.path)
    done = {part.served.load.name for part in measured}
    began_s = time.monotonic()
    store.stage(STAGE, "running")
    try:
        with ExitStack() as stack:
            others = stack.enter_context(claimed(target.engine.gpus, store.path.name))
            stack.enter_context(target.meter)
            client = stack.enter_context(Client(target.endpoint, timeout_s=settings.timeout_s))
            store.update(sensor=target.meter.describe(), warnings=[*store.document["warnings"], *others])
            for number, load in enumerate(_all_loads(settings, target.limits, loads, measured)):
                progress(STAGE, load.name, number, max(len(loads), number + 1))
                if load.name not in done:
                    ready = paced(load, [part.served for part in measured])
                    part = _measured(client, replace(ready, nonce=secrets.token_hex(4)), target)
                    _check_alive(part.served)
                    measured.append(part)
                    store.journal(part.entry())
            store.update(**{STAGE: {**store.document[STAGE], "client_cpu_s": client.cpu_s()}})
    except BaseException as error:
        state = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
        store.stage(STAGE, state, seconds=time.monotonic() - began_s)
        if measured:
            write(store, measured, settings)
        error.add_note(f"`energyscope serving --resume {store.path}` goes on")
        raise
    write(store, measured, settings)
    store.stage(STAGE, "done", seconds=time.monotonic() - began_s)
    store.stage("report", "done")
    store.compress_journal()


def _all_loads(
    settings: ServingSettings, limits: Limits, loads: Sequence[Load], measured: Sequence[Measured]
) -> Iterator[Load]:
    """Yield the loads, and then more users while throughput grows; ``measured`` is what was sent by then."""
    yield from loads
    while load := next_load(settings, limits, [part.served for part in measured]):
        yield load


def _measured(client: Client, load: Load, target: Target) -> Measured:
    """Send a load, and wait until the counters have shown what it took."""
    before = target.engine.others()
    served = client.send(load)
    if not target.meter.modelled:
        time.sleep(LATE_S)
    begin_s, end_s = served.begin_s - LOOK_BACK_S, served.end_s + LATE_S
    ticks = tuple(meter.ticks(begin_s, end_s) for meter in target.meter.meters)
    state = board(target.meter.states(served.begin_s, served.end_s))
    hot = [reason("slowed-by-heat")] if (state["throttle"] or 0) & THERMAL else []
    guards = tuple(dict.fromkeys([*before, *target.engine.others(), *hot]))
    served = with_prompt_tokens(served, target.count) if target.count else served
    return Measured(served, ticks, guards, state["clock_mhz"], state["temperature_c"])


def _check_alive(served: Served) -> None:
    """Stop where a server does not answer any more; requests that it refuses are a result.

    Raises:
        RunError: half of a load's requests failed.

    """
    errors = [answer.error for answer in served.answers if answer.error is not None]
    refused = all(any(f"answered {status}" in error for status in REFUSALS) for error in errors)
    if 2 * len(errors) > len(served.answers) and not refused:
        raise RunError(
            f"the server left {len(errors)} of {len(served.answers)} requests without an answer ({errors[-1]})"
        )
