"""Where each module of a model lies, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Placement:
    """The devices of a model's modules, by their paths: the nearest path above a module decides.

    ``main`` is where the inputs go. What lies on the CPU beside a main GPU waits there, and is copied to that GPU
    whenever it runs.
    """

    modules: Mapping[str, torch.device]
    main: torch.device

    def device_of(self, path: str) -> torch.device:
        """Return where a module or a parameter lies; what has no path above it lies on the main device."""
        words = path.split(".") if path else []
        above = (".".join(words[:end]) for end in range(len(words), -1, -1))
        return next((self.modules[one] for one in above if one in self.modules), self.main)

    def runs_on(self, path: str) -> torch.device:
        """Return where a module runs."""
        device = self.device_of(path)
        return self.main if self._waits(device) else device

    @property
    def devices(self) -> tuple[torch.device, ...]:
        """All devices that hold weights or run them, the main one first."""
        return tuple(dict.fromkeys([self.main, *self.modules.values()]))

    @property
    def offloaded(self) -> tuple[str, ...]:
        """The modules that wait in host memory."""
        return tuple(path for path, device in self.modules.items() if self._waits(device))

    def _waits(self, device: torch.device) -> bool:
        return str(device) == "cpu" != str(self.main)
