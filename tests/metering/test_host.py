"""What a GPU's host draws beside it: read from a powercap tree at two moments, or unknown with a reason."""

from __future__ import annotations

import time

import pytest
from fake_powercap import one_socket

from energyscope.metering.host import NO_HOST, open_host
from energyscope.metering.meter import Reading
from energyscope.metering.rapl.powercap import ROOT_VARIABLE


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Return a tree whose package and DRAM draw 48 W together while it is written."""
    monkeypatch.setenv(ROOT_VARIABLE, str(tmp_path))
    return one_socket(tmp_path)


def test_package_and_memory_between_two_reads(tree):
    """GIVEN counters of 48 W THEN joules and watts between two reads are theirs, and the domains are named."""
    with tree.writing():
        host = open_host()
        before = host.read()
        time.sleep(0.3)
        drawn = host.since(before)
    assert drawn.power_w == pytest.approx(48, rel=0.1)
    assert drawn.energy_mj >= 0.9 * 48 * 300
    assert host.describe() == {"host_domains": ["package-0", "dram"], "host_reason": None}


def test_a_counter_that_begins_again_between_the_reads(tree):
    """WHEN it passes its range between two reads THEN the energy goes on."""
    counter = tree.root / "intel-rapl:0" / "energy_uj"
    with tree.writing():
        host = open_host()
    counter.write_text("262143328000")
    before = host.read()
    counter.write_text("150")
    assert host.since(before).energy_mj == pytest.approx(1.0)


def test_without_counters_nothing_is_known(monkeypatch, tmp_path):
    """GIVEN a machine without them THEN no number, and the reason in what is described; no error."""
    monkeypatch.setenv(ROOT_VARIABLE, str(tmp_path / "none"))
    host = open_host()
    assert host.since(host.read()) == Reading(None, None)
    assert host.describe()["host_domains"] == []
    assert "no energy counter of a processor" in host.describe()["host_reason"]
    assert host.at_rest(host.read())["host_idle_w"] is None


def test_a_counter_that_is_lost(tree):
    """WHEN it can be read no more THEN what follows is unknown, with the reason, and the run goes on."""
    with tree.writing():
        host = open_host()
        before = host.read()
        (tree.root / "intel-rapl:0" / "energy_uj").unlink()
        assert host.since(before) == Reading(None, None)
    assert "cannot be read any more" in host.describe()["host_reason"]
    assert host.read() == Reading(None, None)


@pytest.mark.parametrize("earlier", [{"at_s": -1e4}, {"energy_mj": -1e12}])
def test_a_rise_that_cannot_be(tree, earlier):
    """GIVEN reads too far apart, or more than any host draws, THEN the energy is unknown, and it is said why."""
    with tree.writing():
        host = open_host()
        now = host.read()
        before = Reading(now.energy_mj + earlier.get("energy_mj", 0.0), None, now.at_s + earlier.get("at_s", 0.0))
        assert host.since(before) == Reading(None, None)
    assert host.describe()["host_reason"].code == "host-counter-began-again"


def test_a_host_that_is_not_asked_for():
    """GIVEN no GPU whose joules are measured THEN nothing is read and nothing said."""
    assert (NO_HOST.read(), NO_HOST.describe(), NO_HOST.at_rest(NO_HOST.read())) == (Reading(None, None), {}, {})
