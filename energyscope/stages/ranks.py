"""The processes that torchrun started, when they share one model: the first does the run, the others follow it.

    torchrun --nproc-per-node 2 -m energyscope run MODEL --tensor-parallel --stages profile,report

The first (rank 0) makes the run directory and reads the meters of all GPUs; the others load their share, make the
same forward passes, and follow its orders (`energyscope.replay.distributed`). They print nothing but what went
wrong in them alone.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NoReturn

import torch

from energyscope.errors import EnergyscopeError, ModelError, UsageError
from energyscope.loading import LoadedModel
from energyscope.loading.devices import cuda_uuid
from energyscope.loading.tensor_parallel import join, leave, rank_device
from energyscope.reasons import Reason, reason
from energyscope.replay.coordinator import LeaderLeftError, is_disconnection
from energyscope.settings.run import SPLIT_STAGES, RunSettings
from energyscope.stages.measured_devices import MeasuredDevices
from energyscope.stages.phases import plan_phases, profile_settings, workload_of
from energyscope.stages.profile import follow_profile
from energyscope.workloads import Workload

LET_SPEAK_S = 3.0  # torchrun ends all processes when one fails: by then the first must have said why


@dataclass(frozen=True)
class Ranks:
    """This process among those of torchrun: its number, how many there are, and its number on this machine."""

    rank: int = 0
    world: int = 1
    local_rank: int = 0
    local_world: int = 1

    @property
    def leads(self) -> bool:
        return self.rank == 0


class Dismissed(SystemExit):
    """Ends a process that followed another one's run."""


def ranks() -> Ranks:
    """Return what torchrun says of this process in its environment; one alone without it."""
    names = {"rank": "RANK", "world": "WORLD_SIZE", "local_rank": "LOCAL_RANK", "local_world": "LOCAL_WORLD_SIZE"}
    if "LOCAL_RANK" not in os.environ:  # other launchers set some of these for purposes of their own
        return Ranks()
    try:
        return Ranks(**{field: int(os.environ[name]) for field, name in names.items()})
    except (KeyError, ValueError) as error:
        raise UsageError(f"the environment is not as torchrun sets it ({error}): start it by torchrun") from error


def require_torchrun(tensor_parallel: bool) -> Ranks:
    """Return the processes that share a model; one alone where it is not to be split.

    Raises:
        UsageError: a split is asked for without torchrun, torchrun without a split, or several machines.
        Dismissed: the same, in a process that the first one speaks for.

    """
    process = ranks()
    with speaking_for_all(process):
        if tensor_parallel and process.world < 2:
            raise UsageError(
                "--tensor-parallel needs a process for each GPU: start it as "
                "torchrun --nproc-per-node 2 -m energyscope run MODEL --tensor-parallel ..."
            )
        if not tensor_parallel and process.world > 1:
            raise UsageError(
                f"torchrun started {process.world} processes that would each do the whole run: add "
                "--tensor-parallel to split the model over them, or start energyscope without torchrun"
            )
        if process.local_world != process.world:
            raise UsageError(
                f"torchrun started {process.world} processes, {process.local_world} of them here: "
                "--tensor-parallel measures one machine"
            )
    return process


@contextmanager
def speaking_for_all(process: Ranks) -> Iterator[None]:
    """Let the first process report what all processes find wrong, and each other one what is wrong with it alone.

    What was asked for and the model's files are the same for all of them.
    """
    if not process.leads:
        _hear_signals_by(signal.SIG_DFL)  # end without a word
    try:
        yield
    except (UsageError, ModelError) as error:
        if process.leads:
            raise
        time.sleep(LET_SPEAK_S)
        raise Dismissed(error.exit_code) from error
    except EnergyscopeError as error:
        raise (
            error if process.leads else type(error)(f"process {process.rank} of {process.world}: {error}")
        ) from error


def _hear_signals_by(handler: signal.Handlers) -> None:
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, handler)


def split_devices(settings: RunSettings, process: Ranks) -> MeasuredDevices:
    """Return this process's device, and all GPUs of the processes, whose meters the first one reads; joins them.

    Raises:
        DeviceError: there are fewer GPUs than processes.

    """
    device = rank_device(settings.device, process.local_rank, process.world)
    join(device)
    gpus = (
        [cuda_uuid(torch.device("cuda", rank)) for rank in range(process.world)] if device.type == "cuda" else []
    )
    return MeasuredDevices(device, tuple(gpus))


def split_settings(settings: RunSettings) -> RunSettings:
    """Return the settings with the stages that a split model can do; as they are where it is not split."""
    if not settings.tensor_parallel:
        return settings
    return replace(settings, stages=tuple(stage for stage in settings.stages if stage in SPLIT_STAGES))


def follow_run(settings: RunSettings, loaded: LoadedModel, workload: Workload) -> NoReturn:
    """Follow the first process through the phases that it profiles, and end this process.

    A signal to stop is for the first: it keeps what was finished, and its last word, or its end, ends this one.

    Raises:
        Dismissed: always.

    """
    _hear_signals_by(signal.SIG_IGN)
    try:
        planned = plan_phases(settings, loaded) if "profile" in settings.stages else []
        for phase_plan in planned:
            chosen = profile_settings(settings, planned, phase_plan, warm=phase_plan is not planned[0])
            follow_profile(loaded, workload_of(phase_plan, loaded, workload, settings, None), chosen)
    except LeaderLeftError as error:
        raise Dismissed(1) from error
    except RuntimeError as error:
        if not is_disconnection(error):
            raise
        raise Dismissed(1) from error
    leave()
    raise Dismissed(0)


def skipped_because(settings: RunSettings, stage: str, requested: Sequence[str]) -> Reason:
    """Return why a stage is not done."""
    return reason("not-split" if settings.tensor_parallel and stage in requested else "not-asked-for")
