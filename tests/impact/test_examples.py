"""Outcomes by example: packed into the journal, and written as a table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from energyscope.errors import RunError, UsageError
from energyscope.impact.examples import COLUMNS, pack, unpack, write_examples
from energyscope.impact.metrics import Outcomes, by_example

NAMES = [field.name for field in fields(Outcomes)]


def outcomes(count: int = 50, seed: int = 0) -> Outcomes:
    """Outcomes of ``count`` examples of 1 to 9 tokens; the original's numbers do not depend on the seed."""
    data, change = np.random.default_rng(99), np.random.default_rng(seed)
    tokens = data.integers(1, 10, count).astype(float)
    reference = data.uniform(1, 4, count) * tokens
    kl = change.exponential(0.1, count)
    margins = data.normal(size=count)
    return Outcomes(
        kl=kl,
        nll=reference + kl * tokens,
        reference_nll=reference,
        predictions=tokens,
        correct=np.floor(tokens / 2),
        reference_correct=tokens,
        agreement=change.uniform(size=count),
        js=kl / 4,
        margin=margins - kl,
        reference_margin=margins,
    )


def written(path: Path, *items: tuple[str, str, Outcomes], order: Sequence[int] | None = None) -> pd.DataFrame:
    write_examples(path / "e.parquet", iter(items), order)
    return pd.read_parquet(path / "e.parquet")


def test_packed_outcomes_come_back_from_a_line_of_text() -> None:
    """GIVEN outcomes, THEN one line of JSON brings them back to single precision, in under 60 bytes an example."""
    original = outcomes()
    line = json.dumps(pack(original))
    assert "\n" not in line
    assert len(line) < 60 * len(original) + 300
    back = unpack(json.loads(line))
    for name in NAMES:
        np.testing.assert_array_equal(getattr(back, name), getattr(original, name).astype(np.float32))
        assert getattr(back, name).dtype == np.float64


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=8))
def test_anything_can_be_packed(values: list[float]) -> None:
    """Unknown and infinite values, and no examples at all, come back as they were."""
    packed = pack(Outcomes(*[np.array(values, dtype=float)] * len(NAMES)))
    with np.errstate(over="ignore"):
        expected = np.array(values, dtype=float).astype(np.float32)
    np.testing.assert_array_equal(unpack(packed).kl, expected)


@pytest.mark.parametrize("damage", ["missing", "no base64", "cut", "shorter", "null"])
def test_damaged_line_is_one_clear_error(damage: str) -> None:
    """GIVEN a packed line with a part missing, garbled or cut off, THEN the error says what to do."""
    packed = pack(outcomes(4))
    short = pack(outcomes(3))["js"]
    parts: dict[str, object] = {"no base64": "?!", "cut": packed["js"][:6], "shorter": short, "null": None}
    broken = {name: text for name, text in packed.items() if name != "js"}
    if damage != "missing":
        broken["js"] = parts[damage]  # type: ignore[assignment]
    with pytest.raises(RunError, match="measure the impact again") as error:
        unpack(broken)
    assert "\n" not in str(error.value)


def test_table_has_a_row_for_each_example(tmp_path: Path) -> None:
    """GIVEN two changes, THEN the table has their numbers, example by example, in single precision."""
    first, second = outcomes(5), outcomes(5, seed=1)
    table = written(tmp_path, ("mlp", "zero", first), ("mlp", "mean", second))
    assert tuple(table.columns) == COLUMNS
    assert len(table) == 10
    assert {str(table[name].dtype) for name in COLUMNS[3:]} == {"float32"}
    assert (str(table["example"].dtype), str(table["component"].dtype)) == ("int32", "category")
    rows = table[(table["component"] == "mlp") & (table["method"] == "mean")]
    assert rows["example"].tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_allclose(rows["kl"], second.kl, rtol=1e-6)
    np.testing.assert_allclose(rows["loss_difference"], by_example("loss_difference", second), rtol=1e-6)
    np.testing.assert_allclose(rows["margin_difference"], by_example("logit_difference", second), rtol=1e-6)
    np.testing.assert_allclose(rows["predictions"], second.predictions)


def test_of_a_change_measured_twice_the_last_counts(tmp_path: Path) -> None:
    """GIVEN a resumed run, in which one change comes twice, THEN the last one's numbers are in the table."""
    early, late, other = outcomes(4), outcomes(6, seed=1), outcomes(6, seed=2)
    table = written(tmp_path, ("mlp", "zero", early), ("attention", "zero", other), ("mlp", "zero", late))
    assert len(table) == 12
    np.testing.assert_allclose(table[table["component"] == "mlp"]["kl"], late.kl, rtol=1e-6)
    assert not list(tmp_path.glob("*.part"))


def test_examples_keep_their_place_in_the_data(tmp_path: Path) -> None:
    """GIVEN a change that was not tried on the first examples, THEN the others' rows carry their own numbers."""
    partial = Outcomes.concatenate([Outcomes.unseen(3), outcomes(2)])
    assert written(tmp_path, ("mlp", "zero", partial))["example"].tolist() == [3, 4]


def test_examples_carry_their_index_in_the_source(tmp_path: Path) -> None:
    """GIVEN the order that batching brought, THEN rows name the data's own index; one of other data is refused."""
    partial = Outcomes.concatenate([Outcomes.unseen(1), outcomes(3)])
    table = written(tmp_path, ("mlp", "zero", partial), order=(9, 4, 0, 7))
    assert table["example"].tolist() == [4, 0, 7]
    np.testing.assert_allclose(table["kl"], outcomes(3).kl, rtol=1e-6)
    with pytest.raises(UsageError, match="order of 3 examples does not fit outcomes of 4"):
        written(tmp_path, ("mlp", "zero", partial), order=(0, 1, 2))


def test_nothing_measured_is_an_empty_table(tmp_path: Path) -> None:
    """GIVEN no changes, THEN the table has its columns and no rows."""
    table = written(tmp_path)
    assert (len(table), tuple(table.columns)) == (0, COLUMNS)


def test_text_is_stored_once_and_numbers_compactly(tmp_path: Path) -> None:
    """GIVEN 20,000 examples of long names, THEN the file takes less than 40 bytes a row."""
    items = [(f"a.very.long.name.of.a.component.{index}", "zero", outcomes(1000, index)) for index in range(20)]
    written(tmp_path, *items)
    assert (tmp_path / "e.parquet").stat().st_size < 40 * 20_000
