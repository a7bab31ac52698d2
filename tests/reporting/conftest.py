"""Shared by the tests of what is reported."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from cell_builder import build_swept


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep with its cells and laws."""
    return build_swept(tmp_path_factory.mktemp("runs") / "swept").path


@pytest.fixture
def sweep(swept: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(swept, tmp_path / "runs" / "swept"))
