"""The processor's counters: which of a powercap tree count, how they wrap, and what cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_powercap import FakePowercap, one_socket

from energyscope.errors import MeterError
from energyscope.metering.counter.source import DeniedError
from energyscope.metering.rapl.powercap import Powercap


def test_packages_and_dram_count_and_nothing_twice(tmp_path):
    """GIVEN core, psys and the package's second place THEN package and DRAM are added up, each once."""
    one_socket(tmp_path)
    assert Powercap(tmp_path).domains == ["package-0", "dram"]


def test_sockets_are_added_up(tmp_path):
    """GIVEN two sockets THEN the rise is that of both packages and both memories since the counter was made."""
    tree = FakePowercap(tmp_path)
    files = [
        tree.add("intel-rapl:0", "package-0", first_uj=5_000),
        tree.add("intel-rapl:0:0", "dram"),
        tree.add("intel-rapl:1", "package-1"),
        tree.add("intel-rapl:1:0", "dram"),
    ]
    counters = Powercap(tmp_path)
    for uj, file in zip((15_000, 2_000, 30_000, 4_000), files, strict=True):
        file.write_text(str(uj))
    assert counters.energy_mj() == pytest.approx(10 + 2 + 30 + 4)


def test_the_folders_alone_are_enough(tmp_path):
    """GIVEN a tree that lists parts only in their package's folder THEN they count as well."""
    tree = FakePowercap(tmp_path)
    tree.add("intel-rapl:0", "package-0")
    tree.add("intel-rapl:0/intel-rapl:0:0", "dram")
    assert Powercap(tmp_path).domains == ["package-0", "dram"]


def test_a_counter_that_wraps_goes_on_each_time(tmp_path):
    """GIVEN a counter that begins again at 1 J WHEN reads see it fall THEN the sum rises by what was drawn."""
    tree = FakePowercap(tmp_path)
    file = tree.add("intel-rapl:0", "package-0", first_uj=900_000, wrap_uj=1_000_000)
    counters = Powercap(tmp_path)
    drawn_mj, seen = 0.0, []
    for _ in range(7):
        drawn_mj += 400.0
        file.write_text(str(int(900_000 + drawn_mj * 1e3) % 1_000_000))
        seen.append(counters.energy_mj() - drawn_mj)
    assert seen == pytest.approx([0.0] * 7)


def test_one_counter_may_wrap_while_another_does_not(tmp_path):
    """Each counter has its own range."""
    tree = FakePowercap(tmp_path)
    package = tree.add("intel-rapl:0", "package-0", first_uj=10, wrap_uj=1_000_000)
    dram = tree.add("intel-rapl:0:0", "dram", first_uj=499_000, wrap_uj=500_000)
    counters = Powercap(tmp_path)
    package.write_text("2010")
    dram.write_text("1000")
    assert counters.energy_mj() == pytest.approx(2 + 2)
    assert counters.most_gap_s == pytest.approx(0.5 / 1000)


def test_a_denied_counter_says_the_command(tmp_path, monkeypatch):
    """GIVEN counters that only root may read THEN one line has the command, and how long it lasts."""
    one_socket(tmp_path)
    read = Path.read_text

    def denied(file, **options):
        if file.name == "energy_uj":
            raise PermissionError(13, "Permission denied", str(file))
        return read(file, **options)

    monkeypatch.setattr(Path, "read_text", denied)
    with pytest.raises(DeniedError) as refused:
        Powercap(tmp_path)
    assert f"sudo chmod a+r {tmp_path}/intel-rapl:*/energy_uj" in str(refused.value)
    assert "until the next boot" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("domains", [[], [("intel-rapl:0", "psys")], [("intel-rapl-mmio:0", "package-0")]])
def test_a_tree_without_a_package_is_refused(tmp_path, domains):
    """GIVEN no package's own counter THEN the message says where one was looked for."""
    tree = FakePowercap(tmp_path)
    for domain in domains:
        tree.add(*domain)
    with pytest.raises(MeterError, match=f"{tmp_path} has no energy counter"):
        Powercap(tmp_path)


def test_links_that_lead_nowhere_are_no_counters(tmp_path):
    """GIVEN the links of a container, which hides what they lead to, THEN it has no counter."""
    (tmp_path / "intel-rapl:0").symlink_to(tmp_path / "hidden")
    with pytest.raises(MeterError, match="virtual machines and containers often have none"):
        Powercap(tmp_path)


def test_the_root_is_that_of_the_environment(tmp_path, monkeypatch):
    """WHEN no folder is given THEN the environment's is taken."""
    one_socket(tmp_path)
    monkeypatch.setenv("ENERGYSCOPE_POWERCAP", str(tmp_path))
    assert Powercap().root == tmp_path


def test_a_counter_that_goes_away_is_an_error(tmp_path):
    """WHEN a counter's file is gone, or empty, THEN reading it fails in one line."""
    tree = FakePowercap(tmp_path)
    file = tree.add("intel-rapl:0", "package-0")
    counters = Powercap(tmp_path)
    file.write_text("")
    with pytest.raises(MeterError, match="cannot be read any more"):
        counters.energy_mj()
    file.unlink()
    with pytest.raises(MeterError, match="cannot be read any more"):
        counters.energy_mj()
