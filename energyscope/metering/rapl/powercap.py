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

import itertools
import os
import time
from dataclasses import dataclass
from pathlib import Path

from energyscope.errors import MeterError

ROOT_VARIABLE = "ENERGYSCOPE_POWERCAP"
ROOT = "/sys/class/powercap"
COUNTED = ("package", "dram")  # beginnings of names
MOST_W = 1000.0  # of one package: a counter cannot begin again twice in less than its range at this power


class DeniedError(MeterError):
    """There are counters, and this user may not read them."""


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


class Powercap:
    """All packages and their DRAM as one counter, of millijoules since it was made; ``names`` are what it adds up.

    ``most_gap_s`` is how far apart two reads may be: after longer, a counter may have begun again unseen.

    Raises:
        MeterError: there is no such counter (`DeniedError`: none that this user may read).

    """

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or Path(os.environ.get(ROOT_VARIABLE) or ROOT)
        try:
            self.domains = list(self._domains())
            for domain in self.domains:
                domain.last_uj = domain.shown_uj()
        except PermissionError as error:
            raise DeniedError(
                "only root may read this processor's energy counters; until the next boot, this lets everybody: "
                f"sudo chmod a+r {self.root}/intel-rapl:*/energy_uj"
            ) from error
        except (OSError, ValueError) as error:
            raise MeterError(f"the processor's energy counters cannot be read: {error}") from error
        self.names = [domain.name for domain in self.domains]
        if not any(name.startswith("package") for name in self.names):
            raise MeterError(
                f"{self.root} has no energy counter of a processor (RAPL): virtual machines and containers often "
                "have none, and others need the kernel's module intel_rapl_msr"
            )
        self.most_gap_s = min(domain.range_uj for domain in self.domains) / 1e6 / MOST_W

    def _domains(self) -> list[Domain]:
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
        """Return the energy (mJ) since this was made, by all counters.

        Raises:
            MeterError: one of them does not answer.

        """
        try:
            return sum([domain.read_uj() for domain in self.domains]) / 1e3
        except (OSError, ValueError) as error:
            raise MeterError(f"the processor's energy counter cannot be read any more: {error}") from error


def update_period_s(powercap: Powercap, *, changes: int, most_s: float) -> float:
    """Return the median time (s) between two changes of the first counter; takes that many of them.

    Raises:
        MeterError: it stands still.

    """
    first = powercap.domains[0]
    begin_s = now_s = time.monotonic()
    times_s, last_uj = list[float](), first.shown_uj()
    while len(times_s) <= changes:
        if now_s - begin_s > most_s:
            raise MeterError(
                f"the energy counter of {first.name} stands still: {len(times_s)} changes in {most_s:.1f} s"
            )
        shown_uj, now_s = first.shown_uj(), time.monotonic()
        if shown_uj != last_uj:
            times_s.append(now_s)
            last_uj = shown_uj
    gaps = sorted(later - earlier for earlier, later in itertools.pairwise(times_s))
    return gaps[len(gaps) // 2]
