"""What a run looks like while it works: its stages, what is measured now, and what took most energy so far.

Pure: from a picture of the run to lines that fit a terminal's width and height. Rows are left out where
they do not fit, from the list of components first; no number is cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.console import Group, RenderableType
from rich.text import Text

from energyscope import format as fmt
from energyscope.intervals import Interval
from energyscope.reporting.terminal_text import printable

MOST = 8
BAR, BESIDE_BAR = 20, 58  # columns of the bar, and of the longest counts and times beside it
FEWEST = 3  # windows from which limits are shown
STAGE_WIDTH = 13
WAITING = "\u00b7"
_STYLES = {"done": "green", "running": "bold", "failed": "bold red", "interrupted": "bold yellow"}
_MARKS = {"done": "\u2713", "running": "\u25b8", "skipped": "\u2013", "failed": "\u2717", "interrupted": "\u2717"}


@dataclass(frozen=True)
class TimeRange:
    """How long something is expected to take (s), at least and at most."""

    least_s: float
    most_s: float


@dataclass(frozen=True)
class TimeLeft:
    """What is left of a run: the time that can be estimated, and the stages ``without`` which it is counted.

    Of those nothing is known; the running one may be among them. ``span`` is None while nothing is known of any.
    """

    span: TimeRange | None
    without: Sequence[str] = ()


@dataclass(frozen=True)
class StageState:
    """A stage and its state: waiting, running, or how it ended; ``seconds`` is None where it is not known.

    ``estimate`` is how long one that waits will take, as far as that is known.
    """

    name: str
    state: str = "waiting"
    seconds: float | None = None
    reason: str | None = None
    estimate: TimeRange | None = None


@dataclass(frozen=True)
class Step:
    """What the running stage does now; ``left_s`` is a guess from its steps so far, None where there are none.

    Where a stage measures several ``phases``, its steps are those of one ``phase`` (counted from 1).
    """

    label: str
    done: int
    total: int
    seconds: float
    left_s: float | None = None
    phase: int = 1
    phases: int = 1


@dataclass(frozen=True)
class Power:
    """What the latest measurement of this stage said of the board; of the modelled meter, the stated watts."""

    watts: float
    clock_mhz: float | None = None
    temperature_c: float | None = None


@dataclass(frozen=True)
class CostlyComponent:
    """A component that takes much energy: in a pass of the model (mJ), and as a share of the model's."""

    name: str
    energy: Interval
    share: float | None
    windows: int
    alike: int = 1


@dataclass(frozen=True)
class RunView:
    """A run at one phase; ``phase`` names the phase that ``costliest`` was measured in."""

    title: str
    seconds: float
    stages: Sequence[StageState]
    step: Step | None = None
    power: Power | None = None
    modelled: bool = False
    costliest: Sequence[CostlyComponent] = ()
    phase: str = ""
    left: TimeLeft | None = None


def live_view(picture: RunView, width: int, height: int) -> RenderableType:
    """Return the picture in at most ``height`` lines of at most ``width`` columns."""
    head = _ends(Text(printable(picture.title), style="bold"), duration(picture.seconds), width)
    stages = [line for stage in picture.stages for line in _stage(stage, picture, width)]
    stages += [] if picture.left is None else _left(picture.left, width)
    room = height - 1 - len(stages) - 2  # a blank line and a heading above the components
    costliest = _costliest(picture, width, min(room, MOST)) if room > 0 and picture.costliest else []
    return Group(*[head, *stages, *costliest][: max(height, 1)])


def last_line(stages: Sequence[StageState]) -> str:
    """Say in one line which stages ran, how each ended, and how long it took; empty where none did."""
    return ", ".join(_ended(stage) for stage in stages if stage.state not in {"waiting", "skipped"})


def _ended(stage: StageState) -> str:
    took = "" if stage.seconds is None else f" {duration(stage.seconds)}"
    if stage.state == "done":
        return f"{stage.name}{took}"
    return f"{stage.name} {'stopped' if stage.state == 'running' else stage.state}{took and f' after{took}'}"


def left_text(left: TimeLeft) -> str:
    """Say how long a run has still to go, and in words what nobody can know of it."""
    return ", ".join(part for part in _left_parts(left) if part)


def span_text(span: TimeRange) -> str:
    """Write an estimated time, such as ``about 0:40 to 2:10``."""
    least, most = duration(span.least_s), duration(span.most_s)
    if least == most:
        return f"about {most}"
    return f"up to {most}" if span.least_s < 1 else f"about {least} to {most}"


