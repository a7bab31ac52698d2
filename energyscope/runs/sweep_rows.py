"""A sweep as plain rows, one for each cell: what its whole model took."""

from __future__ import annotations

from typing import Any

from energyscope.runs.summary import summary
from energyscope.runs.sweeps import Sweep, SweepCell

COLUMNS = (
    "cell", "precision", "batch_size", "tokens", "phase", "state", "reason", "seconds", "energy_mj",
    "energy_ci_low_mj", "energy_ci_high_mj", "time_us", "power_w", "quality", "closure", "modelled",
    "energy_per_token_mj", "run",
)  # fmt: skip


def sweep_rows(sweep: Sweep) -> list[dict[str, Any]]:
    """Return a row for each cell: its shape and how it ended, and what its whole model took, None if unknown.

    Energies are in mJ, of a pass or step, with their 95 % interval; ``energy_per_token_mj`` is by the tokens that
    it reads or makes, over the whole batch.
    """
    runs = sweep.runs()
    rows = []
    for cell in sweep.cells:
        found = summary(runs[cell.name]) if cell.name in runs else {}
        energy = found.get("energy_mj")
        rows.append({
            "cell": cell.name, "precision": cell.precision, "batch_size": cell.batch_size, "tokens": cell.tokens,
            "phase": cell.phase, "state": cell.state, "reason": cell.reason, "seconds": cell.seconds,
            **{key: found.get(key) for key in ("energy_mj", "energy_ci_low_mj", "energy_ci_high_mj", "time_us",
                                               "power_w", "quality", "closure", "modelled")},
            "energy_per_token_mj": None if energy is None else energy / _tokens(cell),
            "run": cell.name if found else None,
        })  # fmt: skip
    return rows


def _tokens(cell: SweepCell) -> int:
    return cell.batch_size if cell.phase == "decode" else cell.batch_size * cell.tokens
