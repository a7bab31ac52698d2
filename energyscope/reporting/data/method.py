"""How the numbers came about, where they end, and on what they were measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from energyscope.reporting import text
from energyscope.reporting.data.environment_precision import precision_facts
from energyscope.reporting.data.execution import BOTH, execution_of, name_of
from energyscope.runs.intervals import finite
from energyscope.runs.method import lacking, method_of, passes_of
from energyscope.runs.tree import MEAN

if TYPE_CHECKING:
    from energyscope.runs.store import Run
    from energyscope.runs.tree import EnergyTree, Node


@dataclass(frozen=True)
class Fact:
    """One line of a table of facts."""

    name: str
    value: str


def method_facts(run: Run, tree: EnergyTree | None) -> list[Fact]:
    """Return the sensor's facts and why it was chosen, the settings, the windows and the ticks."""
    settings = run.document.get("settings") or {}
    nodes = list(tree.nodes) if tree else []
    if tree is None and run.benchmark:  # the settings of components had no effect
        settings = {}
    facts = [
        *_sensor(run.document.get("sensor") or {}, modelled=run.modelled),
        _fact("Granularity", settings.get("granularity")),
        _fact("Layers", settings.get("layers")),
        _fact("Execution", _execution(run)),
        _fact("Sampling", settings.get("sampling")),
        _fact("Phase", settings.get("phase")),
        _fact("Moments", ", ".join(str(scene.get("name")) for scene in run.scenes) or None),
        _fact("KV cache", settings.get("kv_cache") if run.scenes or run.generation else None),
        _fact("Windows of every component", settings.get("passes")),
        _share("Half-width aimed at", settings.get("target_interval")),
        _fact("Time budget of a component", _scaled(settings.get("component_budget_s"), 1e6), "us"),
        _fact("Window", _scaled(settings.get("window_s"), 1e6), "us"),
        _range("Windows per component", nodes, "windows"),
        _range("Ticks per component", nodes, "ticks"),
        _range("Spread between passes", nodes, "spread_between_passes", percent=True),
    ]
    return [fact for fact in facts if fact is not None]


_SENSOR: tuple[tuple[str, str, float | None, str], ...] = (
    ("Sensor tick period", "tick_period_s", 1e6, "us"),
    ("Tick jitter", "tick_jitter_s", 1e6, "us"),
    ("Uncertainty of a tick's time", "tick_uncertainty_s", 1e6, "us"),
    ("Cost of one read", "read_cost_s", 1e6, "us"),
    ("Sampled every", "interval_s", 1e6, "us"),
    ("Power is averaged over", "averaging_s", 1e6, "us"),
    ("Energy quantum", "energy_quantum_mj", None, "mJ"),
    ("Idle power", "idle_w", None, "W"),
)


def _sensor(sensor: Mapping[str, Any], *, modelled: bool) -> list[Fact | None]:
    facts = [
        _fact("Meter", sensor.get("meter")),
        _fact("Why this meter", sensor.get("choice")),
        _fact("Stated watts", sensor.get("watts"), "W") if modelled else None,
        *(_fact(name, _scaled(sensor.get(key), factor or 1.0), unit) for name, key, factor, unit in _SENSOR),
        _fact("Power field", sensor.get("power_field")),
    ]
    facts += [_device(one) for one in sensor.get("devices") or []]
    return facts + [Fact("Sensor note", str(note)) for note in sensor.get("notes") or []]


def _device(entry: Mapping[str, Any]) -> Fact:
    """Return one of several devices with its own sensor."""
    period = _scaled(entry.get("tick_period_s"), 1e6)
    ticks = "" if period is None else f", a tick every {text.quantity(period, 'us')}"
    return Fact(f"Device {entry.get('device')}", f"{entry.get('meter')}{ticks}")


def _execution(run: Run) -> str | None:
    """Return what was measured, and what was asked for where that is more."""
    measured, asked = execution_of(run).name, (run.document.get("settings") or {}).get("execution")
    more = f" ({name_of(BOTH)} asked for)" if asked == BOTH != measured else ""
    return None if measured is None else name_of(measured) + more


def _share(name: str, value: object) -> Fact | None:
    share = finite(value)
    return None if share is None else Fact(name, text.percent(share))


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


