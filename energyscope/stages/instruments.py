"""What a profile's session works with: replayers, meters and a clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch

from energyscope.metering.group import MeterGroup
from energyscope.metering.ticks import Calls
from energyscope.metering.waiting import HOST, Clock
from energyscope.replay.calls import Call, RoundReplay
from energyscope.replay.in_model import InModel
from energyscope.replay.replay_setup import ReplaySetup
from energyscope.replay.targets import Target


class WindowReplay(RoundReplay, Protocol):
    """Runs a round of calls for a window, with a rest before each call where asked for; `Replayer` does it."""

    def run(self, round_: Sequence[Call], seconds: float, *, rest_s: float | None = None) -> Calls | None: ...

    def pace(self, round_: Sequence[Call], seconds: float) -> float: ...

    def own_bytes(self) -> int | None: ...


@dataclass
class Instruments:
    """What a session works with.

    ``elsewhere`` are the replayers of the other devices that a model is spread over, in the order of the meters;
    ``sampling_s`` is the interval at which the sensor samples the board's power, None where it is not known; run
    ``eager``, the host launches every kernel, and may set the pace; ``split``, other processes follow each call.
    ``in_model``, where there is one, times components in the model instead of replaying them.
    """

    replay_setup: ReplaySetup
    replayer: WindowReplay
    meter: MeterGroup
    clock: Clock = HOST
    elsewhere: Mapping[torch.device, WindowReplay] = field(default_factory=dict)
    sampling_s: float | None = None
    eager: bool = False
    split: bool = False
    in_model: InModel | None = None

    @property
    def beside_model(self) -> bool:
        """Whether components may be timed in short blocks in turn with the model: on one measured GPU."""
        return self.eager and not self.elsewhere and not self.meter.of_cpu and not self.meter.modelled

    def replayer_of(self, target: Target) -> WindowReplay:
        """Return the replayer of the device on which a target's work ends."""
        device = self.replay_setup.device_of(target) if self.elsewhere else None
        return self.replayer if device is None else self.elsewhere.get(device, self.replayer)

    def synchronize(self) -> None:
        """Wait until every device has done all that was queued."""
        for replayer in (self.replayer, *self.elsewhere.values()):
            replayer.synchronize()

    def own_bytes(self) -> list[int | None]:
        """Return the memory (bytes) that this process holds on each device."""
        return [replayer.own_bytes() for replayer in (self.replayer, *self.elsewhere.values())]
