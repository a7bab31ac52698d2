"""Which files of a folder are a data set's split: the layouts in which SST-2, WikiText-2 and others are kept.

A file tells its split by its name or by its folder's, and its configuration by the folders above:

    data/validation-00000-of-00001.parquet              a repository of the hub, or its cache (snapshots/<hash>/)
    wikitext-2-raw-v1/test-00000-of-00001.parquet       one of several configurations
    validation/data-00000-of-00001.arrow                `datasets.save_to_disk`
    SST-2/dev.tsv                                       the GLUE archive
    wikitext-2-raw/wiki.test.raw                        the archive of WikiText-2
    validation.jsonl                                    one file for each split
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from energyscope.errors import DataError, UsageError
from energyscope.failures import first_line
from energyscope.grouping import group_by

ROWS = (".parquet", ".arrow", ".jsonl", ".ndjson", ".csv", ".tsv")  # a file of these needs no split in its name
ENDINGS = (*ROWS, ".json", ".txt", ".raw", ".tokens")
MOST_ENTRIES = 50_000
MOST_FOLDERS = 6  # below the given one: the hub's cache nests deepest

_VALIDATION = ("validation", "valid", "val", "dev", "eval", "evaluation")
_SPLITS = {"train": "train", "test": "test", **dict.fromkeys(_VALIDATION, "validation")}
_BESIDE = ("dataset_dict.json", "dataset_info.json", "dataset_infos.json", "state.json")
_UNNAMED_FOLDERS = re.compile(r"data|default|snapshots|\d+\.\d+\.\d+|[0-9a-f]{16,}", re.IGNORECASE)
_SHARD = re.compile(r"(?:^|-)(\d{4,5})(?:-of-(\d{5}))?$")


@dataclass(frozen=True)
class Split:
    """The files of one split, in order.

    ``configuration`` is made of the folders above, "" where there are none; ``name`` is None where none is named.
    """

    configuration: str
    name: str | None
    files: tuple[Path, ...]

    @property
    def label(self) -> str:
        """The words that tell it from others of the same folder, for a source's name."""
        return ", ".join(word for word in (self.configuration, self.name) if word)


@dataclass(frozen=True)
class DataFile:
    """A file of data, with the split and the configuration that its path names."""

    path: Path
    split: str | None
    configuration: tuple[str, ...]


def find_split(folder: Path, splits: Sequence[str], configurations: Sequence[str]) -> Split:
    """Return the first of ``splits`` that a folder holds, of the first of ``configurations`` if there are several.

    Raises:
        UsageError: the folder holds no data set, several that nothing tells apart, or none of the splits.
        DataError: a file of the split is missing.

    """
    files = _one_configuration(folder, data_files(folder), configurations)
    configuration = "/".join(files[0].configuration)
    by_split = group_by(files, lambda file: file.split)
    for split in (None, *splits):
        if split in by_split:
            return Split(configuration, split, _all_parts(folder, [file.path for file in by_split[split]]))
    held = ", ".join(sorted(map(str, by_split)))
    raise UsageError(
        f"{folder} holds no held-out split ({' or '.join(splits)}; it holds: {held}): "
        "name the file to judge on with --data"
    )


def data_files(folder: Path) -> list[DataFile]:
    """Return the files that are named for a split; where there are none, those that need no such name.

    Raises:
        UsageError: the folder holds no data, with what was looked for.

    """
    files = [_placed(folder, path) for path in _walked(folder)]
    named = [file for file in files if file.split is not None]
    if data := named or [file for file in files if file.path.suffix.lower() in ROWS]:
        return data
    raise UsageError(
        f"{folder} holds no data set (looked for validation or test files as {', '.join(ROWS)} or .txt, for "
        "wiki.test.raw, and for a set of `energyscope prepare`): give --data a JSONL, CSV or text file, or the "
        "folder of a data set"
    )


def _walked(folder: Path) -> Iterator[Path]:
    entries = 0
    for place, folders, files in os.walk(folder, onerror=_refused):
        here = Path(place)
        entries += len(folders) + len(files)
        if entries > MOST_ENTRIES:
            raise UsageError(f"{folder} holds too much to be one data set: give --data the data set's own folder")
        folders[:] = sorted(_searched(here, folders))
        if len(here.relative_to(folder).parts) >= MOST_FOLDERS:
            folders.clear()
        for name in sorted(files):
            path = here / name
            if path.suffix.lower() in ENDINGS and not name.startswith((".", "cache-")) and name not in _BESIDE:
                yield path