def limitations(run: Run, tree: EnergyTree | None, trees: Sequence[EnergyTree] = ()) -> list[str]:
    """Return the limits of this run's numbers in plain words, from what happened in it.

    ``trees`` are those of all its moments, where it has several; ``tree`` is that of the first.
    """
    found = []
    if run.modelled:
        found.append("Energy is time multiplied by stated watts: it can rank components by time, not by power.")
    elif tree or run.benchmark:
        found.append(
            "Intervals hold what varied while measuring; the absolute calibration of the board's sensor "
            "(about 5 %) lies outside them. Two boards of one type may differ by more."
        )
    if tree and any(node.origin == MEAN for node in tree.nodes):
        found.append(
            "Values marked as means over the layers were measured over all of them together and are shown for "
            "each layer; they take no part in statistics between layers."
        )
    if tree and any(node.origin not in {None, MEAN} for node in tree.nodes):
        found.append(
            "Only some layers were measured; a value marked as measured on another layer is that layer's, and "
            "takes no part in statistics between layers."
        )
    if tree:
        found.append(
            "Components are measured one at a time, so overlap between concurrent streams is not seen; "
            "power comes from the meter above alone, no hardware performance counters are read."
        )
        found += _weak(trees or [tree])
    found += _older(run)
    return found + [str(warning) for warning in run.document.get("warnings") or []]


def _older(run: Run) -> list[str]:
    """Return what was mended in the method since the run's passes were measured."""
    passes = [passes_of(run.document, "prefill")] if run.benchmark else []
    if run.energy is not None and not run.energy.empty:
        rows = run.energy[["phase", "execution"]].drop_duplicates()
        passes += [(str(phase), str(execution)) for phase, execution in rows.itertuples(index=False)]
    said = dict.fromkeys(lacking(method_of(run.document, *one), *one) for one in passes)
    return [f"This run was measured by an older method: {words}." for words in said if words]


def _weak(trees: Sequence[EnergyTree]) -> list[str]:
    found = []
    nodes = [node for tree in trees for node in tree.nodes]
    word = "component" if len(trees) < 2 else "row"
    invalid = list(dict.fromkeys(node.name for node in nodes if node.row.get("quality") == "invalid"))
    if invalid:
        somewhere = "" if len(trees) < 2 else " in some moment"
        names = ", ".join(invalid[:3]) + (", ..." if len(invalid) > 3 else "")
        found.append(
            f"{text.count(len(invalid), 'component')} did not reach grade C{somewhere} ({names}): "
            "the table says why."
        )
    negative = [node for node in nodes if node.unexplained is not None and node.unexplained.value < 0]
    if negative:
        found.append(
            f"In {text.count(len(negative), word)} the parts and the glue add up to more than the whole "
            "(negative unexplained energy): replayed alone, a part may run slower or hotter than inside the model."
        )
    return found


_ENVIRONMENT: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("", "", {"created": "Created", "command": "Command", "energyscope": "energyscope",
              "fingerprint": "Fingerprint"}),
    ("model", "", {"name": "Model", "source": "Model source", "weights": "Weights", "model_type": "Model type",
                   "task": "Task", "adapter": "Adapter", "parameters": "Parameters", "layers": "Layers"}),
    ("model", "bytes", {"size_bytes": "Model size"}),
    ("workload", "", {"batch_size": "Batch size", "sequence_length": "Sequence length", "tokens": "Tokens"}),
    ("device", "", {"name": "Device", "type": "Device type", "uuid": "Device UUID", "index": "Device index"}),
    ("device", "bytes", {"memory_bytes": "Device memory", "l2_bytes": "L2 cache"}),
    ("device", "W", {"power_limit_w": "Power limit"}),
)  # fmt: skip


def environment(run: Run) -> list[Fact]:
    """Return what was run, on what, with which versions."""
    found: list[Fact | None] = []
    for section, unit, names in _ENVIRONMENT:
        part: dict[str, Any] = (run.document.get(section) or {}) if section else run.document
        found += [_fact(title, part.get(key), unit) for key, title in names.items()]
        if "model_type" in names:
            found += [Fact(title, value) for title, value in precision_facts(run.document)]
    versions = run.document.get("environment") or {}
    found += [_fact(str(key), value) for key, value in versions.items() if not isinstance(value, dict | list)]
    return [fact for fact in found if fact is not None]
