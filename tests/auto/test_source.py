"""A structure written as an adapter: it loads, and is the same adapter."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path

import pytest
from auto_models import FAMILIES, structure

from energyscope.auto.source import adapter_source


@pytest.mark.parametrize("family", [*FAMILIES, "bart"])
def test_the_file_is_the_adapter(tmp_path: Path, family: str) -> None:
    """WHEN the file is run THEN its adapter has no problems, and differs from auto's in its name alone."""
    file = tmp_path / "adapter.py"
    file.write_text(adapter_source(structure(family)), encoding="utf-8")
    adapter = runpy.run_path(str(file))["adapter"]
    assert adapter.problems() == []
    assert adapter == replace(structure(family).adapter, name=family)


def test_reasons_stand_beside_the_parts() -> None:
    """Each part's line ends with why it has its kind."""
    lines = adapter_source(structure("mixtral")).splitlines()
    assert '        Part("router", f"{LAYER}.mlp.gate", "fine"),  # class MixtralTopKRouter' in lines
