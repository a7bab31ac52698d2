"""Energy for a unit of work: per token, per parameter and per FLOP, of two runs of different shapes or models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from energyscope.runs.compare_difference import Difference, compared, said_invalid
from energyscope.runs.intervals import Interval, finite
from energyscope.runs.tree import Node

NANO_PER_MILLI, PICO_PER_MILLI = 1e6, 1e9
_WORKLOAD = ("batch size:", "sequence length:")  # obstacles that dividing by the work takes away


def normalised(
    documents: tuple[Mapping[str, Any], Mapping[str, Any]],
    roots: tuple[Node | None, Node | None],
    obstacles: tuple[str, ...],
) -> tuple[Difference, ...]:
    """Return the whole model's energy per token (mJ), per parameter (nJ) and per FLOP (pJ).

    Runs of other batch sizes or lengths are compared per token and per FLOP, not per parameter: a parameter's
    energy grows with what is fed.
    """
    without_workload = tuple(one for one in obstacles if not one.startswith(_WORKLOAD))
    found = []
    for name, unit, divisors, factor, standing in (
        ("energy per token", "mJ", [_tokens(*one) for one in _both(documents, roots)], 1.0, without_workload),
        ("energy per parameter", "nJ", [parameters(one) for one in documents], NANO_PER_MILLI, obstacles),
        ("energy per FLOP", "pJ", [_flops(root) for root in roots], PICO_PER_MILLI, without_workload),
    ):
        one, two = (_per(root, divisor, factor) for root, divisor in zip(roots, divisors, strict=True))
        invalid = said_invalid(*(bool(root and root.invalid) for root in roots))
        item = compared(name, unit, one, two, standing, invalid)
        if not item.missing:
            found.append(item)
    return tuple(found)


def tokens_of(document: Mapping[str, Any], root: Node | None) -> float | None:
    """Return the tokens of a pass: those read in prefill, one for each sequence in a decode step."""
    return _tokens(document, root)


def parameters(document: Mapping[str, Any]) -> float | None:
    """Return the model's parameters; None where they are not stated."""
    return finite((document.get("model") or {}).get("parameters"))


def _both(
    documents: tuple[Mapping[str, Any], Mapping[str, Any]], roots: tuple[Node | None, Node | None]
) -> Iterator[tuple[Mapping[str, Any], Node | None]]:
    yield from zip(documents, roots, strict=True)


def _tokens(document: Mapping[str, Any], root: Node | None) -> float | None:
    if root is None:
        return None
    batch = root.number("batch_size")
    if root.row.get("phase") == "decode":
        return batch
    stated = finite((document.get("workload") or {}).get("tokens_per_forward"))
    length = root.number("context_length")
    return stated if stated or not batch or not length else batch * length


def _flops(root: Node | None) -> float | None:
    return root.number("flops") if root else None


def _per(root: Node | None, divisor: float | None, factor: float) -> Interval | None:
    return root.energy.scaled(factor / divisor) if root and root.energy and divisor else None
