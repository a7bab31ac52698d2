"""What the benchmark says in sentences: what each precision buys against the baseline, in numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from energyscope.reporting import text
from energyscope.reporting.data.benchmark import BenchmarkCell, BenchmarkData, Prediction, precision_title
from energyscope.runs.intervals import Interval

POINTS = "percentage points"
NO_DIFFERENCE = "no difference shown"
UNSHOWN = "(no interval: nothing is shown)"
NOT_THE_KERNELS = "its time and energy are not those of bitsandbytes' kernels"
CLIPPED = (
    " An interval that reaches 0, or on a logarithmic axis its end, has no lower limit: the trials scatter too "
    "much for one."
)
FOREIGN = "* not bitsandbytes' kernels"  # below charts and tables with marked names


def shape_text(shape: tuple[int, int]) -> str:
    """Return a batch size and a length in words, such as ``"batch 1, 128 tokens"``."""
    return f"batch {shape[0]}, {text.count(shape[1], 'token')}"


def clipped(items: Iterable[Interval | None]) -> str:
    """Return what a caption says of intervals that `benchmark_data` ends at 0, since nothing can be below."""
    return CLIPPED if any(item is not None and item.low == 0 < item.value for item in items) else ""


def place_text(data: BenchmarkData) -> str:
    """Return at which batch size and length the small charts were measured, as a sentence."""
    several = f", the first of {len(data.shapes)}" if len(data.shapes) > 1 else ""
    return f"At {shape_text(data.shapes[0])}{several}. "


def energy_word(data: BenchmarkData) -> str:
    """Return what joules are called where they begin a title or an axis."""
    return "Modelled energy" if data.modelled else "Energy"


def quality_text(item: Interval, metric: str) -> str:
    """Write an accuracy as a percentage and a perplexity as a number, with limits where they are known."""
    return text.percent_with_limits(item) if metric == "accuracy" else text.with_limits(item, "")


def change_of(item: Prediction) -> Interval | None:
    """Return the difference from the baseline: of an accuracy in percentage points, else in its own unit."""
    if item.difference is None:
        return None
    return item.difference.scaled(100.0) if item.metric == "accuracy" else item.difference


def change_text(item: Prediction) -> str:
    """Write the difference from the baseline with its sign, such as ``"-0.46 [-0.74, -0.18]"``, without a unit."""
    change = change_of(item)
    if change is None:
        return text.UNKNOWN
    written = f"{change.value:+.{text.places(change)}f}"
    return f"{written} {text.limits(change, '')}" if change.known else written


def said(data: BenchmarkData) -> list[str]:
    """Return sentences that answer what the precisions buy: the baseline, each against it, and what follows."""
    first = data.first
    base = next((cell for cell in first if cell.precision == data.baseline), None)
    others = [cell for cell in first if cell is not base]
    found = [_alone(base, data, f"At {shape_text(base.shape)}, ")] if base else []
    found += [_against(cell, data) for cell in others] if base else _each_alone(others, data)
    return [*found, *_choice(data), *_over_shapes(data)]


def _each_alone(cells: Sequence[BenchmarkCell], data: BenchmarkData) -> list[str]:
    starts = [f"At {shape_text(cells[0].shape)}, ", *("" for _ in cells[1:])]
    return [_alone(cell, data, start) for cell, start in zip(cells, starts, strict=True)]


def _alone(cell: BenchmarkCell, data: BenchmarkData, start: str) -> str:
    latency = "latency not measured" if cell.latency_s is None else _latency(cell)
    prediction = data.prediction(cell.precision)
    quality = f" On the evaluation data, its {prediction.metric} is {_quality(prediction)}." if prediction else ""
    energy = _energy_alone(cell, data)
    return f"{start}{cell.title} takes {latency} and {energy} per inference{_once(cell)}{_foreign(cell)}.{quality}"


def _once(cell: BenchmarkCell) -> str:
    unshown = cell.trials == 1 and cell.latency_s is not None and not cell.latency_s.known
    return ", from one trial without an interval" if unshown else ""


def _foreign(cell: BenchmarkCell) -> str:
    return f"; {NOT_THE_KERNELS}" if cell.foreign else ""


def _latency(cell: BenchmarkCell) -> str:
    return text.amount(cell.latency_s.scaled(1e6) if cell.latency_s else None, "us")


def _quality(item: Prediction) -> str:
    over = f" over {text.count(item.examples, 'example')}" if item.examples else ""
    return quality_text(item.value, item.metric) + over


def _energy_alone(cell: BenchmarkCell, data: BenchmarkData) -> str:
    if cell.energy_mj is None:
        return f"an energy that was not measured{_why(cell)}"
    word = " (MODELLED)" if data.modelled else ""
    return text.amount(cell.energy_mj, "mJ") + word + _grade(cell)


def _why(cell: BenchmarkCell) -> str:
    return f" ({cell.reasons})" if cell.reasons else ""


def _grade(cell: BenchmarkCell) -> str:
    return " (below grade C)" if cell.invalid else ""


def _against(cell: BenchmarkCell, data: BenchmarkData) -> str:
    base = precision_title(str(data.baseline))
    prediction = data.prediction(cell.precision)
    quality = f"; {_change(prediction)}" if prediction else ""
    unshown = _unshown(cell, base, data)
    if unshown:
        return f"{unshown}{_foreign(cell)}{quality}."
    return f"{cell.title} {_speed(cell, base)} and {_energy(cell, data)}{_foreign(cell)}{quality}."


def _unshown(cell: BenchmarkCell, base: str, data: BenchmarkData) -> str:
    """Return what is said where neither ratio has an interval; nothing where one has, or both are missing."""
    ratios = [item for item in (cell.speedup, cell.energy_ratio) if item is not None]
    if not ratios or any(item.known for item in ratios):
        return ""
    start = "From one trial" if cell.trials == 1 else "Without an interval"
    did = []
    if cell.speedup is not None:
        did.append(f"ran at {text.number(cell.speedup.value)} times {base}'s speed")
    if cell.energy_ratio is not None:
        word = "MODELLED energy" if data.modelled else "energy"
        did.append(f"took {text.number(cell.energy_ratio.value)} of {base}'s {word}{_grade(cell)}")
    missing = f"; its energy was not measured{_why(cell)}" if cell.energy_mj is None else ""
    return f"{start}, {cell.title} {' and '.join(did)} {UNSHOWN}{missing}"


def _speed(cell: BenchmarkCell, base: str) -> str:
    if cell.speedup is None:
        return "has no speed that can be compared"
    ratio = text.amount(cell.speedup, "")
    if not cell.speedup.known:
        return f"ran at {ratio} times {base}'s speed {UNSHOWN}"
    if not cell.speedup.excludes(1.0):
        return f"is not shown to be faster or slower than {base} ({ratio} times as fast)"
    if cell.speedup.value < 1:
        return f"is slower than {base}, at {ratio} of its speed,"
    return f"is {ratio} times as fast as {base}"


def _energy(cell: BenchmarkCell, data: BenchmarkData) -> str:
    word = "MODELLED energy" if data.modelled else "energy"
    if cell.energy_mj is None:
        return f"its energy was not measured{_why(cell)}"
    if cell.energy_ratio is None:
        return f"takes {_energy_alone(cell, data)} per inference"
    ratio = text.amount(cell.energy_ratio, "")
    if not cell.energy_ratio.known:
        return f"took {ratio} of the baseline's {word} {UNSHOWN}{_grade(cell)}"
    if not cell.energy_ratio.excludes(1.0):
        return f"its {word} is not shown to differ ({ratio} of the baseline's){_grade(cell)}"
    much = f"{ratio} of its {word}" if cell.energy_ratio.value < 1 else f"{ratio} times as much {word}"
    return f"takes {much}{_grade(cell)}"


def _change(item: Prediction) -> str:
    if item.difference is None:
        return f"{item.metric} is {_quality(item)}"
    unit = f" {POINTS}" if item.metric == "accuracy" else ""
    tail = "" if item.difference.excludes(0.0) else f": {NO_DIFFERENCE}"
    tail = tail if item.difference.known else f" {UNSHOWN}"
    return f"{item.metric} changes by {change_text(item)}{unit}{tail}"


def _choice(data: BenchmarkData) -> list[str]:
    """Say which precision takes least among those without a shown loss; modelled, which is fastest."""
    differences = [item.difference for item in data.predictions if item.difference]
    if not any(item.known for item in differences):
        return []
    loss = "loss of accuracy" if data.metric == "accuracy" else f"rise of {data.metric}"
    passed = {item.precision for item in data.predictions if item.no_worse}
    if passed == {data.baseline}:
        return [] if not all(item.known for item in differences) else [f"Every other precision shows a {loss}."]
    value = _known_latency if data.modelled else _usable_energy
    cells = [cell for cell in data.first if cell.precision in passed]
    left_out = [cell.title for cell in cells if value(cell) is None]
    cells = [cell for cell in cells if value(cell) is not None]
    least = _least(cells, value)
    if len(cells) < 2 or not least:
        return []
    aside = f" ({text.listed(left_out, 6)} left out: no valid interval)" if left_out else ""
    if len(least) == len(cells):
        what = "faster" if data.modelled else "more frugal"
        return [f"Of the precisions without a shown {loss}, none is shown to be {what} than all others{aside}."]
    names = text.listed([cell.title for cell in least], 6)
    one = len(least) == 1
    verb = ("is" if one else "are") if data.modelled else ("takes" if one else "take")
    what = "fastest" if data.modelled else "least energy"
    apart = "" if one else "; their intervals overlap"
    return [f"Of the precisions without a shown {loss}, {names} {verb} the {what}{apart}{aside}."]


def _usable_energy(cell: BenchmarkCell) -> Interval | None:
    known = cell.energy_mj is not None and cell.energy_mj.known
    return cell.energy_mj if known and not cell.invalid else None


def _known_latency(cell: BenchmarkCell) -> Interval | None:
    return cell.latency_s if cell.latency_s is not None and cell.latency_s.known else None


def _least(
    cells: Sequence[BenchmarkCell], value: Callable[[BenchmarkCell], Interval | None]
) -> list[BenchmarkCell]:
    """Return the cell with the smallest value, and those whose interval overlaps with its."""
    known = [(cell, item) for cell in cells if (item := value(cell)) is not None]
    if not known:
        return []
    least = min((item for _, item in known), key=lambda item: item.value)
    edge = least.value if least.high is None else least.high
    return [cell for cell, item in known if (item.value if item.low is None else item.low) <= edge]


def _over_shapes(data: BenchmarkData) -> list[str]:
    """Say which precisions are shown to be slower than the baseline here and faster there."""
    found = []
    for name in data.order:
        speeds = [(cell.speedup, cell) for cell in data.cells if cell.precision == name and cell.speedup]
        shown = [(speed, cell) for speed, cell in speeds if speed.excludes(1.0)]
        slow, fast = (pick(shown, key=lambda pair: pair[0].value, default=None) for pick in (min, max))
        if slow and fast and slow[0].value < 1 < fast[0].value:
            found.append(
                f"For {precision_title(name)} it depends: {text.number(slow[0].value)} times as fast at "
                f"{shape_text(slow[1].shape)}, {text.number(fast[0].value)} times at {shape_text(fast[1].shape)}."
            )
    return found


def legend(data: BenchmarkData) -> str:
    """Return what the small charts have in common: where they were measured and what their marks mean."""
    several = f", the first of {len(data.shapes)} batch sizes and lengths" if len(data.shapes) > 1 else ""
    base = "" if data.baseline is None else f" The dashed line is {precision_title(data.baseline)}, the baseline."
    return f"At {shape_text(data.shapes[0])}{several}. Whiskers are 95 % intervals over the trials.{base}"


def judged_on(data: BenchmarkData) -> str:
    """Return on what the predictions were judged, as a sentence with a space after it; empty if not known."""
    over = sorted({item.examples for item in data.predictions if item.examples})
    many = text.listed([text.count(amount, "example") for amount in over])
    parts = [part for part in (data.evaluation, many) if part]
    return f"Judged on {', '.join(parts)}, texts up to their own length. " if data.predictions and parts else ""
