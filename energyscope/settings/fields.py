"""Declaring a setting once: a field of a record carries its default, option, help, choices and range.

The command line, TOML files and the Python API derive from these fields, and so do the checks of single values;
what concerns several settings together is checked by the record itself.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from numbers import Integral, Real
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from energyscope.errors import UsageError, did_you_mean

PANELS = ("Most used", "What to measure", "How to measure", "Quality", "Data", "Output")
_KEY = "setting"
TAKES: Mapping[type, tuple[tuple[type, ...], str]] = {  # a run keeps them as they are given, and is read by kind
    bool: ((bool,), "True or False"), int: ((Integral,), "a whole number"), float: ((Real,), "a number"),
    str: ((str,), "a text"), Path: ((str, Path), "a path"),
}  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """One setting: the field ``name`` of a record, and how it is given.

    ``kind`` is the type of the value, or of each where there are ``several``; ``optional`` values may be None.
    A value is at ``least`` one limit, or ``above`` one, and at ``most`` another. Options may be in another unit
    than the field: ``per_unit`` is what one of theirs is in the field's.
    """

    name: str
    default: Any
    kind: type
    several: bool
    optional: bool
    options: tuple[str, ...]
    help: str
    panel: str
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    least: float | None = None
    above: float | None = None
    most: float = math.inf
    unit: str = ""
    per_unit: float = 1.0
    lower: bool = False  # words in any case
    unset: str = ""  # what is taken where the default is none
    between: str = ","  # the words of a list: a regular expression that fits a comma
    number: bool = False  # text that Python and TOML may give as a number

    @property
    def option(self) -> str:
        """The option's name, such as ``--batch-size``."""
        return self.options[0]

    @property
    def key(self) -> str:
        """The option's name as Python writes it, such as ``batch_size``."""
        return self.option.removeprefix("--").replace("-", "_")

    def read(self, given: Any) -> Any:
        """Return the value of what stands on the command line: lists are words with commas between them.

        Raises:
            UsageError: a list that should hold numbers does not.

        """
        if self.several and isinstance(given, str):
            text = given.lower() if self.lower else given
            words = tuple(dict.fromkeys(word.strip() for word in re.split(self.between, text) if word.strip()))
            if self.kind is not int:
                return words
            try:
                return tuple(dict.fromkeys(map(int, words)))
            except ValueError as error:
                message = f"{self.option} {given!r} is no list of whole numbers, such as 1,8,32"
                raise UsageError(message) from error
        if self.per_unit != 1.0 and given is not None:
            return given * self.per_unit
        return given

    def written(self, value: Any) -> Any:
        """Return a value as the command line takes it."""
        if self.several:
            return ",".join(map(str, value))
        return value if value is None or self.per_unit == 1.0 else value / self.per_unit

    def check(self, value: Any) -> None:
        """Refuse a value that is of another kind, no choice or out of range.

        Raises:
            UsageError: with what to give instead.

        """
        if self.several and not isinstance(value, tuple | list):
            raise UsageError(f"{self.option} takes a list, not {value!r}")
        for item in value if self.several else (value,):
            if item is not None or self.several or not self.optional:
                self._check_kind(item)
                self._check_one(item)

    def _check_kind(self, value: Any) -> None:
        kinds, words = TAKES[self.kind]
        if not isinstance(value, kinds) or (isinstance(value, bool) and self.kind is not bool):
            raise UsageError(f"{self.option} takes {words}, not {value!r}")

    def _check_one(self, value: Any) -> None:
        if self.choices and value not in self.choices:
            near = did_you_mean(str(value), list(self.choices))
            listed = "" if "known" in near else f" (known: {', '.join(self.choices)})"
            raise UsageError(f"{self.option} {value!r} is not known{near}{listed}")
        if self.least is not None and value < self.least:
            raise UsageError(f"{self.option} must be {self.least:g} or more, not {value}")
        if self.above is not None and not (self.above < value <= self.most and math.isfinite(value)):
            bound = "" if math.isinf(self.most) else f" and at most {self.most / self.per_unit:,g}"
            limits = f"{self.above:g}{bound} {self.unit}".rstrip()
            raise UsageError(f"{self.option} must be above {limits}, not {value / self.per_unit:g}")


def setting(
    default: Any,
    help: str,  # noqa: A002 - what everybody calls it
    panel: str,
    *,
    option: str | tuple[str, ...] = (),
    **limits: Any,
) -> Any:
    """Declare a field of a settings record; ``limits`` are the further fields of `Setting`.

    ``option`` is its name on the command line, by default the field's own; choices are those of its ``Literal``
    type where it has one.
    """
    options = (option,) if isinstance(option, str) else option
    metadata = {_KEY: {"help": help, "panel": panel, "options": options, **limits}}
    return dataclasses.field(default=default, metadata=metadata)


