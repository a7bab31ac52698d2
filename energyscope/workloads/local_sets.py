"""A data set in a local folder: a copy of SST-2 or WikiText-2 as it is found on disks, or one's own.

Neither the network nor the package `datasets` is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from energyscope.adapters import Task
from energyscope.workloads.datasets import HUB_SETS
from energyscope.workloads.layouts import Split, find_split
from energyscope.workloads.texts import Texts, files_texts


@dataclass(frozen=True)
class _Wanted:
    """What a task is judged on: its splits, best first, and which configuration of several."""

    splits: tuple[str, str]
    configurations: tuple[str, ...]


# As from the hub; labels of SST-2's test split are withheld. The raw WikiText comes before the one with <unk>.
_WANTED: Mapping[Task, _Wanted] = {
    "classification": _Wanted((HUB_SETS["sst2"].split, "test"), ("sst2", "sst-2")),
    "next-token": _Wanted(
        (HUB_SETS["wikitext2"].split, "validation"),
        ("wikitext-2-raw-v1", "wikitext-2-raw", "wikitext-2-v1", "wikitext-2"),
    ),
}


def folder_texts(folder: Path, task: Task, text_column: str, label_column: str) -> Texts:
    """Return the held-out split of a folder's data set: validation for classification, test for running text.

    Where there is only the other of the two, it is that one; the source says which. Rows of WikiText are lines
    of one text, and joined as those from the hub are. See `energyscope.workloads.layouts` for the layouts.

    Raises:
        UsageError: the folder holds no data set, several, or no such column.
        DataError: a file is missing, empty or broken.

    """
    wanted = _WANTED[task]
    split = find_split(folder, wanted.splits, wanted.configurations)
    source = f"{folder} ({split.label})" if split.label else str(folder)
    return files_texts(split.files, source, text_column, label_column, lines=_is_wikitext(folder, split))


def _is_wikitext(folder: Path, split: Split) -> bool:
    below = split.files[0].relative_to(folder).parts
    return any("wikitext" in part.lower() for part in (folder.name, *below))
