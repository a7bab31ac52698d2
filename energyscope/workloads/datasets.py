"""Data sets that texts come from: a bundled model's, two of the Hugging Face hub, or one in a local folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from energyscope import bundled
from energyscope.adapters import Task
from energyscope.errors import DataError
from energyscope.failures import first_line
from energyscope.loading import hub
from energyscope.workloads.layouts import find_split
from energyscope.workloads.texts import Texts, file_texts, files_texts, numbered, running_text, without_blanks


@dataclass(frozen=True)
class HubSet:
    """Where a data set is on the hub, its held-out split, and its columns; no ``label`` for running text."""

    hub_id: str
    configuration: str | None
    split: str
    text: str
    label: str | None


HUB_SETS = {
    "sst2": HubSet("stanfordnlp/sst2", None, "validation", "sentence", "label"),
    "wikitext2": HubSet("Salesforce/wikitext", "wikitext-2-raw-v1", "test", "text", None),
}


def bundled_texts(name: str) -> Texts:
    """Return the held-out evaluation data of a bundled model."""
    texts = file_texts(bundled.directory(name) / "evaluation.jsonl", "text", "label")
    return replace(texts, source=f"bundled:{name}", unit="row")


def hub_texts(name: str) -> Texts:
    """Return a data set that an adapter names: ``sst2`` or ``wikitext2``.

    Raises:
        DataError: the name is unknown, `datasets` is not installed, or the set is neither cached nor reachable.

    """
    if name not in HUB_SETS:
        raise DataError(f"no data set is called {name!r} (known: {', '.join(HUB_SETS)}): give a file with --data")
    hub_set = HUB_SETS[name]
    columns = _load(name, hub_set)
    lines = columns[hub_set.text]
    labels = columns[hub_set.label] if hub_set.label else [None] * len(lines)
    return without_blanks(
        Texts(
            source=f"{name} ({hub_set.split})",
            rows=numbered(zip(lines, labels, strict=True)),
            columns=tuple(columns),
            running=None if hub_set.label else running_text(lines),
            label_column=hub_set.label or "label",
        )
    )


def _load(name: str, hub_set: HubSet) -> Mapping[str, list[Any]]:
    try:
        import datasets
    except ImportError as error:
        raise DataError(
            f"the data set {name} needs the package datasets: pip install 'energyscope-llm[datasets]', "
            "or give a file with --data"
        ) from error
    datasets.disable_progress_bars()
    try:
        with _cache_only_without_network(hub_set.hub_id):
            rows = datasets.load_dataset(hub_set.hub_id, hub_set.configuration, split=hub_set.split)
    except Exception as error:
        raise DataError(
            f"the data set {name} ({hub_set.hub_id}) is neither cached nor reachable "
            f"({first_line(error)}): give a file with --data"
        ) from error
    try:
        return {column: list(rows[column]) for column in (hub_set.text, hub_set.label) if column}
    except Exception as error:  # files in its cache are read only now
        raise DataError(
            f"the rows of the data set {name} ({hub_set.hub_id}) cannot be read ({first_line(error)}): remove it "
            "from the cache of `datasets`, or give a file with --data"
        ) from error


@contextmanager
def _cache_only_without_network(hub_id: str) -> Iterator[None]:
    """Send `datasets` to its cache where the hub does not answer one short request.

    It repeats its own requests for 23 s, and reads whether it is offline from module constants that are
    set from the environment when it is imported.
    """
    import datasets
    from huggingface_hub import HfApi, constants

    before = constants.HF_HUB_OFFLINE, datasets.config.HF_HUB_OFFLINE
    try:
        HfApi().dataset_info(hub_id, timeout=hub.CONTACT_SECONDS)
    except Exception:  # noqa: BLE001  (whatever the reason, the cache is what is left)
        constants.HF_HUB_OFFLINE = datasets.config.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE, datasets.config.HF_HUB_OFFLINE = before


# What each task is judged on, best first: as from the hub, where labels of SST-2's test split are withheld. The
# raw WikiText comes before the one with <unk>.
_SPLITS: Mapping[Task, tuple[str, str]] = {
    "classification": (HUB_SETS["sst2"].split, "test"),
    "next-token": (HUB_SETS["wikitext2"].split, "validation"),
}
_CONFIGURATIONS: Mapping[Task, tuple[str, ...]] = {
    "classification": ("sst2", "sst-2"),
    "next-token": ("wikitext-2-raw-v1", "wikitext-2-raw", "wikitext-2-v1", "wikitext-2"),
}


def folder_texts(folder: Path, task: Task, text_column: str, label_column: str) -> Texts:
    """Return the held-out split of a folder's data set: validation for classification, test for running text.

    Where there is only the other of the two, it is that one; the source says which. Rows of WikiText are lines
    of one text, and joined as those from the hub are. See `energyscope.workloads.layouts` for the layouts. Neither
    the network nor the package `datasets` is needed.

    Raises:
        UsageError: the folder holds no data set, several, or no such column.
        DataError: a file is missing, empty or broken.

    """
    split = find_split(folder, _SPLITS.get(task, ("validation", "test")), _CONFIGURATIONS.get(task, ()))
    source = f"{folder} ({split.label})" if split.label else str(folder)
    path = f"{folder.name}/{split.files[0].relative_to(folder)}"
    return files_texts(split.files, source, text_column, label_column, lines="wikitext" in path.lower())
