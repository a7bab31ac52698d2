"""The tables of docs/models.md are true: short names, what serves them, and the lines of written adapters."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conformance import structure_of
from energyscope_adapters.models import MODELS

from energyscope import bundled
from energyscope.adapter_registry import own_adapters
from energyscope.auto.source import adapter_source
from energyscope.loading import model_names

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
FAMILIES = re.findall(r"^\| [^|`]+ \| (`[^|]+) \| ([^|]+) \|$", PAGE, re.MULTILINE)
LINES = {name: int(lines) for name, lines in re.findall(r"^\| `([^`]+)` \| (\d+) \|$", PAGE, re.MULTILINE)}


def test_every_short_name_is_on_the_page() -> None:
    """GIVEN all names that ship THEN the page has each once, with what serves it."""
    types = {model_type for adapter in own_adapters() for model_type in adapter.model_types}
    told = {name: served for names, served in FAMILIES for name in re.findall(r"`([^`]+)`", names)}
    assert set(told) == {name for name in model_names() if name not in bundled.MODELS}
    for name, served in told.items():
        assert ("adapter" in served) == (name not in MODELS or MODELS[name].model_type in types), name


@pytest.mark.parametrize("name", LINES)
def test_written_adapters_are_as_long_as_told(name: str) -> None:
    """GIVEN a plain decoder of fewer layers THEN the adapter that is written for it has as many lines as told."""
    assert len(adapter_source(structure_of(MODELS[name])).splitlines()) == LINES[name]


def test_all_plain_decoders_are_counted() -> None:
    """The page counts a model of each family of plain decoders."""
    types = {MODELS[name].model_type for name in LINES}
    assert types == {"opt", "gpt_neox", "mistral", "qwen3", "gemma3_text", "phi3", "llama"}
