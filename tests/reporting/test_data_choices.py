"""What changing one thing would do."""

from __future__ import annotations

from pathlib import Path

import pytest
from generation_builder import Inference, build_inference

from energyscope.reporting.charts import theme
from energyscope.reporting.choices_figures import choices_figures
from energyscope.reporting.data import report_data
from energyscope.reporting.data.choices import ChoicesData, choices_table


def made(path: Path, shape: Inference | None = None) -> ChoicesData:
    found = report_data(build_inference(path, shape)).choices
    assert found is not None
    return found


def test_rows_are_grouped_by_what_is_changed(tmp_path: Path) -> None:
    """Each phase has its alternatives, without the run's own setting, which stands apart."""
    found = made(tmp_path / "run")
    assert found.phases == ["decode", "prefill"]
    assert [row.title for row in found.of("decode")] == [
        "batch size 4", "batch size 16", "batch size 64", "context 128", "context 8,192", "KV cache static",
        "execution cuda-graph", "execution compile", "attention eager",
    ]  # fmt: skip
    base = found.base_of("decode")
    assert base is not None
    assert base.title == "as it was run"
    assert found.base == (
        "bf16, eager, batch 1, 1,024 tokens of context, a prompt of 128 tokens, dynamic KV cache, sdpa attention"
    )


def test_the_table_has_the_own_setting_first_and_joules_per_token(tmp_path: Path) -> None:
    """The first row is the base without a ratio; joules per token are in a unit that fits."""
    found = made(tmp_path / "run")
    table = choices_table(found, "decode")
    assert table.rows[0][:1] == ["as it was run"]
    assert table.rows[0][2] == "\u2013"
    assert table.rows[3][0] == "batch size 64"
    assert table.rows[3][1].endswith("]")
    assert "mJ" in table.rows[3][1]
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_what_was_skipped_has_its_reason(tmp_path: Path) -> None:
    """Alternatives without a number are listed with why."""
    found = made(tmp_path / "run")
    assert [(one.title, one.reason) for one in found.skipped] == [
        ("attention flash_attention_2", "flash-attn is not installed"),
        ("batch size 256", "no memory is left: a batch of 192 would fit"),
    ]


def test_advice_comes_with_joules(tmp_path: Path) -> None:
    """Sentences that are sure of a saving name joules; the surest saving here is the largest batch."""
    found = made(tmp_path / "run")
    sure = [said for said in found.advice if said.confident]
    assert sure
    assert all("J" in said.sentence for said in sure)
    assert sure[0].what == "batch_size"


def test_weak_values_are_hollow_and_the_caption_says_so(tmp_path: Path) -> None:
    """GIVEN an alternative below grade C, THEN its bar is pale and the caption explains it."""
    decode, prefill = choices_figures(made(tmp_path / "run"))
    held = theme.spec(decode.chart)["datasets"].values()
    records = [record for values in held for record in values if "fill" in record]
    assert {record["title"] for record in records if record["fill"] < 0.5} == {"context 8,192"}
    assert "Hollow" in decode.caption
    assert "Hollow" not in prefill.caption


@pytest.mark.parametrize(("modelled", "word"), [(True, "Modelled energy"), (False, "Energy")])
def test_titles_and_columns_name_modelled_joules(tmp_path: Path, modelled: bool, word: str) -> None:
    """Figures and tables of a modelled run say so."""
    found = made(tmp_path / "run", Inference(modelled=modelled))
    assert all(figure.title.startswith(word) for figure in choices_figures(found))
    assert choices_table(found, "decode").columns[1].startswith("MODELLED") is modelled
