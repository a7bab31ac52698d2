from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from run_builder import Shape, build_run, energy_rows

from energyscope.errors import RunError, UsageError
from energyscope.reasons import join, reason, split, words
from energyscope.runs import schema
from energyscope.runs.files import write_text
from energyscope.runs.locks import write_lock
from energyscope.runs.store import RunStore, find_run, list_runs, load_run, plain_name, read_journal


def test_a_run_reads_back_as_written(tmp_path: Path) -> None:
    """GIVEN a written run, THEN its tables come back with the same values and the contract's first columns."""
    rows = energy_rows(Shape())
    run = build_run(tmp_path / "run")
    assert run.energy is not None
    assert tuple(run.energy.columns[:35]) == schema.ENERGY_COLUMNS[:35]
    assert run.energy["energy_mj"].tolist() == [row.energy_mj for row in rows]
    assert run.energy.loc[0, "parent"] is None
    assert run.energy["layer"].isna().sum() == 4
    assert run.impact is not None
    assert run.correlation is not None


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n", "\u2028"])
def test_no_name_ends_a_row_of_a_table(tmp_path: Path, end: str) -> None:
    """GIVEN a component's name with any end of a line in it, THEN its row is one row, and the name comes back."""
    names = [f"layer{end}one", 'a "quoted", name', f"{end}mlp", "plain"]
    rows = [replace(row, component=name) for row, name in zip(energy_rows(Shape()), names, strict=False)]
    run = build_run(tmp_path / "run", Shape(impact=False))
    RunStore.open(run.path).write_rows(schema.ENERGY_FILE, rows, schema.ENERGY_COLUMNS)
    written = load_run(run.path).energy
    assert written is not None
    assert list(written["component"]) == names
    with (run.path / schema.ENERGY_FILE).open(encoding="utf-8", newline="") as file:
        assert [row["component"] for row in csv.DictReader(file)] == names


def test_a_stage_that_did_not_run_leaves_no_table(tmp_path: Path) -> None:
    """GIVEN a run without impact, THEN its tables are None and no file is there."""
    run = build_run(tmp_path / "run", Shape(impact=False))
    assert run.impact is None
    assert run.merged is None
    assert run.correlation is None
    assert not (run.path / schema.IMPACT_FILE).exists()


def test_unknown_numbers_are_null(tmp_path: Path) -> None:
    """NaN and infinity become null, numpy numbers plain ones: the file is valid JSON."""
    store = RunStore.create("run", tmp_path)
    store.update(closure={"energy": math.nan, "time": np.float32(0.5)}, sizes=(math.inf, np.int64(3)))
    document = json.loads((store.path / schema.RUN_FILE).read_text())
    assert document["closure"] == {"energy": None, "time": 0.5}
    assert document["sizes"] == [None, 3]


