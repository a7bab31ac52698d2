"""`energyscope doctor`: the GPU, the sensor, and what to change before measuring."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from energyscope import format as fmt
from energyscope.cli.errors import report_errors
from energyscope.cli.options import AsJson
from energyscope.errors import UsageError
from energyscope.intervals import interval
from energyscope.reasons import words

if TYPE_CHECKING:
    from rich.table import Table


@report_errors
def command(
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    thorough: Annotated[
        bool,
        typer.Option(
            "--thorough",
            help="Measure also what polling changes, and how often the sensor samples: 80 s.",
        ),
    ] = False,
    seconds: Annotated[
        float | None,
        typer.Option(
            min=1.0, max=120.0, help="With --thorough: seconds of load in each way of polling [default: 10]."
        ),
    ] = None,
    reference: Annotated[
        bool,
        typer.Option(
            "--reference",
            help="Measure also the reference workload, by which `compare` tells two boards apart: about a "
            "minute more, the first time on a board up to two.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check what can be measured here, and what to change.

    On a GPU, or a processor with energy counters, a load runs for some seconds.
    """
    if seconds is not None and not thorough:
        raise UsageError("--seconds requires --thorough")
    from rich.console import Console

    from energyscope.cli.progress import progress
    from energyscope.stages.doctor import POLLING_S, examine

    with progress(Console(stderr=True), quiet=as_json) as report:
        findings = examine(
            device, thorough=thorough, seconds=seconds or POLLING_S, reference=reference, progress=report
        )
    if as_json:
        typer.echo(json.dumps(findings, indent=1))
        return
    _draw(findings)
    if findings["sensor"].get("power_fields") and not thorough:
        typer.echo("--thorough measures also what polling changes, and how often the sensor samples (80 s).")


def _draw(findings: dict[str, Any]) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    console.print(_table("Device", [(_label(key), _shown(value)) for key, value in findings["device"].items()]))
    console.print(_table("Sensor", sensor_lines(findings["sensor"])))
    if findings["reference"]:
        console.print(_table("Reference workload", reference_lines(findings["reference"])))
    if findings["advice"]:
        console.print("What to change:")
        for change in findings["advice"]:
            console.print(f"- {words(change)}", markup=False)
    console.print(words(findings["verdict"]), style="bold", markup=False)


def _table(title: str, lines: list[tuple[str, str]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table("what", "found", title=title, title_justify="left", show_header=False)
    for name, value in lines:
        table.add_row(name, Text(value))
    return table


def sensor_lines(sensor: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the sensor's facts as lines of words and values; what was measured with a load comes last."""
    apart = ("choice", "power_fields", "counter_power", "polling", "sampling_s", "bystanders", "notes",
             "host_reason")  # fmt: skip
    lines = [(_label(key), _shown(value)) for key, value in sensor.items() if key not in apart]
    if sensor.get("choice"):
        lines.append(("choice", words(sensor["choice"])))
    for field, response in (sensor.get("power_fields") or {}).items():
        lines.append((f"power field {field}", _response(response)))
    compared = sensor.get("counter_power")
    if compared:
        lines.append(("counter against power", _agreement(compared)))
    for polling, change in (sensor.get("polling") or {}).items():
        lines.append((f"polled: {polling}", _polling(change)))
    if "sampling_s" in sensor:
        interval_s = sensor["sampling_s"]
        lines.append(("samples power every", "unknown" if interval_s is None else f"{interval_s * 1e3:.3f} ms"))
    if sensor.get("host_reason"):
        lines.append(("host beside it", f"not read: {words(sensor['host_reason'])}"))
    lines += [("note", words(note)) for note in sensor.get("notes") or ()]
    return lines


def reference_lines(reference: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what a board takes for the reference workload as lines of words and values."""
    if reference["energy_mj"] is None:
        return [("energy", f"unknown: {words(reference['reason'])}")]
    energy = interval(reference["energy_mj"], reference["low_mj"], reference["high_mj"])
    lines = [("workload", reference["workload"]), ("energy per pass", fmt.measured(energy, "mJ"))]
    lines += [
        (name, fmt.quantity(reference[key], unit))
        for name, key, unit in (
            ("time", "time_us", "us"), ("power", "power_w", "W"), ("SM clock", "sm_clock_mhz", "MHz"),
            ("power limit", "power_limit_w", "W"),
        )
        if reference[key] is not None
    ]  # fmt: skip
    lines.append(("measured", f"{reference['measured']}, in {fmt.count(reference['windows'], 'window')}"))
    if reference.get("outdated"):
        other = (
            f"measured with another {fmt.listed(reference['outdated'])}: runs do not carry it; measure it again"
        )
        lines.append(("note", other))
    return lines


def _response(response: dict[str, Any]) -> str:
    if response.get("reason"):
        return f"unknown: {words(response['reason'])}"
    renewed = "" if response["refresh_s"] is None else f", renewed every {response['refresh_s'] * 1e3:.0f} ms"
    lag = f"lag {response['lag_s'] * 1e3:.0f} ms{renewed}"
    if response["shape"] == "jump":
        return f"follows at its next renewal, {lag}"
    word = "over" if response["shape"] == "moving average" else "with a time constant of"
    return f"{response['shape']} {word} {response['averaging_s']:.2f} s, {lag}"


def _agreement(compared: dict[str, Any]) -> str:
    if compared["ratio"] is None:
        return f"unknown: {words(compared['reason'])}"
    return f"{compared['ratio']:.1%} of the {compared['field']} power, over {compared['seconds']:.1f} s of load"


def _polling(effect: dict[str, Any]) -> str:
    energy = _change(effect["energy"]) if effect.get("energy") else f"unknown ({words(effect.get('reason'))})"
    return f"time of calls {_change(effect['time'])}; counted energy {energy}"


def _change(change: dict[str, Any] | None) -> str:
    if change is None:
        return "unknown"
    if change["low"] is None:
        return f"{change['change']:+.2%}"
    return f"{change['change']:+.2%} ({change['low']:+.2%} to {change['high']:+.2%})"


def _label(key: str) -> str:
    """Return a key as words with its unit: ``tick_period_s`` is ``tick period, s``."""
    name, _, unit = key.rpartition("_")
    units = {"s": "s", "mj": "mJ", "w": "W", "bytes": "bytes"}
    return f"{name.replace('_', ' ')}, {units[unit]}" if name and unit in units else key.replace("_", " ")


def _shown(value: object) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return "; ".join(str(item) for item in value) or "none" if isinstance(value, list) else str(value)
