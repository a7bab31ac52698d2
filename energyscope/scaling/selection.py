"""Which measured moments a prediction may stand on: of one phase, and alike in all that no law knows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from energyscope.errors import UsageError
from energyscope.reasons import Reason, join, reason, words
from energyscope.runs.method import changes_between, lacking
from energyscope.scaling.boards import OneBoard, on_one_board
from energyscope.scaling.cell import FIELDS, Cell
from energyscope.scaling.from_runs import SceneCells
from energyscope.scaling.grouping import value_of

MIXABLE = ("board", "execution", "precision")
CHOSEN = ("execution", "precision")  # of these, a prediction may be told which one to use
SHARED = ("subject", "model", "phase")  # subjects have laws of their own, models may share one, a phase is chosen


@dataclass(frozen=True)
class Wanted:
    """What the moments must be: None where it is left to them. ``mixed`` names fields in which they may differ."""

    phase: str | None = None
    precision: str | None = None
    weights: str | None = None
    execution: str | None = None
    mixed: tuple[str, ...] = ()


def select(scenes: Sequence[SceneCells], wanted: Wanted) -> tuple[list[SceneCells], list[Reason]]:
    """Return the moments to fit laws to, and what a reader should know of them.

    Raises:
        UsageError: none is left, they are one cell only, or they differ in what ``mixed`` does not name.

    """
    _check_mixed(wanted)
    phase = wanted.phase or ("prefill" if any(one.phase == "prefill" for one in scenes) else "decode")
    found = [one for one in scenes if one.phase == phase]
    if not found:
        other = "decode steps" if phase == "decode" else "prefills"
        there = _said({one.phase for one in scenes})
        raise UsageError(
            f"no run measured {other}, only {there}: measure some (energyscope sweep --phase {phase})"
        )
    if wanted.precision and "precision" not in wanted.mixed:
        found = _of(found, "precision", wanted.precision)
    if wanted.weights:
        found = _of(found, "weights", wanted.weights)
    notes = [reason("run-not-used", runs=[one.run], why=_first_reason(one)) for one in found if not one.cells]
    found = [one for one in found if one.cells]
    if not found:
        raise UsageError(f"these runs hold no cell of a law: {words(join(notes))}")
    if wanted.execution:
        found = _of(found, "execution", wanted.execution)
    _check_caches(found)
    _check_alike(found, wanted.mixed)
    if len({(one.model, one.batch_size, one.tokens) for one in found}) < 2:
        raise UsageError(reason("one-cell").words)
    weights = sorted({str(one.weights) for one in found})
    if len(weights) > 1:
        notes.append(reason("several-weights", weights=weights))
    return found, [*notes, *_older(found)]


def by_subject(
    scenes: Sequence[SceneCells], mixed: Collection[str]
) -> tuple[dict[str, list[Cell]], dict[str, OneBoard]]:
    """Return the cells of each subject; those of several boards scaled to one, by subject, where asked for.

    Raises:
        UsageError: boards share no shape.

    """
    found: dict[str, list[Cell]] = {}
    for scene in scenes:
        for subject, cell in scene.cells.items():
            found.setdefault(subject, []).append(cell)
    boards = {cell.board for cells in found.values() for cell in cells}
    if "board" not in mixed or len(boards) < 2:
        return found, {}
    scaled = {subject: on_one_board(cells) for subject, cells in found.items()}
    return {subject: list(one.cells) for subject, one in scaled.items()}, scaled


def common_parts(scenes: Sequence[SceneCells]) -> tuple[tuple[str, ...], Reason | None]:
    """Return the subjects that add up to the whole in all moments that tell them, or why there are none."""
    told = [one for one in scenes if one.parts]
    if not told:
        return (), reason("no-run-with-all-parts")
    first = set(told[0].parts)
    other = next((one for one in told if set(one.parts) != first), None)
    if other is not None:
        odd = sorted(first ^ set(other.parts))
        return (), reason("parts-differ", first=told[0].run, second=other.run, parts=odd)
    return told[0].parts, None


def _of(scenes: Sequence[SceneCells], field: str, value: str) -> list[SceneCells]:
    found = [one for one in scenes if value_of(one, field) == value]
    if not found:
        there = _said({str(value_of(one, field)) for one in scenes})
        raise UsageError(f"no run measured --{field} {value}: they have {there}, and no law carries over")
    return found


def _check_mixed(wanted: Wanted) -> None:
    for field in wanted.mixed:
        if field not in MIXABLE:
            raise UsageError(f"--mixed {field} is not possible: use {' or '.join(MIXABLE)}")
    if wanted.execution and "execution" in wanted.mixed:
        chosen = wanted.execution
        raise UsageError(f"--execution {chosen} chooses one, and --mixed execution all: give one of them")


def _check_caches(scenes: Sequence[SceneCells]) -> None:
    kinds = {one.kv_cache: one.run for one in scenes}
    if "static" in kinds:
        raise UsageError(f"{kinds['static']} has a static KV cache, whose size no law knows: use dynamic ones")
    if len(kinds) > 1:
        said = f"{kinds[None]} has no KV cache and {kinds['dynamic']} has one"
        raise UsageError(f"{said}, so their heads see other numbers of tokens: leave one of them out")


def _check_alike(scenes: Sequence[SceneCells], mixed: Collection[str]) -> None:
    """Refuse moments that differ in a field that laws do not know, with the runs of each value."""
    for field, plural in FIELDS.items():
        if field in SHARED or field in mixed:
            continue
        runs: dict[str, list[str]] = {}
        for one in scenes:
            value = str(getattr(next(iter(one.cells.values())), field))
            if one.run not in runs.setdefault(value, []):
                runs[value].append(one.run)
        if len(runs) > 1:
            named = "; ".join(f"{value}: {_said(names)}" for value, names in sorted(runs.items()))
            chosen = f", choose one with --{field}" if field in CHOSEN else ""
            instead = f"{chosen}, or add --mixed {field}" if field in MIXABLE else ""
            why = f"; method {_methods(scenes)}" if field == "method" else ""
            raise UsageError(f"the runs are of several {plural} ({named}{why}): leave some out{instead}")


def _methods(scenes: Sequence[SceneCells]) -> str:
    """Say in what the methods of some moments differ."""
    cells = sorted((next(iter(one.cells.values())) for one in scenes), key=lambda cell: cell.method)
    return words(changes_between(cells[0].method, cells[-1].method, cells[0].phase, cells[0].execution))


def _older(scenes: Sequence[SceneCells]) -> list[Reason]:
    """Say what was mended since the moments were measured."""
    runs: dict[str, dict[str, None]] = {}
    for one in scenes:
        cell = next(iter(one.cells.values()))
        if why := lacking(cell.method, cell.phase, cell.execution):
            runs.setdefault(why, {})[one.run] = None
    return [reason("older-method", why=why, groups=list(named)) for why, named in runs.items()]


def _first_reason(scene: SceneCells) -> Reason:
    return next(iter(scene.left_out.values()), reason("no-rows"))


def _said(names: Collection[str]) -> str:
    return ", ".join(sorted(names))
