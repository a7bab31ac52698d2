"""The energy of attention heads, apportioned: one kernel computes all heads, so none can be measured by itself.

A head gets an equal share of the attention core and of the projections, whose slices are of one size; a group
that shares keys and values gets the share of its heads. This is no measurement of the head; the rows say so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from energyscope.grouping import group_by
from energyscope.metering.grades import QUALITIES
from energyscope.reasons import reason

if TYPE_CHECKING:
    import pandas as pd

KINDS = ("attention.head", "attention.kv_group")
SHARED = (
    "attention.query", "attention.key", "attention.value", "attention.qkv", "attention.core", "attention.output",
)  # fmt: skip
CORE = "attention.core"
COPIED = ("phase", "precision", "execution", "batch_size", "context_length", "device", "meter", "calls")


def apportioned(energy: pd.DataFrame, impact: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows for the energy table of the heads, and groups of heads, that the impact table holds.

    ``energy_mj`` is their share per forward pass; its interval is that of the sum of the parts, which are measured
    independently. It is None, with the reason, where the core or a projection in the table has no energy.
    """
    rows = impact[impact["kind"].isin(KINDS)].drop_duplicates("component").to_dict("records")
    by_attention = group_by(rows, lambda row: (row["component"].rsplit(".", 2)[0], row["kind"]))
    return [
        {**_share(part, energy, len(heads)), **{name: head[name] for name in ("component", "kind", "layer")}}
        for (attention, _kind), heads in by_attention.items()
        for part in energy[energy["component"] == attention].to_dict("records")
        for head in heads
    ]


def _share(attention: Mapping[Any, Any], energy: pd.DataFrame, heads: int) -> dict[str, Any]:
    """Return one of ``heads`` equal shares of what belongs to the heads of an attention, as a row."""
    row = {name: attention[name] for name in COPIED} | {
        "level": "head", "parent": attention["component"], "quality": "invalid", "reused": False,
        "energy_mj": None, "energy_ci_low_mj": None, "energy_ci_high_mj": None,
        "reasons": reason("no-attention-core"),
    }  # fmt: skip
    of_attention = (energy["parent"] == attention["component"]) & energy["kind"].isin(SHARED)
    for name in COPIED[:5]:
        of_attention &= energy[name] == attention[name]
    parts = energy[of_attention]
    unknown = parts[parts["energy_mj"].isna()]
    if CORE not in set(parts["kind"]) or CORE in set(unknown["kind"]):
        return row
    if len(unknown):  # a sum without them would count them as 0
        return row | {"reasons": reason("parts-without-energy", parts=unknown["component"].tolist())}
    total = float(parts["energy_mj"].sum()) / heads
    half_widths = (parts["energy_ci_high_mj"] - parts["energy_ci_low_mj"]) / 2
    half = math.sqrt((half_widths**2).sum(skipna=False)) / heads
    known = not math.isnan(half)
    return row | {
        "energy_mj": total,
        "energy_ci_low_mj": total - half if known else None,
        "energy_ci_high_mj": total + half if known else None,
        "quality": max(parts["quality"], key=QUALITIES.index),
        "reused": bool(parts["reused"].any()),
        "reasons": reason("apportioned", heads=heads),
    }
