"""A sweep's settings as a TOML file, in the words of the options: ``sequence-length = [32, 64, 128]``."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from energyscope.adapters import did_you_mean
from energyscope.errors import UsageError

SUFFIX = ".toml"
LISTS = ("sequence_length", "context_length", "batch_size", "precision", "gpu_id")


def read_settings(path: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the file's settings by the options' names, lists as the words with commas of the command line.

    ``options`` are the options by name, each with a value of its type; one that is None takes text.

    Raises:
        UsageError: the file cannot be read, a key is no option, or a value is not of its option's type.

    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read ({error.strerror or error}): give a model or a TOML file"
        ) from error
    except ValueError as error:  # tomllib's and the decoder's
        raise UsageError(f"{path} is no TOML file ({error})") from error
    known = {name.replace("_", "-"): name for name in options}
    for key in document:
        if key not in known:
            raise UsageError(f"{path}: no option is called {key!r}{did_you_mean(key, list(known))}")
    return {known[key]: _value(path, key, value, options[known[key]]) for key, value in document.items()}


def _value(path: Path, key: str, value: object, like: object) -> Any:
    if key.replace("-", "_") in LISTS:
        several = value if isinstance(value, list) else [value]
        if all(isinstance(one, int | str) and not isinstance(one, bool) for one in several):
            return ",".join(str(one) for one in several)
        raise UsageError(f"{path}: {key} = {value!r}: give one or a list, such as {key} = [{_sample(key)}]")
    if isinstance(like, bool):
        right, wanted = isinstance(value, bool), "true or false"
    elif isinstance(like, int):
        right, wanted = isinstance(value, int) and not isinstance(value, bool), "a whole number"
    elif isinstance(like, float):
        right, wanted = isinstance(value, int | float) and not isinstance(value, bool), "a number"
    else:
        right, wanted = isinstance(value, str), "text in quotes"
    if not right:
        raise UsageError(f"{path}: {key} = {value!r}: give {wanted}")
    return Path(str(value)) if isinstance(like, Path) else value


def _sample(key: str) -> str:
    return '"bf16", "nf4"' if key == "precision" else "1, 4"


def refuse_other_lengths(phase: str, given: Collection[str]) -> None:
    """Refuse lengths of the phase that is not swept, which would be passed over in silence.

    Raises:
        UsageError: with the option that is meant.

    """
    own, other = ("--context-length", "--sequence-length")[:: 1 if phase == "decode" else -1]
    if other.strip("-").replace("-", "_") in given and own.strip("-").replace("-", "_") not in given:
        raise UsageError(f"{other} says nothing of --phase {phase}: give {own}")
