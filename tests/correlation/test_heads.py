from __future__ import annotations

import pandas as pd
import pytest

from energyscope.correlation.heads import apportioned
from energyscope.reasons import reason

ATTENTION = "h.0.attn"


def energy(**values: float | None) -> pd.DataFrame:
    """An attention and its parts, by kind, each known to +-10 %."""
    rows = [{"component": ATTENTION, "kind": "attention", "parent": "h.0", "energy_mj": 9.0}]
    rows += [
        {"component": f"{ATTENTION}.{kind}", "kind": f"attention.{kind}", "parent": ATTENTION, "energy_mj": value}
        for kind, value in values.items()
    ]
    table = pd.DataFrame(rows).assign(
        phase="prefill", precision="fp32", execution="eager", batch_size=1, context_length=8, device="cuda:0",
        meter="nvml", calls=1.0, quality="A", reused=False,
    )  # fmt: skip
    return table.assign(energy_ci_low_mj=table["energy_mj"] * 0.9, energy_ci_high_mj=table["energy_mj"] * 1.1)


def impact(heads: int, kind: str = "attention.head") -> pd.DataFrame:
    names = [f"{ATTENTION}.{kind.rpartition('.')[2]}.{number}" for number in range(heads)]
    return pd.DataFrame({"component": [*names, ATTENTION], "kind": [*[kind] * heads, "attention"], "layer": 0})


def test_heads_share_the_core_and_the_projections() -> None:
    """GIVEN parts of 3 and 4 mJ and two heads THEN each has 3.5 mJ, to the parts' errors, and is labelled."""
    rows = apportioned(energy(core=3.0, qkv=4.0), impact(2))
    assert [row["component"] for row in rows] == [f"{ATTENTION}.head.0", f"{ATTENTION}.head.1"]
    for row in rows:
        assert row["energy_mj"] == pytest.approx(3.5)
        assert row["energy_ci_high_mj"] - row["energy_mj"] == pytest.approx((0.3**2 + 0.4**2) ** 0.5 / 2)
        assert row["reasons"] == reason("apportioned", heads=2)
        assert (row["level"], row["parent"], row["quality"]) == ("head", ATTENTION, "A")


def test_groups_get_the_share_of_their_heads() -> None:
    """GIVEN one group of all heads THEN it has all of it."""
    (row,) = apportioned(energy(core=3.0, qkv=4.0), impact(1, "attention.kv_group"))
    assert row["energy_mj"] == pytest.approx(7.0)


def test_the_worst_part_decides_the_grade() -> None:
    """GIVEN a part that was taken over from another layer, and graded C, THEN so is the head's share."""
    table = energy(core=3.0, qkv=4.0)
    table.loc[table["kind"] == "attention.qkv", ["quality", "reused"]] = ["C", True]
    row = apportioned(table, impact(2))[0]
    assert (row["quality"], row["reused"]) == ("C", True)


@pytest.mark.parametrize("parts", [{}, {"qkv": 4.0}, {"qkv": 4.0, "core": None}])
def test_without_the_cores_energy_there_is_none(parts: dict[str, float | None]) -> None:
    """GIVEN no energy of the core THEN the heads have none, with what to do."""
    for row in apportioned(energy(**parts), impact(2)):
        assert row["energy_mj"] is None
        assert row["reasons"] == "no-attention-core"


def test_no_heads_no_rows() -> None:
    """GIVEN impact of components only THEN nothing is apportioned."""
    assert apportioned(energy(core=3.0), impact(0)) == []


def test_an_unmeasured_projection_is_not_nothing() -> None:
    """GIVEN a core and one of two projections, THEN the heads have no energy, and the reason names the other."""
    for row in apportioned(energy(core=3.0, qkv=4.0, output=None), impact(2)):
        assert (row["energy_mj"], row["energy_ci_low_mj"], row["quality"]) == (None, None, "invalid")
        assert row["reasons"] == reason("parts-without-energy", parts=[f"{ATTENTION}.output"])
