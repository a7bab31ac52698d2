"""Why a run has two numbers for one forward pass, in sentences."""

from __future__ import annotations

from energyscope.reporting import text
from energyscope.reporting.data.benchmark_pass import MeasuredTwice, in_graph
from energyscope.reporting.data.benchmark_words import shape_text
from energyscope.reporting.data.execution import name_of
from energyscope.reporting.differences import by_how_much, change_text
from energyscope.runs.compare_difference import compared, said_invalid
from energyscope.runs.compare_surroundings import CLOCKS_APART


def twice_said(twice: MeasuredTwice | None) -> str:
    """Say what profile and benchmark found for one pass, whether a difference is shown, and what differs in how.

    The verdict is that of comparing two runs, the profile being the baseline; of MODELLED joules there is none.
    Empty where there is no such pass.
    """
    if twice is None:
        return ""
    cell = twice.cell
    at = f"{cell.title}, {shape_text(cell.shape)}, {name_of(twice.execution)}"
    word = "MODELLED energy" if twice.modelled else "energy"
    profile = text.amount(twice.energy, "mJ") + _grade(invalid=twice.invalid)
    benchmark = text.amount(cell.energy_mj, "mJ") + _grade(invalid=cell.invalid)
    return (
        f"The profile measured this pass as well ({at}): its {word} is {profile} in the profile and {benchmark} "
        f"in the benchmark. {_agreement(twice)} What differs: {_differs(twice)}."
    )


def _grade(*, invalid: bool) -> str:
    return " (below grade C)" if invalid else ""


def _agreement(twice: MeasuredTwice) -> str:
    if twice.modelled:
        return "Both are time multiplied by stated watts, so nothing is concluded from them."
    invalid = said_invalid(twice.invalid, twice.cell.invalid)
    found = compared("energy", "mJ", twice.energy, twice.cell.energy_mj, (), invalid)
    if found.change is None or not found.change.known:
        return "Whether they agree cannot be told: at least one has no interval."
    if invalid:
        return "Whether they agree cannot be told: below grade C."
    change, limits = change_text(found)
    if found.verdict == "no difference shown":
        return f"No difference is shown: benchmark - profile is {change} {limits}."
    much = f"the benchmark's is {by_how_much(found.relative)}" if found.relative else f"{change} {limits}"
    return f"A difference is shown: {much}{_times(twice)}."


def _times(twice: MeasuredTwice) -> str:
    if twice.cell.latency_s is None or twice.time_us is None:
        return ""
    mine = text.quantity(twice.cell.latency_s.value * 1e6, "us")
    return f", and a pass took {mine} in it and {text.quantity(twice.time_us.value, 'us')} in the profile"


def _differs(twice: MeasuredTwice) -> str:
    """Say what is known to differ, in the order of benchmark and profile."""
    ways = []
    if twice.waits:
        ways.append(("waits for the device after every pass", "queues passes one after another"))
    if not in_graph(twice):
        ways.append(
            (
                "takes turns with up to eight batches, without their attention masks, which mask nothing",
                "repeats the first of them, with its mask",
            )
        )
    parts = []
    if ways:
        mine, theirs = (" and ".join(said) for said in zip(*ways, strict=True))
        parts.append(f"the benchmark {mine}, while the profile {theirs}")
    parts.append(f"they were measured at different times of the run{_clocks(twice)}")
    cell = twice.cell.energy_mj
    if twice.cell.trials and twice.windows and twice.energy.known and cell is not None and cell.known:
        trials, windows = text.count(twice.cell.trials, "trial"), text.count(twice.windows, "window")
        parts.append(f"one interval is over {trials}, the other over {windows}")
    return "; ".join(parts)


def _clocks(twice: MeasuredTwice) -> str:
    mine, theirs = twice.clock_mhz
    if not mine or not theirs or abs(theirs / mine - 1) <= CLOCKS_APART:
        return ""
    return f", at {mine:,.0f} MHz and {theirs:,.0f} MHz"
