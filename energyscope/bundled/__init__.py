"""Three small models of real families that ship with the package, so that everything runs offline.

They were trained by us on texts of our own grammars (``tools/bundled`` in the repository). Each has a
directory in the Hugging Face layout: weights as safetensors, a tokenizer, a model card (``README.md``), the
measured numbers (``card.json``) and held-out data (``evaluation.jsonl``: ``{"text": ...}`` a line, for
``tiny-distilbert`` with a ``"label"`` of 0 or 1). The next-token models also have ``choices.jsonl``: words of
the held-out texts that the words before them determine. Nothing here imports torch.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from energyscope.errors import ModelError, UsageError, did_you_mean

MODELS: tuple[str, ...] = ("tiny-distilbert", "tiny-gpt2", "tiny-llama")


def directory(name: str) -> Path:
    """Return the directory of a bundled model, in the Hugging Face layout.

    Raises:
        UsageError: no bundled model has this name.
        ModelError: the installation lacks its files.

    """
    if name not in MODELS:
        raise UsageError(f"no bundled model is called {name!r}{did_you_mean(name, list(MODELS))}")
    path = Path(__file__).parent / name
    if not (path / "model.safetensors").is_file():
        raise ModelError(f"the files of the bundled model {name} are missing ({path}): reinstall energyscope-llm")
    return path


def describe(name: str) -> dict[str, Any]:
    """Return what is known of a bundled model: its shape, how it was trained, and the numbers measured then.

    Raises:
        UsageError: no bundled model has this name.
        ModelError: the installation lacks its files, or they are damaged.

    """
    path = directory(name) / "card.json"
    try:
        card: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read ({error}): reinstall energyscope-llm") from error
    return card
