"""Powercap trees as Linux shows them, and a process that lets their counters rise by known watts."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

WRAP_UJ = 262_143_328_850
WRITER = """
import os, sys, time
files = [(os.open(path, os.O_WRONLY), float(watts), int(first), int(wrap)) for path, watts, first, wrap in
         (line.split() for line in sys.argv[2:])]
begin = float(sys.argv[1])
while os.getppid() == int(os.environ["WRITER_OF"]):
    seconds = time.monotonic() - begin
    for file, watts, first, wrap in files:
        os.pwrite(file, b"%015d" % ((first + int(seconds * watts * 1e6)) % wrap), 0)
    time.sleep(0.001)
"""


class FakePowercap:
    """A tree; ``add`` makes a domain in it, and within ``writing`` each counter rises by its watts."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._domains: list[tuple[Path, float, int, int]] = []

    def add(
        self, folder: str, name: str, watts: float = 0.0, *, first_uj: int = 0, wrap_uj: int = WRAP_UJ
    ) -> Path:
        """Make a domain such as ``intel-rapl:0:1``, which stands in the tree and in its parent, as in sysfs."""
        place = self.root / folder
        place.mkdir(parents=True)
        (place / "name").write_text(f"{name}\n")
        (place / "max_energy_range_uj").write_text(f"{wrap_uj}\n")
        counter = place / "energy_uj"
        counter.write_text(f"{first_uj:015d}")
        parent = self.root / folder.rpartition(":")[0]
        if parent.is_dir():
            (parent / folder).symlink_to(place)
        self._domains.append((counter, watts, first_uj, wrap_uj))
        return counter

    @contextmanager
    def writing(self):
        """Let the counters rise; yields when that began (monotonic, s)."""
        begin_s = time.monotonic()
        lines = [" ".join(map(str, domain)) for domain in self._domains]
        environment = {**os.environ, "WRITER_OF": str(os.getpid())}
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(begin_s), *lines], env=environment)
        try:
            self._await(self._domains[0][0])
            yield begin_s
        finally:
            writer.kill()
            writer.wait()

    def _await(self, counter: Path) -> None:
        before, end_s = counter.read_text(), time.monotonic() + 30
        while counter.read_text() == before:
            assert time.monotonic() < end_s, "the writer does not write"
            time.sleep(0.01)


def one_socket(root: Path, watts: float = 40.0, dram_w: float = 8.0, **package) -> FakePowercap:
    """Return the tree of a processor with DRAM, and with all that must not be counted."""
    tree = FakePowercap(root)
    tree.add("intel-rapl:0", "package-0", watts, **package)
    tree.add("intel-rapl:0:0", "core", 1000.0)
    tree.add("intel-rapl:0:1", "dram", dram_w)
    tree.add("intel-rapl:1", "psys", 1000.0)
    tree.add("intel-rapl-mmio:0", "package-0", 1000.0)
    return tree
