"""Write a run directory so that nothing is ever half-written, and read one back.

Tables and documents are replaced atomically; the journal is appended and synced, one line for each
finished measurement, before the next one starts. When the run is finished, it is compressed.
"""

from __future__ import annotations

import difflib
import gzip
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from energyscope.errors import RunError, UsageError
from energyscope.runs import documents, schema
from energyscope.runs.checking import document_flaw
from energyscope.runs.examples import EXAMPLES, example
from energyscope.runs.files import (
    csv_text,
    declared,
    json_ready,
    naming,
    own_file,
    read_json,
    read_table,
    unpacked,
    without_home,
    write_bytes,
    write_text,
)
from energyscope.runs.locks import is_being_written
from energyscope.runs.windows import COLUMNS, windows_of

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_ROOT = Path("runs")
ARCHIVE = "archive"  # below a root, where `energyscope runs archive` puts its files
LONGEST_NAME = 200  # bytes of a run's name: file systems take 255, and some files of a run are named after it
ENDED = ("done", "skipped")  # states of a stage that is not begun again
REPORT = "report"  # the stage that draws the page
SCENE_SECTIONS = ("closure", "differential", "passes", "drift")  # of run.json that each phase has for itself


class RunStore:
    """The writing side of one run directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.document: dict[str, Any] = {"schema": schema.SCHEMA_VERSION}

    @classmethod
    def create(cls, name: str, root: Path = DEFAULT_ROOT, *, over_empty: bool = True) -> RunStore:
        """Make a new run directory, ``over_empty`` also where a killed process left one without anything in it.

        Raises:
            UsageError: the name is taken or is not a plain name, or the place cannot be written.

        """
        cls.check_free(name, root, over_empty=over_empty)
        path = root / name
        try:
            path.mkdir(parents=True, exist_ok=over_empty)
        except OSError as error:
            raise UsageError(
                f"cannot create {path}: {error.strerror or error}: choose another --root, or mend that"
            ) from error
        return cls(path)

    @staticmethod
    def check_free(name: str, root: Path = DEFAULT_ROOT, *, over_empty: bool = True) -> None:
        """Refuse a name that is taken or not plain, before hours are spent on it.

        Raises:
            UsageError: with what to do.

        """
        if not name or Path(name).name != name or name in {".", ".."} or not name.isprintable():
            raise UsageError(f"{name!r} is not a run name: use letters, digits, '.', '_' and '-', without '/'")
        if name == ARCHIVE:
            raise UsageError(f"{root / name} is for archives of runs: choose another --name")
        if len(name.encode()) > LONGEST_NAME:
            raise UsageError(f"a run name of {len(name)} letters is too long: choose a shorter --name")
        if (root / name).exists() and not (over_empty and _holds_nothing(root / name)):
            raise UsageError(f"the run {name!r} exists in {root}: choose another --name or remove it")

    @classmethod
    def open(cls, path: Path) -> RunStore:
        """Open an existing run to add to it, with its document loaded."""
        store = cls(path)
        store.document = read_document(path)
        return store

    def update(self, **sections: Any) -> None:
        """Merge sections into run.json and write it."""
        self.document.update(sections)
        self.write_json(schema.RUN_FILE, self.document)

    def stage(self, name: str, state: str, *, reason: str | None = None, seconds: float | None = None) -> None:
        """Record a stage's state: running, done, skipped, interrupted or failed."""
        stages = self.document.setdefault("stages", {})
        stages[name] = {"state": state, "reason": reason, "seconds": seconds}
        self.update()

    def journal(self, entry: Mapping[str, Any]) -> None:
        """Append one finished measurement, on disk when this returns."""
        line = without_home(json.dumps(json_ready(entry), allow_nan=False))
        path = self.path / schema.JOURNAL_FILE
        with naming(path), path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())

    def mend_journal(self) -> None:
        """Make the journal one that more can be written to: not compressed, without a line that was cut."""
        file, finished = self.path / schema.JOURNAL_FILE, self.path / schema.FINISHED_JOURNAL_FILE
        if finished.is_file():  # whole, whatever a crash left of the other
            if file.is_symlink():
                file.unlink()
            with naming(file), file.open("wb") as journal:  # in its place: the lock is on the file
                journal.write(unpacked(finished))
                journal.flush()
                os.fsync(journal.fileno())
            finished.unlink()
        whole = file.read_bytes() if own_file(file) else b""
        with file.open("ab") as journal:
            journal.truncate(whole.rfind(b"\n") + 1)

    def compress_journal(self) -> None:
        """Compress the journal of a finished run: its numbers, in a few percent of the room, can then travel."""
        file = self.path / schema.JOURNAL_FILE
        write_bytes(self.path / schema.FINISHED_JOURNAL_FILE, gzip.compress(file.read_bytes(), mtime=0))
        file.unlink()

    def write_json(self, name: str, document: Mapping[str, Any]) -> None:
        write_text(self.path / name, json.dumps(json_ready(document), indent=1, allow_nan=False) + "\n")

    def write_rows(self, name: str, rows: Sequence[Any], columns: Sequence[str]) -> None:
        """Write dataclass rows or mappings as CSV; columns beyond ``columns`` are kept behind them."""
        import pandas as pd

        records = [asdict(row) if is_dataclass(row) and not isinstance(row, type) else dict(row) for row in rows]
        extra = [key for key in (records[0] if records else {}) if key not in columns]
        frame = pd.DataFrame.from_records(records, columns=[*columns, *extra])
        if "layer" in frame:
            frame["layer"] = frame["layer"].astype("Int64")
        write_text(self.path / name, csv_text(frame))


