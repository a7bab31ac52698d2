"""What the whole host drew beside the GPU, in a line of its own: it is in no share, rank, headline or advice."""

from __future__ import annotations

from energyscope.intervals import Interval, from_entry
from energyscope.reporting.page import sentence
from energyscope.reporting.run.report import DECODE, MeasuredWorkload, Report

_NAMES = {"package": "package", "dram": "DRAM"}  # beginnings of RAPL's names


def of_pass(report: Report, workload: MeasuredWorkload) -> str:
    """Return what the host drew in a pass or step beside the GPU, and both together; empty where not known."""
    host = workload.tree.root.host if workload.tree.root else None
    return _beside(report, "step" if workload.phase == DECODE else "pass", host, workload.energy)


def of_generation(report: Report) -> str:
    """Return the same for each generated token of whole generations, prefill included."""
    host = from_entry((report.generation.get("host") or {}).get("joules_per_generated_token"), 1e3)
    tokens = from_entry((report.generation.get("rates") or {}).get("tokens_per_joule"))
    device = None if tokens is None else Interval(1e3 / tokens.value)
    return _beside(report, "generated token", host, device)


def how_read(report: Report) -> str:
    """Return that the host was read beside the GPU, or why not; empty where it was not tried."""
    sensor = report.part("sensor")
    if "host_domains" not in sensor:
        return ""
    return sentence("run/host.txt.j2", per=None, domains=_domains(report), reason=sensor.get("host_reason"))


def lost(report: Report) -> str:
    """Return what `how_read` does where some of the host's joules are missing; empty where none is."""
    sensor = report.part("sensor")
    return how_read(report) if sensor.get("host_domains") and sensor.get("host_reason") else ""


def _beside(report: Report, per: str, host: Interval | None, device: Interval | None) -> str:
    if host is None or device is None:
        return ""
    device_of = "GPUs'" if report.part("sensor").get("devices") else "GPU's"
    values = {"per": per, "host": host, "device": device, "device_of": device_of}
    return sentence("run/host.txt.j2", domains=_domains(report), **values)


def _domains(report: Report) -> str:
    """Return what was counted, such as ``package + DRAM``."""
    names = [str(name).partition("-")[0] for name in report.part("sensor").get("host_domains") or []]
    return " + ".join(dict.fromkeys(_NAMES.get(name, name) for name in names))