def test_a_name_that_exists_is_refused(tmp_path: Path) -> None:
    """GIVEN a run of that name, THEN creating it again is a usage error and the run stays."""
    run = build_run(tmp_path / "run")
    with pytest.raises(UsageError, match="choose another --name"):
        RunStore.create("run", tmp_path)
    assert load_run(run.path).energy is not None


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/absolute", "a\nb", "\x1b[2Jgone"])
def test_names_that_are_paths_are_refused(tmp_path: Path, name: str) -> None:
    """A run name is one plain name."""
    with pytest.raises(UsageError, match="not a run name"):
        RunStore.create(name, tmp_path)


def test_runs_are_found_by_path_name_prefix_and_report(tmp_path: Path) -> None:
    """A run is found by its path, its name, a unique prefix, or its report's path."""
    path = build_run(tmp_path / "gpt2-1").path
    build_run(tmp_path / "llama-1")
    (path / schema.REPORT_FILE).write_text("page")
    assert find_run(path) == path
    assert find_run("gpt2-1", tmp_path) == path
    assert find_run("g", tmp_path) == path
    assert find_run(path / schema.REPORT_FILE) == path


def test_an_ambiguous_prefix_names_the_runs(tmp_path: Path) -> None:
    """GIVEN a prefix of two runs, THEN the error names both."""
    build_run(tmp_path / "gpt2-1")
    build_run(tmp_path / "gpt2-2")
    with pytest.raises(RunError, match="gpt2-1, gpt2-2"):
        find_run("gpt2", tmp_path)


def test_a_mistyped_name_is_answered_with_the_nearest(tmp_path: Path) -> None:
    """GIVEN letters in the wrong order, THEN the run or sweep of nearly that name is offered, and no other."""
    build_run(tmp_path / "first")
    (tmp_path / "lengths").mkdir()
    (tmp_path / "lengths" / schema.SWEEP_FILE).write_text("{}")
    with pytest.raises(RunError, match=r"no run 'frist' here or in .*: did you mean 'first'\?$"):
        find_run("frist", tmp_path)
    with pytest.raises(RunError, match=r"did you mean 'lengths'\?$"):
        find_run("lenghts", tmp_path)
    for root in (tmp_path, tmp_path / "none"):
        with pytest.raises(RunError, match=r"`energyscope runs` lists what there is$"):
            find_run("llama", root)


def test_runs_are_listed_oldest_first(tmp_path: Path) -> None:
    """Directories that are not runs are left out."""
    (tmp_path / "other").mkdir()
    paths = [build_run(tmp_path / name).path for name in ("b", "a")]
    assert list_runs(tmp_path) == paths
    assert list_runs(tmp_path / "none") == []


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    """GIVEN a run of a newer schema, THEN the error says to upgrade."""
    path = build_run(tmp_path / "run").path
    document = json.loads((path / schema.RUN_FILE).read_text())
    (path / schema.RUN_FILE).write_text(json.dumps({**document, "schema": schema.SCHEMA_VERSION + 1}))
    with pytest.raises(RunError, match="upgrade"):
        load_run(path)


SAID = "9 windows; 95 % half-width 4.2%"
CODES = join([reason("few-windows", windows=2), reason("wide-interval", half_width=0.042)])


@pytest.mark.parametrize(
    ("version", "reasons", "codes", "shown"),
    [
        (1, SAID, [None, None], SAID),
        (
            2,
            CODES,
            ["few-windows", "wide-interval"],
            "measured only 2 times (grade A needs 5); 95 % interval of ± 4.2 %",
        ),
    ],
)
def test_runs_of_both_schemas_open(
    tmp_path: Path, version: int, reasons: str, codes: list[str | None], shown: str
) -> None:
    """GIVEN texts as schema 1 has them THEN they are shown as they are; codes of schema 2 are put into words."""
    store = RunStore.open(build_run(tmp_path / "run", Shape(impact=False)).path)
    rows = [replace(row, reasons=reasons) for row in energy_rows(Shape())]
    store.write_rows(schema.ENERGY_FILE, rows, schema.ENERGY_COLUMNS)
    store.update(schema=version, warnings=[reasons])
    store.stage("profile", "done", reason=reasons)
    run = load_run(store.path)
    assert run.energy is not None
    for cell in (
        run.energy.loc[0, "reasons"],
        *run.document["warnings"],
        run.document["stages"]["profile"]["reason"],
    ):
        assert [each.code for each in split(cell)] == codes
        assert words(cell) == shown


def test_new_runs_are_of_schema_2(tmp_path: Path) -> None:
    """A run that is written now says that its reasons are codes."""
    store = RunStore.create("run", tmp_path)
    store.stage("ablate", "skipped", reason=reason("not-asked-for"))
    document = json.loads((store.path / schema.RUN_FILE).read_text())
    assert (document["schema"], document["stages"]["ablate"]["reason"]) == (2, "not-asked-for")


@pytest.mark.parametrize(
    ("file", "content", "complaint"),
    [
        (schema.RUN_FILE, "{", "cannot be read"),
        (schema.RUN_FILE, "[]", "not a JSON object"),
        (schema.RUN_FILE, "{}", "no schema version"),
        (schema.ENERGY_FILE, "component,kind\nmodel,model\n", "lacks the columns layer"),
        (schema.CORRELATION_FILE, "", "cannot be read"),
    ],
)
def test_broken_files_are_one_clear_error(tmp_path: Path, file: str, content: str, complaint: str) -> None:
    """GIVEN a broken file in a run, THEN one error names it."""
    path = build_run(tmp_path / "run").path
    (path / file).write_text(content)
    with pytest.raises(RunError, match=complaint):
        load_run(path)


def test_a_name_is_free_where_a_killed_run_left_nothing(tmp_path: Path) -> None:
    """GIVEN a run that was killed before it wrote its settings, THEN its name is free, not while it begins."""
    store = RunStore.create("run", tmp_path)
    with write_lock(store.path), pytest.raises(UsageError, match="'run' exists"):
        RunStore.create("run", tmp_path)
    with pytest.raises(UsageError, match="'run' exists"):
        RunStore.create("run", tmp_path, over_empty=False)
    RunStore.create("run", tmp_path).journal({"pass": 1})
    with pytest.raises(UsageError, match="'run' exists"):
        RunStore.create("run", tmp_path)


def test_the_journal_survives_a_line_cut_short(tmp_path: Path) -> None:
    """GIVEN a crash while a line was written, THEN the lines before it are read."""
    store = RunStore.create("run", tmp_path)
    store.journal({"component": "a", "energy_mj": 1.5})
    store.journal({"component": "b", "energy_mj": None})
    with (store.path / schema.JOURNAL_FILE).open("a") as file:
        file.write('{"component": "c", "ene')
    assert [entry["component"] for entry in read_journal(store.path)] == ["a", "b"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device without room: /dev/full")
def test_a_full_disk_names_the_journal(tmp_path: Path) -> None:
    """GIVEN a disk without room, THEN the system's error on a finished measurement names the journal."""
    store = RunStore.create("run", tmp_path)
    (store.path / schema.JOURNAL_FILE).symlink_to("/dev/full")
    with pytest.raises(OSError, match=r"No space left on device: '.*run/journal\.jsonl'"):
        store.journal({"pass": 1})


def test_a_journal_cut_at_any_byte_is_read_to_its_last_whole_line(tmp_path: Path) -> None:
    """GIVEN a journal that ends at any byte of it, THEN the entries are the whole lines before, and no others."""
    store = RunStore.create("run", tmp_path)
    for entry in ({"component": "Ω", "pass": 1}, {"pass": 12, "model": {"energy_mj": None}}, {"note": "\n"}):
        store.journal(entry)
    file = store.path / schema.JOURNAL_FILE
    content, entries = file.read_bytes(), read_journal(store.path)
    for end in range(len(content)):
        file.write_bytes(content[:end])
        found = read_journal(store.path)
        assert found == entries[: len(found)]
        assert len(found) >= content[:end].count(b"\n")


@pytest.mark.parametrize(
    ("content", "read"),
    [(b"\xe3\x00 no text", None), (b'{"pass": 1}\n\0\0\0\0', 1), (b'{"pass": 1}\n5\n{"pass": 2}\n', 1)],
    ids=["no text", "nothing that was written", "no entry"],
)
def test_a_journal_that_a_crash_damaged_is_read_before_the_damage(
    tmp_path: Path, content: bytes, read: int | None
) -> None:
    """GIVEN a journal with other bytes, THEN what is before them is read; what is no text at all is an error."""
    store = RunStore.create("run", tmp_path)
    (store.path / schema.JOURNAL_FILE).write_bytes(content)
    if read is None:
        with pytest.raises(RunError, match=r"journal\.jsonl cannot be read"):
            read_journal(store.path)
    else:
        assert len(read_journal(store.path)) == read


def test_a_finished_journal_is_compressed_and_read_as_before(tmp_path: Path) -> None:
    """WHEN a run's journal is compressed, THEN its entries are the same, and the plain file is gone."""
    store = RunStore.create("run", tmp_path)
    for number in range(100):
        store.journal({"component": "a", "pass": number})
    entries, size = read_journal(store.path), (store.path / schema.JOURNAL_FILE).stat().st_size
    store.compress_journal()
    assert read_journal(store.path) == entries
    assert [path.name for path in store.path.iterdir()] == [schema.FINISHED_JOURNAL_FILE]
    assert (store.path / schema.FINISHED_JOURNAL_FILE).stat().st_size < size / 5


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-9],
        lambda content: b"no gzip",
        lambda content: content[:12] + b"\xff" + content[13:],
    ],
    ids=["cut off", "something else", "a wrong byte"],
)
def test_a_damaged_journal_is_one_clear_error(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    """GIVEN a compressed journal that was cut off or overwritten, THEN the error names it; nothing is made up."""
    store = RunStore.create("run", tmp_path)
    store.journal({"component": "a"})
    store.compress_journal()
    file = store.path / schema.FINISHED_JOURNAL_FILE
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(RunError, match=r"journal\.jsonl\.gz cannot be read"):
        read_journal(store.path)


def test_a_run_without_a_journal_has_no_windows(tmp_path: Path) -> None:
    """GIVEN a run whose journal did not travel with it, THEN its table of windows has columns and no rows."""
    windows = build_run(tmp_path / "run").windows()
    assert len(windows) == 0
    assert list(windows.columns) == ["begin_s", "end_s", "calls", "energy_mj", "time_us"]


def test_windows_of_a_trace_without_an_origin_have_no_times(tmp_path: Path) -> None:
    """GIVEN a run that did not keep its trace's origin, THEN when its windows were is unknown, and not wrong."""
    run = build_run(tmp_path / "run")
    figures = {"calls": 2, "energy_mj": 3.0, "time_us": 4.0}
    entry = {"stage": "profile", "subject": "node:model", "pass": 0, "ran_s": [5.0, 6.0], "window": figures}
    RunStore.open(run.path).journal(entry)
    assert run.windows()["begin_s"].isna().all()
    assert run.windows()["energy_mj"].tolist() == [3.0]
    assert replace(run, document={**run.document, "trace_origin_s": 4.0}).windows()["end_s"].tolist() == [2.0]


def test_a_run_is_named_after_any_model() -> None:
    """GIVEN a model's name with odd letters, none, or of 400, THEN a run may be named after it."""
    assert plain_name("org/model-1b") == "model-1b"
    assert plain_name("a\x1b[2J\nb") == "a_[2J_b"
    assert plain_name("") == "model"
    for model in ("\u00e9" * 400, "x" * 400):
        RunStore.check_free(f"{plain_name(model)}-20261122-120000-laws", Path("nowhere"))


def test_a_name_that_no_file_can_have_is_refused() -> None:
    """GIVEN a name of 300 letters, THEN it is refused in a line that says what to do."""
    with pytest.raises(UsageError, match="300 letters is too long: choose a shorter --name"):
        RunStore.check_free("x" * 300, Path("nowhere"))


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    """GIVEN text that cannot be encoded, THEN the old file stays and nothing else is left behind."""
    target = tmp_path / "file.txt"
    write_text(target, "old")
    with pytest.raises(UnicodeEncodeError):
        write_text(target, "\ud800")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]