def free_name(stem: str, root: Path) -> str:
    """Return a name in ``root`` that nothing has, made of a stem and the time (UTC)."""
    stem = f"{stem}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    names = (stem, *(f"{stem}-{number}" for number in range(2, 100)))
    return next(name for name in names if not (root / name).exists())


def plain_name(model: str) -> str:
    """Return the part of a run's name that stands for its model: the last part of a path, in printable letters."""
    name = "".join(letter if letter.isprintable() else "_" for letter in Path(model).name)
    return name.encode()[: LONGEST_NAME // 2].decode(errors="ignore") or "model"


@dataclass(frozen=True)
class Run:
    """A run as read back: the document and the tables that exist (None where a stage did not run)."""

    path: Path
    document: dict[str, Any]
    energy: pd.DataFrame | None
    impact: pd.DataFrame | None
    merged: pd.DataFrame | None
    trace: pd.DataFrame | None
    correlation: dict[str, Any] | None
    trials: pd.DataFrame | None = None
    benchmark: dict[str, Any] | None = None
    generation: dict[str, Any] | None = None
    alternatives: dict[str, Any] | None = None
    plan: dict[str, Any] | None = None

    @property
    def name(self) -> str:
        return str(self.document.get("name", self.path.name))

    def __repr__(self) -> str:
        """Name the run's directory: its tables would fill a terminal."""
        return f"<Run {self.path}>"

    def _repr_html_(self) -> str:
        """Show the answer where a notebook shows the run."""
        from energyscope.reporting.run.notebook import first_screen

        return first_screen(self)

    @property
    def modelled(self) -> bool:
        """Whether its joules are time x stated watts instead of measured ones."""
        return bool((self.document.get("sensor") or {}).get("modelled"))

    @property
    def scenes(self) -> tuple[dict[str, Any], ...]:
        """The phases of the inference that were profiled, as run.json describes them; none in older runs."""
        return tuple(self.document.get("scenes") or ())

    def windows(self) -> pd.DataFrame:
        """Return the windows of the run's journal, by the names that ``trace`` gives to their ticks.

        ``begin_s`` and ``end_s`` are on the clock of ``trace`` (NaN where its origin was not kept), with ``calls``
        between them; ``energy_mj`` and ``time_us`` are what the run made of them for one call (see
        `energyscope.runs.windows`). Without a journal, which example runs may lack, there are no rows.

        Raises:
            RunError: the journal cannot be read.

        """
        import pandas as pd

        rows = windows_of(read_journal(self.path))
        index = pd.Index(list(rows), name="window", dtype=object)
        table = pd.DataFrame(list(rows.values()), index=index, columns=list(COLUMNS), dtype=float)
        origin_s = self.document.get("trace_origin_s")
        table[["begin_s", "end_s"]] -= float("nan") if origin_s is None else origin_s
        return table

    def scene(self, name: str) -> Run:
        """Return the run as if only one phase of the inference (``prefill``, ``decode@1024``) were profiled.

        The settings are then of its execution alone, too.

        Raises:
            RunError: the run has no such phase.

        """
        scene = next((scene for scene in self.scenes if scene["name"] == name), None)
        if scene is None:
            known = ", ".join(scene["name"] for scene in self.scenes) or "none"
            raise RunError(f"{self.name} profiled no {name} (it has: {known})")
        document = {**self.document, **{key: scene.get(key) for key in SCENE_SECTIONS}, "scene": scene}
        keys = ["phase", "context_length"]
        if scene.get("execution"):  # older runs measured one alone, and say so in their settings
            document["settings"] = {**(self.document.get("settings") or {}), "execution": scene["execution"]}
            keys.append("execution")
        energy = self.energy
        if energy is not None:
            for key in keys:
                energy = energy[energy[key].isna() if scene[key] is None else energy[key] == scene[key]]
        return replace(self, document=document, energy=energy)


def load_run(reference: str | Path, root: Path = DEFAULT_ROOT) -> Run:
    """Read a run by path, name, or unique prefix of a name, or an example by its name.

    Raises:
        RunError: there is no such run, or it cannot be read.

    """
    path = find_to_read(reference, root)
    return Run(
        path=path,
        document=read_document(path),
        energy=read_table(path / schema.ENERGY_FILE, schema.STABLE_ENERGY_COLUMNS, schema.EnergyRow),
        impact=read_table(path / schema.IMPACT_FILE, schema.IMPACT_COLUMNS, schema.ImpactRow),
        merged=read_table(path / schema.MERGED_FILE, schema.KEY_COLUMNS, schema.EnergyRow, float | None),
        trace=read_table(path / schema.TRACE_FILE, schema.STABLE_TRACE_COLUMNS, schema.TraceRow),
        correlation=read_json(path / schema.CORRELATION_FILE, documents.CorrelationDocument),
        trials=read_table(path / schema.BENCHMARK_FILE, schema.STABLE_BENCHMARK_COLUMNS, schema.BenchmarkRow),
        benchmark=read_json(path / schema.BENCHMARK_JSON, documents.BenchmarkDocument),
        generation=read_json(path / schema.GENERATION_JSON, documents.GenerationDocument),
        alternatives=read_json(path / schema.ALTERNATIVES_JSON, documents.AlternativesDocument),
        plan=read_json(path / schema.PLAN_JSON, documents.PlanDocument),
    )


def find_run(reference: str | Path, root: Path = DEFAULT_ROOT) -> Path:
    """Return the directory that a path, a name or a unique prefix of a name means."""
    direct = Path(reference)
    if (direct / schema.RUN_FILE).is_file():
        return direct
    if direct.name == schema.REPORT_FILE and (direct.parent / schema.RUN_FILE).is_file():
        return direct.parent
    if (root / direct / schema.RUN_FILE).is_file():
        return root / direct
    near = [path for path in list_runs(root) if path.name.startswith(str(reference))]
    if len(near) == 1:
        return near[0]
    if near:
        names = ", ".join(path.name for path in near[:5])
        raise RunError(f"{str(reference)!r} could mean {len(near)} runs ({names}): type more of the name")
    raise _no_run(reference, root)


def find_to_read(reference: str | Path, root: Path = DEFAULT_ROOT) -> Path:
    """Return the directory of a run as `find_run` does, or of an example: nothing may be written there."""
    name = str(reference)
    taken = any((folder / name / schema.RUN_FILE).is_file() for folder in (Path(), root))
    return example(name) if name in EXAMPLES and not taken else find_run(reference, root)


def _no_run(reference: str | Path, root: Path) -> RunError:
    """Return why no run is meant, and what may be."""
    direct = Path(reference)
    for folder in (direct, root / direct):
        if (folder / schema.SWEEP_FILE).is_file():
            first = min((path for path in folder.iterdir() if (path / schema.RUN_FILE).is_file()), default=folder)
            return RunError(f"{folder} is a sweep: name one of the runs in it, such as {first}")
        if (folder / schema.LAWS_JSON).is_file():
            return RunError(f"{folder} holds laws, and no run: `energyscope report {folder}` draws their page")
    if direct.is_dir():
        return RunError(f"{direct} holds no {schema.RUN_FILE}: it is not a run directory")
    return RunError(f"no run {str(reference)!r} here or in {root}/: {_alike(direct.name, root)}")


def _alike(name: str, root: Path) -> str:
    """Return the names of runs and sweeps that may be meant, else where to find one."""
    folders = root.iterdir() if root.is_dir() else ()
    files = (schema.RUN_FILE, schema.SWEEP_FILE)
    known = [path.name for path in folders if any((path / file).is_file() for file in files)]
    near = difflib.get_close_matches(name, known, n=2)
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    return "`energyscope runs` lists what there is"


def list_runs(root: Path = DEFAULT_ROOT) -> list[Path]:
    """Return the run directories below ``root``, oldest first."""
    if not root.is_dir():
        return []
    runs = [path for path in root.iterdir() if (path / schema.RUN_FILE).is_file()]
    return sorted(runs, key=lambda path: (path / schema.RUN_FILE).stat().st_mtime)


def read_document(path: Path) -> dict[str, Any]:
    """Read run.json.

    Raises:
        RunError: it is missing, not JSON, or of a newer schema.

    """
    document = read_json(path / schema.RUN_FILE)
    if document is None:
        raise RunError(f"{path} holds no {schema.RUN_FILE}: it is not a run directory")
    version = document.get("schema")
    if not isinstance(version, int):
        raise RunError(f"{path / schema.RUN_FILE} states no schema version: it was not written by energyscope")
    if version > schema.SCHEMA_VERSION:
        raise RunError(
            f"{path} was written by a newer energyscope (schema {version}, this one reads up to "
            f"{schema.SCHEMA_VERSION}): upgrade energyscope-llm"
        )
    return declared(path / schema.RUN_FILE, document, documents.RunDocument)


def lacking_stages(path: Path) -> list[str]:
    """Return the stages that a run was asked for and did not finish; a page is finished after all others.

    Raises:
        RunError: the run cannot be read.

    """
    document = read_document(path)
    states = {name: (stage or {}).get("state") for name, stage in (document.get("stages") or {}).items()}
    if states.get(REPORT) == "done" and not (path / schema.REPORT_FILE).is_file():
        states[REPORT] = "running"
    asked = (document.get("settings") or {}).get("stages") or ()
    lacking = [name for name in asked if states.get(name) not in ENDED]
    return [name for name in asked if name in lacking or (name == REPORT and lacking)]


def _holds_nothing(path: Path) -> bool:
    """Return whether a run's directory is as a process leaves it that is killed before it writes its settings."""
    if not path.is_dir():
        return False
    files = list(path.iterdir())
    empty = all(file.name == schema.JOURNAL_FILE and file.stat().st_size == 0 for file in files)
    return empty and is_being_written(path) is False


def read_journal(path: Path) -> list[dict[str, Any]]:
    """Read the finished measurements, compressed or not.

    It ends before the first line that is no entry, as a crash leaves it. What was measured anew by a run that was
    resumed is left out.

    Raises:
        RunError: a compressed journal is damaged, one is not text, or an entry holds something else than it says.

    """
    file, finished = path / schema.JOURNAL_FILE, path / schema.FINISHED_JOURNAL_FILE
    try:
        if own_file(finished):  # written at once, so it is whole
            text = unpacked(finished).decode()
        elif own_file(file):
            text = file.read_text(encoding="utf-8")
        else:
            return []
    except UnicodeDecodeError as error:
        raise RunError(f"{file} cannot be read ({error}): restore it, or measure again") from error
    entries = []
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            break
        if not isinstance(entry, dict):
            break
        if flaw := document_flaw(entry, documents.of_entry(entry)):
            where = f"{finished if finished.is_file() else file} cannot be read (line {number}"
            raise RunError(f"{where}: {flaw}): restore it or measure again")
        entries.append(entry)
    return _counting(entries)


def _counting(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the entries of a journal that count: none of a stage, or a scene of it, before it was begun again."""
    counting: list[dict[str, Any]] = []
    for entry in entries:
        if schema.BEGUN_AGAIN in entry:
            counting = [before for before in counting if not _taken_back(before, entry)]
        else:
            counting.append(entry)
    return counting


def _taken_back(before: Mapping[str, Any], entry: Mapping[str, Any]) -> bool:
    """Tell whether an entry counts no more after another one says that its stage was begun again."""
    same_scene = entry.get("scene") is None or entry["scene"] == before.get("scene")
    kept = before.get("pass", -1) < entry.get(schema.KEPT_BEFORE, -1)  # a header has no pass
    return before.get("stage") == entry["stage"] and same_scene and not kept
