"""Settings in a TOML file, in the words of the options: ``sequence-length = [32, 64, 128]``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from energyscope.errors import UsageError, did_you_mean
from energyscope.settings.fields import Setting

SUFFIX = ".toml"
MODEL = "model"
_EXPECTED: dict[type, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
}


def read_settings(path: Path, declared: Iterable[Setting], subject: str = MODEL) -> dict[str, Any]:
    """Return the file's settings by the names of their fields, and its ``subject`` (or a list) where it names one.

    Raises:
        UsageError: the file cannot be read, a key is no option, or a value is not of its option's type.

    """
    import tomllib  # only here: `--help` need not read TOML

    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read ({error.strerror or error}): give a {subject} or a TOML file"
        ) from error
    except ValueError as error:  # tomllib's and the decoder's
        raise UsageError(f"{path} is no TOML file ({error})") from error
    known = {setting.option.removeprefix("--"): setting for setting in declared}
    values: dict[str, Any] = {}
    for key, value in document.items():
        if key == subject:
            if not (isinstance(value, str) or _are_words(value)):
                raise UsageError(f'{path}: {key} = {value!r}: give a name or a list, such as {key} = ["gpt2"]')
            values[subject] = value
        elif key in known:
            values[known[key].name] = _value(path, key, value, known[key])
        else:
            raise UsageError(f"{path}: no option is called {key!r}{did_you_mean(key, [subject, *known])}")
    return values


def _are_words(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _value(path: Path, key: str, value: object, setting: Setting) -> Any:
    if setting.several:
        values = value if isinstance(value, list) else [value]
        kinds = (int, str, float) if setting.number else (int, str)
        if all(type(item) in kinds for item in values):
            return setting.read(",".join(map(str, values)))
        sample = "1, 4" if setting.kind is int else '"bf16", "nf4"'
        raise UsageError(f"{path}: {key} = {value!r}: give one or a list, such as {key} = [{sample}]")
    if setting.number and type(value) is int:
        return str(value)
    types, expected = _EXPECTED.get(setting.kind, ((str,), "text in quotes"))
    if type(value) not in types:
        raise UsageError(f"{path}: {key} = {value!r}: give {expected}")
    return Path(str(value)) if setting.kind is Path else setting.read(value)
