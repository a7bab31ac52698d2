from __future__ import annotations

import base64
import zlib
from pathlib import Path

from run_builder import build_run

from energyscope.reporting.downloads import download_payload, downloads


def test_files_are_carried_byte_for_byte(tmp_path: Path) -> None:
    """GIVEN a run, THEN each of its tables and its document unpack to what lies on disk."""
    run = build_run(tmp_path / "run")
    found = downloads(run.path)
    assert [one.name for one in found][:2] == ["run.json", "per_layer_energy.csv"]
    for one in found:
        assert one.packed is not None
        assert zlib.decompress(base64.b64decode(one.packed)) == (run.path / one.name).read_bytes()


def test_only_what_a_run_has_is_offered(tmp_path: Path) -> None:
    """GIVEN a directory with a document alone, THEN nothing else is offered; tables come in two forms."""
    (tmp_path / "run.json").write_text("{}")
    assert [(one.name, one.formats) for one in downloads(tmp_path)] == [("run.json", ("json",))]
    (tmp_path / "per_layer_energy.csv").write_text("component\n")
    assert downloads(tmp_path)[1].formats == ("csv", "json")


def test_what_has_no_room_is_named_and_left_out(tmp_path: Path) -> None:
    """GIVEN room for the document alone, THEN the tables are named without their bytes, and not in the payload."""
    run = build_run(tmp_path / "run")
    room = len(downloads(run.path)[0].packed or "")
    found = downloads(run.path, room)
    assert len(found) > 1
    assert [one.packed is not None for one in found] == [True] + [False] * (len(found) - 1)
    assert list(download_payload("run", found)["files"]) == ["run.json"]


def test_text_columns_are_known_whatever_they_hold() -> None:
    """A component named 0 or True stays text in JSON: the columns of text are named, and no column of numbers."""
    texts = download_payload("run", [])["texts"]
    assert {"component", "kind", "reasons", "precision", "devices_mj", "metric"} <= set(texts)
    assert not {"energy_mj", "layer", "reused", "value", "mean_latency"} & set(texts)
