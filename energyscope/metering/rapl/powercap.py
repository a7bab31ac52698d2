"""The counters of a machine's processors and their memory, summed.

    /sys/class/powercap/intel-rapl:0         package-0   counted; AMD's processors stand here too
                        intel-rapl:0:0       core        a part of the package
                        intel-rapl:0:1       dram        counted: beside the package, where there is one
                        intel-rapl:1         psys        the whole board, packages included
                        intel-rapl-mmio:0    package-0   the first one again

Each counter has microjoules since some moment and begins again at 0 after ``max_energy_range_uj``: minutes at full
power.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from energyscope.errors import MeterError
from energyscope.metering.counter.source import Counter, DeniedError

ROOT_VARIABLE = "ENERGYSCOPE_POWERCAP"
ROOT = "/sys/class/powercap"
COUNTED = ("package", "dram")  # beginnings of names
MOST_W = 1000.0  # of one package: a counter cannot begin again twice in less than its range at this power


@dataclass
class Domain:
    """One counter: its ``name``, file and range (uJ), and the rise since it was first read (uJ)."""

    name: str
    file: Path
    range_uj: int
    last_uj: int = 0
    risen_uj: int = 0

    def shown_uj(self) -> int:
        return int(self.file.read_text(encoding="ascii"))

    def read_uj(self) -> int:
        """Read the counter, and return its rise since it was first read (uJ)."""
        now_uj = self.shown_uj()
        # one that fell has begun again; see `Powercap.most_gap_s`
        self.risen_uj += now_uj - self.last_uj + (self.range_uj if now_uj < self.last_uj else 0)
        self.last_uj = now_uj
        return self.risen_uj


class Powercap(Counter):
    """All packages and their DRAM as one counter, of millijoules since it was made.

    ``root`` is the tree (None: that of the environment, or the system's).

    Raises:
        MeterError: there is no such counter (`DeniedError`: none that this user may read).

    """

    def __init__(self, root: Path | str | None = None) -> None:
        self.root = Path(root or os.environ.get(ROOT_VARIABLE) or ROOT)
        self.place = str(self.root)
        try:
            self._counters = self._found()
            for domain in self._counters:
                domain.last_uj = domain.shown_uj()
        except PermissionError as error:
            raise DeniedError(
                "only root may read this processor's energy counters; until the next boot, this lets everybody: "
                f"sudo chmod a+r {self.root}/intel-rapl:*/energy_uj"
            ) from error
        except (OSError, ValueError) as error:
            raise MeterError(f"the processor's energy counters cannot be read: {error}") from error
        self.domains = [domain.name for domain in self._counters]
        if not any(name.startswith("package") for name in self.domains):
            raise MeterError(
                f"{self.root} has no energy counter of a processor (RAPL): virtual machines and containers often "
                "have none, and others need the kernel's module intel_rapl_msr"
            )
        self.most_gap_s = min(domain.range_uj for domain in self._counters) / 1e6 / MOST_W

    def _found(self) -> list[Domain]:
        """Return the counters to add up; a part is listed by itself, and once more in its package's folder."""
        folders = [*self.root.glob("intel-rapl:*"), *self.root.glob("intel-rapl:*/intel-rapl:*")]
        domains: dict[str, Domain] = {}
        shown = [folder for folder in folders if (folder / "name").exists()]  # Docker hides what the links lead to
        for folder in sorted(shown):
            name = (folder / "name").read_text(encoding="ascii").strip()
            if name.startswith(COUNTED) and folder.name not in domains:
                range_uj = int((folder / "max_energy_range_uj").read_text(encoding="ascii"))
                domains[folder.name] = Domain(name, folder / "energy_uj", range_uj)
        return list(domains.values())

    def energy_mj(self) -> float:
        try:
            return sum([domain.read_uj() for domain in self._counters]) / 1e3
        except (OSError, ValueError) as error:
            raise MeterError(f"the processor's energy counter cannot be read any more: {error}") from error

    def shown(self) -> float:
        return self._counters[0].shown_uj()
