"""What a dry run of a plan says of the data: as the run would where they are here, and never a download."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from energyscope.errors import DataError
from energyscope.settings.run import RunSettings
from energyscope.stages.plan_dry_run import counted_examples

HUB_MODEL = "llama-3.2-1b"  # of which no file is here


def counted(model: str, task: Any = "next-token", **options: Any) -> int | None:
    return counted_examples(RunSettings(model, stages=("plan",), **options), task)


@pytest.fixture
def rows(tmp_path: Path) -> str:
    """Return a file of 40 texts, of which a language model makes single examples."""
    file = tmp_path / "rows.jsonl"
    lines = [json.dumps({"text": f"text {number} of some words", "label": number % 2}) for number in range(40)]
    file.write_text("\n".join(lines), encoding="utf-8")
    return str(file)


def test_data_that_are_here_are_read_as_the_run_reads_them(rows: str) -> None:
    """GIVEN a bundled model THEN its own data, or a file's, are counted, and no more than a plan uses."""
    assert counted("tiny-gpt2") == 256
    assert counted("tiny-gpt2", max_examples=60) == 60
    assert counted("tiny-gpt2", data=rows) == 40
    assert counted("tiny-gpt2", data=rows, weights="random") == 64  # random tokens, whatever the file has


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        ("tiny-gpt2", {"max_examples": 20}, "20 examples are too few to plan on: it takes 30"),
        ("tiny-gpt2", {"max_examples": 20, "weights": "random"}, "20 examples are too few"),
        ("tiny-gpt2", {"budget": "accuracy -0.01%"}, "each half of the data needs 30,000"),
        ("tiny-distilbert", {"budget": "accuracy -1%", "max_examples": 60}, "30 answers in half of the data"),
        (HUB_MODEL, {"max_examples": 20}, "20 examples are too few"),
    ],
)
def test_too_few_data_are_refused(model: str, options: dict[str, Any], words: str) -> None:
    """GIVEN fewer examples or answers than the budget takes THEN the dry run refuses with the words of the run."""
    with pytest.raises(DataError, match=words):
        counted(model, **options)


def test_a_files_rows_are_counted_without_a_tokenizer(rows: str) -> None:
    """GIVEN a model of the hub THEN rows of a file are counted; where each is an answer, held to the budget."""
    assert counted(HUB_MODEL) is None
    assert counted(HUB_MODEL, max_examples=50) is None
    assert counted(HUB_MODEL, data=rows) == 40
    assert counted(HUB_MODEL, data=rows, max_examples=35, budget="accuracy -1%") == 35
    with pytest.raises(DataError, match="20 answers in half of the data are too few"):
        counted("distilbert", "classification", data=rows, budget="accuracy -1%")