def duration(seconds: float) -> str:
    """Write a time as minutes and seconds, such as ``0:07`` or ``1:02:30``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _stage(stage: StageState, picture: RunView, width: int) -> list[Text]:
    name = set_cell_size(printable(stage.name), STAGE_WIDTH)
    style = _STYLES.get(stage.state, "dim")
    line = Text.assemble((f" {_MARKS.get(stage.state, WAITING)} {name}", style))
    if stage.state == "running" and picture.step is not None:
        return _running(line, picture.step, picture, width)
    if stage.state == "done" and stage.seconds is not None:
        line.append(duration(stage.seconds), "dim")
    elif stage.state == "waiting" and stage.estimate is not None:
        line.append(span_text(stage.estimate), "dim")
    elif stage.state not in {"waiting", "running", "done"}:
        line.append(printable(f"{stage.state}: {stage.reason}" if stage.reason else stage.state), "dim")
    return [_cut(line, width)]


def _left(left: TimeLeft, width: int) -> list[Text]:
    time, without = _left_parts(left)
    line = left_text(left)
    lines = [line] if cell_len(line) + 1 < width else [f"{time},", without] if without else [time]
    return [_cut(Text(f" {line}"), width) for line in lines]


def _left_parts(left: TimeLeft) -> tuple[str, str]:
    if left.span is None:
        return "time left: known once the model is loaded", ""
    without = f"not counting {', '.join(left.without)}" if left.without else ""
    return f"{span_text(left.span)} left", printable(without)


def _running(line: Text, step: Step, picture: RunView, width: int) -> list[Text]:
    """Return the running stage's bar and times, and below it what is measured, and at what power."""
    left = ""  # to the end of the stage, or to the next phase that it measures
    if step.left_s is not None:
        time = f"about {duration(step.left_s)}"
        left = f", next in {time}" if step.phase < step.phases else f", {time} left"
    if step.total > 1:
        size = max(min(BAR, width - BESIDE_BAR), 4)
        full = min(size * step.done // step.total, size)
        line.append("\u2501" * full, "green").append("\u2500" * (size - full), "dim")
        phase = f" {step.phase} of {step.phases}:" if step.phases > 1 else ""
        line.append(f"{phase} {min(step.done, step.total)}/{step.total}")
    line.append(f"  {duration(step.seconds)}{left}" if step.total > 1 else duration(step.seconds), "dim")
    indent, power = " " * (STAGE_WIDTH + 3), _power(picture)
    label = _fitted(step.label, "", width - cell_len(indent + power) - 3)
    return [_cut(line, width), _ends(Text(f"{indent}{label}", style="cyan"), power, width)]


def _power(picture: RunView) -> str:
    """Say the power of the latest measurement, with the clock and the temperature where they are known."""
    power = picture.power
    if power is None:
        return ""
    if picture.modelled:
        return f"MODELLED {fmt.quantity(power.watts, 'W')}, as stated"
    clock = "" if power.clock_mhz is None else f", {power.clock_mhz:.0f} MHz"
    temperature = "" if power.temperature_c is None else f", {power.temperature_c:.0f} \u00b0C"
    return fmt.quantity(power.watts, "W") + clock + temperature


def _costliest(picture: RunView, width: int, most: int) -> list[Text]:
    energy = "MODELLED energy" if picture.modelled else "energy"
    phase = f", {printable(picture.phase)}" if picture.phase else ""
    lines = [Text(""), _cut(Text(f" Most {energy} so far{phase}", style="italic"), width)]
    rows = [_numbers(component) for component in picture.costliest[:most]]
    widths = [max((cell_len(row[column]) for row in rows), default=0) for column in range(2)]
    for component, row in zip(picture.costliest, rows, strict=False):
        numbers = "  ".join(cell.rjust(size) for cell, size in zip(row, widths, strict=True))
        count = f" (each of {component.alike})" if component.alike > 1 else ""
        name = _fitted(component.name, count, width - cell_len(numbers) - 4)
        lines.append(_ends(Text(f" {name}"), numbers, width))
    return lines


def _numbers(component: CostlyComponent) -> tuple[str, str]:
    """Return energy and share; two windows have limits in name only, and get none."""
    energy = component.energy if component.windows >= FEWEST else Interval(component.energy.value)
    return fmt.measured(energy, "mJ"), "" if component.share is None else fmt.quantity(component.share, "share")


def _fitted(name: str, suffix: str, room: int) -> str:
    """Return a name and its suffix; where that does not fit, the name's end, since names differ there."""
    name = printable(name)
    if cell_len(name + suffix) <= room:
        return name + suffix
    while name and cell_len(f"\u2026{name}{suffix}") > room:
        name = name[1:]
    return f"\u2026{name}{suffix}"


def _ends(left: Text, right: str, width: int) -> Text:
    """Return a text and, at the right end of its line, another; what does not fit is cut from the first."""
    left.truncate(max(width - 1 - (cell_len(right) + 2 if right else 0), 0), overflow="ellipsis")
    gap = width - 1 - left.cell_len - cell_len(right)
    return left + Text(" " * max(gap, 0) + right) if right else left


def _cut(line: Text, width: int) -> Text:
    line.truncate(max(width - 1, 0), overflow="ellipsis")
    return line
