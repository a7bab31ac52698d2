"""The files of a model on the Hugging Face hub, as a local folder: from the cache, else downloaded.

huggingface_hub repeats a file request for 23 s where there is no network, so one small request with a short limit
goes first and says at once what is wrong.
"""

from __future__ import annotations

import json
from pathlib import Path

from energyscope.errors import ModelError
from energyscope.failures import first_line
from energyscope.loading.sources import model_names

CONTACT_SECONDS = 8.0
_CONFIGURATION = ("*.json", "*.txt", "*.model", "*.jinja")
# Subfolders hold other formats of the same weights; consolidated and fp16 files are second copies.
_IGNORED = ("*/*", "consolidated*", "*.fp16.*", "*.fp32.*", "*.bf16.*")


def model_folder(hub_id: str, *, weights: bool, code: bool = False, pickle: bool = False) -> Path:
    """Return a folder with a hub model's configuration and tokenizer, and its weights if asked for.

    ``code`` brings the repository's Python files, ``pickle`` its ``.bin`` weights.

    Raises:
        ModelError: not cached and not reachable, unknown, or gated without a token that opens it.

    """
    optional = {"*.safetensors": weights, "*.py": code, "pytorch_model*.bin": weights and pickle}
    patterns = [*_CONFIGURATION, *(pattern for pattern, is_needed in optional.items() if is_needed)]
    cached = _cached(hub_id, patterns)
    if cached is None or not (cached / "config.json").is_file() or (weights and missing_shards(cached)):
        return _download(hub_id, patterns)  # an interrupted download leaves a part of it in the cache
    return cached


def _cached(hub_id: str, patterns: list[str]) -> Path | None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(hub_id, allow_patterns=patterns, local_files_only=True))
    except LocalEntryNotFoundError:
        return None
    except HFValidationError as error:
        raise ModelError(f"{hub_id!r} is not a Hugging Face id (owner/name): {first_line(error)}") from error


def missing_shards(folder: Path) -> list[str]:
    """Return the weight files that a folder should hold and does not."""
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        has_weights = any(folder.glob("*.safetensors")) or any(folder.glob("pytorch_model*.bin"))
        return [] if has_weights else ["model.safetensors"]
    try:
        shards = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise ModelError(f"{index} cannot be read ({first_line(error)}): fetch it again") from error
    return sorted(shard for shard in shards if not (folder / shard).is_file())


def _download(hub_id: str, patterns: list[str]) -> Path:
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub import errors as hub

    try:
        HfApi().model_info(hub_id, timeout=CONTACT_SECONDS)
        return Path(snapshot_download(hub_id, allow_patterns=patterns, ignore_patterns=list(_IGNORED)))
    except hub.GatedRepoError as error:
        raise ModelError(
            f"{hub_id} is gated: accept its terms on its page and run `hf auth login`, or give {_ungated(hub_id)} "
            "with --weights random, which needs no download"
        ) from error
    except hub.RepositoryNotFoundError as error:
        raise ModelError(f"the hub has no model {hub_id!r}, or it is private (then: `hf auth login`)") from error
    except hub.OfflineModeIsEnabled as error:
        raise _not_here(hub_id, "HF_HUB_OFFLINE is set") from error
    except (hub.HfHubHTTPError, OSError, RuntimeError) as error:
        raise _not_here(hub_id, f"the hub answered: {first_line(error)}") from error
    except Exception as error:  # the HTTP library's own classes differ between hub versions
        raise _not_here(hub_id, f"the hub cannot be reached: {first_line(error)}") from error


def _ungated(hub_id: str) -> str:
    """Return the short name of a hub model whose shape ships with an adapter: it needs no gated configuration."""
    names = (name for name, source in model_names().items() if source.source == hub_id)
    return next(names, "a short name (`energyscope models`)")


def _not_here(hub_id: str, why: str) -> ModelError:
    return ModelError(
        f"{hub_id} is not in the local cache and {why}. Give a local folder, a bundled model "
        "(`energyscope models`), or --weights random with a short name"
    )