def _refused(error: OSError) -> None:
    raise DataError(f"{error.filename} cannot be read ({error.strerror}): check its permissions") from error


def _searched(place: Path, folders: list[str]) -> list[str]:
    """Leave out hidden folders and models; of a cache's snapshots, take the one that is in use."""
    names = [name for name in folders if not name.startswith((".", "__", "models--"))]
    if place.name != "snapshots" or len(names) < 2:
        return names
    head = place.parent / "refs" / "main"
    used = head.read_text(encoding="utf-8").strip() if head.is_file() else None
    return [used] if used in names else [max(names, key=lambda name: (place / name).stat().st_mtime)]


def _placed(folder: Path, path: Path) -> DataFile:
    """Read a file's split and configuration off its path."""
    parts = list(path.relative_to(folder).parts[:-1])
    split = _split_of(path.stem) or _saved_split(path)
    if split is None and parts:
        split = _split_of(parts[-1].removeprefix("partial-"))
    if parts and _SPLITS.get(parts[-1].lower().removeprefix("partial-")):
        parts.pop()
    names = [re.split("--|___", part)[-1] for part in parts if not _UNNAMED_FOLDERS.fullmatch(part)]
    return DataFile(path, split, tuple(names))


def _split_of(name: str) -> str | None:
    """Return the one split that a name's words say, else None."""
    splits = {_SPLITS[word] for word in re.split(r"[^a-z]+", name.lower()) if word in _SPLITS}
    return splits.pop() if len(splits) == 1 else None


def _saved_split(path: Path) -> str | None:
    """Return the split that `datasets.save_to_disk` wrote down beside a file."""
    state = path.parent / "state.json"
    if path.suffix != ".arrow" or not state.is_file():
        return None
    try:
        document = json.loads(state.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{state} cannot be read ({first_line(error)}): copy it again") from error
    split = document.get("_split") if isinstance(document, dict) else None
    return _split_of(split) if isinstance(split, str) else None


def _one_configuration(folder: Path, files: list[DataFile], preferred: Sequence[str]) -> list[DataFile]:
    def rank(configuration: tuple[str, ...]) -> int:
        names = [part.lower() for part in configuration]
        return min((place for place, name in enumerate(preferred) if name in names), default=len(preferred))

    groups = group_by(files, lambda file: file.configuration)
    best = next(iter(group_by(sorted(groups, key=rank), rank).values()))
    if len(best) == 1:
        return groups[best[0]]
    if () in groups:
        return groups[()]
    held = ", ".join(sorted("/".join(key) for key in groups)[:8])
    raise UsageError(f"{folder} holds several data sets ({held}): give --data the folder of one of them")


def _all_parts(folder: Path, files: list[Path]) -> tuple[Path, ...]:
    """Return a split's files, which are one or all of its numbered parts."""
    endings = {path.suffix.lower() for path in files}
    if endings == {".raw", ".tokens"}:
        files = [path for path in files if path.suffix.lower() == ".raw"]  # the text as it was written
    if len(files) == 1 and not _parts(files[0])[1]:
        return tuple(files)
    numbers = [_parts(path) for path in files]
    some = ", ".join(path.name for path in files[:4])
    is_one_series = len(endings) == 1 and len({path.parent for path in files}) == 1
    if not is_one_series or any(number is None for number, _ in numbers):
        raise UsageError(f"{folder} holds several files of one split ({some}): name one of them with --data")
    total = max(total or 0 for _, total in numbers)
    if total and len(files) != total:
        raise DataError(f"{folder} holds {len(files)} of {total} files of a split ({some}): copy the others too")
    return tuple(files)


def _parts(path: Path) -> tuple[int | None, int | None]:
    """Return a file's number among the parts of its split, and how many parts there are, as its name says."""
    match = _SHARD.search(path.stem)
    if match is None:
        return None, None
    return int(match[1]), int(match[2]) if match[2] else None
