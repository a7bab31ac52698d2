"""How the numbers came about, where they end, and on what they were measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from energyscope.reporting import text
from energyscope.runs.intervals import finite, interval

if TYPE_CHECKING:
    from energyscope.runs.store import Run
    from energyscope.runs.tree import EnergyTree, Node


@dataclass(frozen=True)
class Fact:
    """One line of a table of facts."""

    name: str
    value: str


def method_facts(run: Run, tree: EnergyTree | None) -> list[Fact]:
    """Return the sensor's facts, the windows, ticks and passes, and the idle baseline."""
    sensor = run.document.get("sensor") or {}
    settings = run.document.get("settings") or {}
    facts = [
        _fact("Meter", sensor.get("meter")),
        _fact("Stated watts", sensor.get("watts"), "W") if run.modelled else None,
        _fact("Sensor tick period", _scaled(sensor.get("tick_period_s"), 1e6), "us"),
        _fact("Tick jitter", _scaled(sensor.get("tick_jitter_s"), 1e6), "us"),
        _fact("Cost of one read", _scaled(sensor.get("read_cost_s"), 1e6), "us"),
        _fact("Energy quantum", sensor.get("energy_quantum_mj"), "mJ"),
        _fact("Idle power", sensor.get("idle_w"), "W"),
        _fact("Granularity", settings.get("granularity")),
        _fact("Execution", settings.get("execution")),
        _fact("Phase", settings.get("phase")),
        _fact("Passes", settings.get("passes")),
        _fact("Window", _scaled(settings.get("window_s"), 1e6), "us"),
    ]
    nodes = list(tree.nodes) if tree else []
    facts += [_range("Windows per component", nodes, "windows"), _range("Ticks per component", nodes, "ticks")]
    facts.append(_range("Spread between passes", nodes, "spread_between_passes", percent=True))
    facts += [Fact("Sensor note", str(note)) for note in sensor.get("notes") or []]
    return [fact for fact in facts if fact is not None]


def _fact(name: str, value: object, unit: str = "") -> Fact | None:
    if value is None:
        return None
    if isinstance(value, int) and unit != "bytes":
        return Fact(name, f"{value:,} {unit}".rstrip())
    amount = finite(value) if not isinstance(value, str) else None
    return Fact(name, str(value) if amount is None else text.quantity(amount, unit))


def _scaled(value: object, factor: float) -> float | None:
    amount = finite(value)
    return None if amount is None else amount * factor


def _range(name: str, nodes: list[Node], column: str, *, percent: bool = False) -> Fact | None:
    values = sorted(value for node in nodes if (value := node.number(column)) is not None)
    if not values:
        return None
    write = text.percent if percent else "{:,.0f}".format
    middle, low, high = values[len(values) // 2], values[0], values[-1]
    return Fact(name, write(low) if low == high else f"{write(low)} to {write(high)}, median {write(middle)}")


@dataclass(frozen=True)
class ClosureRow:
    """The closure of the model or of the layers; None where it is unknown."""

    name: str
    energy: str
    time: float | None
    static: float | None
    dynamic: float | None
    with_glue: bool


def closures(run: Run) -> list[ClosureRow]:
    """Return the closures that were computed."""
    found = []
    for name, entry in (run.document.get("closure") or {}).items():
        if not isinstance(entry, dict):
            continue
        energy = interval(entry.get("energy"), entry.get("energy_low"), entry.get("energy_high"))
        time, static, dynamic = (finite(entry.get(key)) for key in ("time", "static", "dynamic"))
        shown = text.percent_with_limits(energy)
        found.append(ClosureRow(str(name), shown, time, static, dynamic, bool(entry.get("with_glue"))))
    return found


@dataclass(frozen=True)
class PassRow:
    """One pass over the components, with the whole model measured beside it as the anchor."""

    index: int
    idle_w: float | None
    anchor: str


def passes(run: Run) -> list[PassRow]:
    """Return the passes; a drift of the model between them is a drift of the device."""
    found = []
    for position, entry in enumerate(run.document.get("passes") or []):
        anchor = interval(entry.get("anchor_mj"), entry.get("anchor_low_mj"), entry.get("anchor_high_mj"))
        index = finite(entry.get("index"))
        shown = text.with_limits(anchor, "mJ")
        found.append(PassRow(position if index is None else int(index), finite(entry.get("idle_w")), shown))
    return found


def limitations(run: Run, tree: EnergyTree | None) -> list[str]:
    """Return the limits of this run's numbers in plain words, from what happened in it."""
    found = []
    if run.modelled:
        found.append("Energy is time multiplied by stated watts: it can rank components by time, not by power.")
    elif tree:
        found.append(
            "Intervals hold what varied while measuring; the absolute calibration of the board's sensor "
            "(about 5 %) lies outside them. Two boards of one type may differ by more."
        )
    if tree and any(node.reused for node in tree.nodes):
        found.append(
            "Values marked as kind means were measured over all layers together and are shown for each layer; "
            "they take no part in statistics between layers."
        )
    if tree:
        found.append(
            "Components are measured one at a time by replay, so overlap between concurrent streams is not seen; "
            "power comes from the meter above alone, no hardware performance counters are read."
        )
        found += _weak(tree)
    return found + [str(warning) for warning in run.document.get("warnings") or []]


def _weak(tree: EnergyTree) -> list[str]:
    found = []
    invalid = [node.name for node in tree.nodes if node.row.get("quality") == "invalid"]
    if invalid:
        names = ", ".join(invalid[:3]) + (", ..." if len(invalid) > 3 else "")
        found.append(
            f"{text.count(len(invalid), 'component')} did not reach grade C ({names}): the table says why."
        )
    negative = [node for node in tree.nodes if node.unexplained is not None and node.unexplained.value < 0]
    if negative:
        found.append(
            f"In {text.count(len(negative), 'component')} the parts and the glue add up to more than the whole "
            "(negative unexplained energy): replayed alone, a part may run slower or hotter than inside the model."
        )
    return found


_ENVIRONMENT: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("", "", {"created": "Created", "command": "Command", "energyscope": "energyscope",
              "fingerprint": "Fingerprint"}),
    ("model", "", {"name": "Model", "source": "Model source", "weights": "Weights", "model_type": "Model type",
                   "task": "Task", "adapter": "Adapter", "parameters": "Parameters", "layers": "Layers",
                   "dtype": "Data type"}),
    ("model", "bytes", {"size_bytes": "Model size"}),
    ("workload", "", {"batch_size": "Batch size", "sequence_length": "Sequence length", "tokens": "Tokens"}),
    ("device", "", {"name": "Device", "type": "Device type", "uuid": "Device UUID", "index": "Device index"}),
    ("device", "bytes", {"memory_bytes": "Device memory", "l2_bytes": "L2 cache"}),
    ("device", "W", {"power_limit_w": "Power limit"}),
)  # fmt: skip


def environment(run: Run) -> list[Fact]:
    """Return what was run, on what, with which versions."""
    found = []
    for section, unit, names in _ENVIRONMENT:
        part: dict[str, Any] = (run.document.get(section) or {}) if section else run.document
        found += [_fact(title, part.get(key), unit) for key, title in names.items()]
    versions = run.document.get("environment") or {}
    found += [_fact(str(key), value) for key, value in versions.items() if not isinstance(value, dict | list)]
    return [fact for fact in found if fact is not None]
