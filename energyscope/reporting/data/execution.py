"""Which execution, and which way of measuring, a run's numbers are of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from energyscope.runs.store import Run

EAGER, CUDA_GRAPH, BOTH, TRIGGERED = "eager", "cuda-graph", "both", "triggered"

_MEANINGS = {
    EAGER: "As most people run it: the host launches the work of every component while the model runs, and what "
    "that costs is in every number.",
    CUDA_GRAPH: "The device's work was recorded once and replayed without gaps: what the silicon needs. Launching "
    "from the host is in no number; an eager run shows what it adds.",
    BOTH: "Measured in both. Eager, as most people run it, the host launches the work of every "
    "component while the model runs; in a CUDA graph that work was recorded once and replayed without gaps, which "
    "is what the silicon needs.",
}
_NAMES = {CUDA_GRAPH: "CUDA graph", BOTH: "eager and CUDA graph"}
_TITLES = {EAGER: "Eager execution", CUDA_GRAPH: "CUDA graphs", BOTH: "Eager execution and CUDA graphs"}
_REPLAY = "Each component was run again and again on inputs captured from a real forward pass"
_HOW = {
    "modelled": f"{_REPLAY}, and its time multiplied by the stated watts.",
    EAGER: f"{_REPLAY}, with its weights rotated as the model does, and the energy between ticks of the sensor "
    "divided by the calls between the same ticks.",
    CUDA_GRAPH: f"{_REPLAY}, in CUDA graphs and with its weights rotated as the model does, and the energy "
    "between ticks of the sensor divided by the calls between the same ticks.",
    BOTH: f"{_REPLAY}, eagerly and in CUDA graphs, with its weights rotated as the model does, and the energy "
    "between ticks of the sensor divided by the calls between the same ticks.",
    TRIGGERED: "The meter was read right before and after each component of ordinary forward passes, the device "
    "brought to a stop for each reading; nothing was repeated to make it long enough for the sensor.",
}


@dataclass(frozen=True)
class Execution:
    """What stands at the top: ``title`` names the execution, ``text`` what it means, ``how`` the measuring."""

    name: str | None
    sampling: str
    title: str
    text: str
    how: str


def execution_of(run: Run) -> Execution:
    """Return the execution of a run; one that states none says so. Runs that state no sampling used replay."""
    settings = run.document.get("settings") or {}
    name, sampling = _stated(run), str(settings.get("sampling") or "replay")
    title = title_of(name)
    text = _MEANINGS.get(str(name), "What it means for the numbers is not known to this version.")
    measured = TRIGGERED if sampling == TRIGGERED else str(name)
    how = _HOW["modelled"] if run.modelled and sampling != TRIGGERED else _HOW.get(measured, f"{_REPLAY}.")
    return Execution(name, sampling, title, text, how)


def name_of(execution: str) -> str:
    """Return what an execution is called inside a sentence."""
    return _NAMES.get(execution, execution)


def title_of(name: str | None) -> str:
    """Return what an execution is called at the head of a page."""
    return _TITLES.get(str(name), f"Execution: {name or 'not stated'}")


def _stated(run: Run) -> str | None:
    """Return what the table says, which is what was measured; the settings where there is no table."""
    if run.energy is not None and not run.energy.empty:
        measured = run.energy["execution"].unique()
        return BOTH if {EAGER, CUDA_GRAPH} <= set(measured) else str(measured[0])
    stated = (run.document.get("settings") or {}).get("execution")
    return None if stated is None else str(stated)
