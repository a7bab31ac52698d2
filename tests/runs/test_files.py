"""One file of a run is written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from energyscope.runs.files import write_text


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    """GIVEN text that cannot be encoded, THEN the old file stays and nothing else is left behind."""
    target = tmp_path / "file.txt"
    write_text(target, "old")
    with pytest.raises(UnicodeEncodeError):
        write_text(target, "\ud800")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]