def settings_of(record: type) -> Mapping[str, Setting]:
    """Return the settings that a record declares, by the names of its fields."""
    types = get_type_hints(record)
    return {
        field.name: _declared(field.name, field.default, types[field.name], field.metadata[_KEY])
        for field in fields(record)
        if _KEY in field.metadata
    }


def read_options(
    declared: Mapping[str, Setting], options: Mapping[str, Any], others: Collection[str] = ()
) -> dict[str, Any]:
    """Return values by the names of fields, of what Python code gives.

    A name is that of a field, or of its option with underscores (``window`` for ``--window``), then in the
    option's unit. Numbers and paths may be text. Lists may be text with commas, as on the command line, one value,
    or None for the default. ``others`` are known as they are.

    Raises:
        UsageError: there is no such option, or what should be a number is none.

    """
    by_option = {setting.key: setting for setting in declared.values() if setting.key not in declared}
    values: dict[str, Any] = {}
    for name, given in options.items():
        setting = declared.get(name) or by_option.get(name)
        if setting is None and name not in others:
            known = [*declared, *by_option, *others]
            raise UsageError(f"no option is called {name!r}{did_you_mean(name, known)}")
        values[setting.name if setting else name] = _read_option(setting, name, given) if setting else given
    return values


def values_of(declared: Collection[Setting], options: Mapping[str, Any]) -> tuple[dict[str, Any], Collection[str]]:
    """Return the values of settings, by the names of fields, with their defaults; and the names that were given.

    Raises:
        UsageError: as `read_options`.

    """
    given = read_options({setting.name: setting for setting in declared}, options)
    return {**{setting.name: setting.default for setting in declared}, **given}, given


def _read_option(setting: Setting, name: str, given: Any) -> Any:
    if setting.several:
        if given is None:
            return setting.default
        if isinstance(given, str):
            return setting.read(given)
        items = tuple(given) if isinstance(given, Iterable) else (given,)
        return tuple(_as_text(item) for item in items) if setting.kind is str else items
    if setting.kind is str and isinstance(given, Path):
        given = str(given)
    if setting.number and type(given) is int:
        given = str(given)
    if isinstance(given, str) and setting.kind in {int, float, Path}:
        try:
            given = setting.kind(given)
        except ValueError as error:
            raise UsageError(f"{setting.option} {given!r} is no number") from error
    return given if name == setting.name else setting.read(given)


def _as_text(item: Any) -> Any:
    """Return a number or a path in a list of texts as the command line gives it, such as the id of a GPU."""
    return str(item) if isinstance(item, Real | Path) and not isinstance(item, bool) else item


def select_settings(record: type, *names: str, **changes: Mapping[str, Any]) -> tuple[Setting, ...]:
    """Return some of a record's settings, in this order; all of them without names.

    ``changes`` are other fields of settings by their names, such as ``trials={"default": 5}``.
    """
    declared = settings_of(record)
    return tuple(replace(declared[name], **changes.get(name, {})) for name in names or declared)


def as_options(record: Any, *, leave: Collection[str] = ()) -> list[str]:
    """Return the words of a command line that make a record, but for fields to ``leave``: what is no default."""
    words: list[str] = []
    for name, declared in settings_of(type(record)).items():
        value = getattr(record, name)
        if name in leave or value == declared.default:
            continue
        if declared.kind is bool:
            words.append(declared.option if value else f"--no-{declared.option.removeprefix('--')}")
        else:
            words.append(f"{declared.option}={declared.written(value)}")
    return words


def check_each(record: Any) -> None:
    """Refuse values of single settings that cannot be.

    Raises:
        UsageError: with what to give instead.

    """
    for name, declared in settings_of(type(record)).items():
        value = getattr(record, name)
        if declared.several and declared.default and not value:
            raise UsageError(f"{declared.option} names nothing: leave it out, or name one")
        declared.check(value)


def _declared(name: str, default: Any, hint: Any, declared: Mapping[str, Any]) -> Setting:
    several, optional, kind, choices = _type_of(hint)
    limits = {"choices": choices, **declared}
    limits["options"] = limits["options"] or (f"--{name.replace('_', '-')}",)
    if several:
        limits.setdefault("metavar", "N[,N...]" if kind is int else "NAME[,NAME...]")
    return Setting(name=name, default=default, kind=kind, several=several, optional=optional, **limits)


def _type_of(hint: Any) -> tuple[bool, bool, type, tuple[str, ...]]:
    """Return whether a type is of several values and may be None, the type of one, and the choices it lists."""
    origin, inside = get_origin(hint), get_args(hint)
    if origin in {Union, UnionType}:
        _, _, kind, choices = _type_of(next(member for member in inside if member is not type(None)))
        return False, True, kind, choices
    if origin is tuple:
        _, _, kind, choices = _type_of(inside[0])
        return True, False, kind, choices
    if origin is Literal:
        return False, False, str, inside
    return False, False, Path if hint is Path else hint, ()
