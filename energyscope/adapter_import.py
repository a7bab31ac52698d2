"""Importing an adapter's module: where it is, and what its import does, in a fresh process with a time limit.

place = place_of("my_package.module:adapter")     # or a name that is installed, or a Python file
import_report(place).effects                      # what it printed, loaded, changed or left running
adapter = load(place)
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from energyscope.adapter_registry import installed
from energyscope.adapters import Adapter
from energyscope.errors import UsageError, did_you_mean
from energyscope.failures import first_line

IMPORT_LIMIT_S = 30.0
HEAVY = ("torch", "transformers")  # an adapter is plain data, and listing adapters must stay fast
ATTRIBUTE = "adapter"  # of a file
_MARK = "energyscope-adapter:"  # before the answer: an import may print
_CODE = "import sys; from energyscope.adapter_import import answer; answer(*sys.argv[1:])"


@dataclass(frozen=True)
class Place:
    """Where an adapter is: a module's dotted name or a Python file, and the attribute; ``name`` if installed."""

    module: str
    attribute: str
    name: str | None = None

    @property
    def file(self) -> Path | None:
        """The file, None of a module that is found by name."""
        return Path(self.module) if self.module.endswith(".py") else None

    def __str__(self) -> str:
        return self.module if self.file else f"{self.module}:{self.attribute}"


@dataclass(frozen=True)
class ImportReport:
    """What importing a module did: ``seconds``, and its ``effects``, a sentence each; or its ``problem``."""

    seconds: float | None = None
    effects: tuple[str, ...] = ()
    problem: str | None = None


def place_of(reference: str) -> Place:
    """Return where an adapter is: an installed NAME, FILE.py (whose value ``adapter`` it is) or PACKAGE:ATTRIBUTE.

    Raises:
        UsageError: there is no such name or file, or two packages use the name.

    """
    if entry := installed().get(reference):
        if entry.rivals and not entry.own:
            rivals = " and ".join([entry.origin, *entry.rivals])
            raise UsageError(f"the adapter name {reference!r} is used by {rivals}: uninstall all but one")
        module, _, attribute = entry.point.value.partition(":")
        return Place(module, attribute, reference)
    if reference.endswith(".py"):
        if not Path(reference).is_file():
            raise UsageError(f"there is no file {reference}")
        return Place(str(Path(reference).resolve()), ATTRIBUTE)
    module, colon, attribute = reference.partition(":")
    if colon and module and attribute:
        return Place(module, attribute)
    near = did_you_mean(reference, installed())
    raise UsageError(f"no adapter is called {reference!r}, nor is it FILE.py or PACKAGE:ATTRIBUTE{near}")


def load(place: Place) -> Adapter:
    """Import an adapter in this process. What its import prints goes to stderr.

    Raises:
        UsageError: it cannot be imported, or is no adapter.

    """
    try:
        with contextlib.redirect_stdout(sys.stderr):
            found = _imported(place)
    except (Exception, SystemExit) as error:
        raise UsageError(f"{place} cannot be imported: {_said(error)}") from error
    if not isinstance(found, Adapter):
        raise UsageError(f"{place}: {place.attribute!r} is not an energyscope.adapters.Adapter")
    return found


def import_report(place: Place, limit_s: float = IMPORT_LIMIT_S) -> ImportReport:
    """Import an adapter's module in a fresh process and return what that did."""
    reply = reply_of(_CODE, place.module, place.attribute, limit_s=limit_s, folders=[_folder(place)])
    if reply.problem:
        return ImportReport(problem=reply.problem)
    report = ImportReport(**{**reply.document, "effects": tuple(reply.document["effects"])})
    printed = [line for line in reply.printed.splitlines() if line.strip()]
    if not printed or report.problem:
        return report
    return ImportReport(report.seconds, (*report.effects, f"it prints {first_line(printed[0])!r}"))


@dataclass(frozen=True)
class Reply:
    """What a process answered: a JSON ``document``, what was ``printed`` beside it, or the ``problem``."""

    document: Mapping[str, Any]
    printed: str = ""
    problem: str | None = None


def reply_of(code: str, *words: str, limit_s: float, folders: Sequence[str] = ()) -> Reply:
    """Run Python code in a fresh process; it answers by `say`, and has so many seconds.

    It finds the modules that this process finds, and before them those in ``folders``.
    """
    path = os.pathsep.join([*folders, *(folder or str(Path.cwd()) for folder in sys.path)])
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", code, *words], capture_output=True, text=True, errors="replace",
            stdin=subprocess.DEVNULL, timeout=limit_s, check=False, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Reply({}, problem=f"its import takes more than {limit_s:.0f} s")
    before, mark, answered = done.stdout.rpartition(f"\n{_MARK}")
    if not mark:
        return Reply({}, problem=f"its import ended the process (exit code {done.returncode})")
    return Reply(json.loads(answered), before + done.stderr)


def say(document: Mapping[str, Any]) -> None:
    """Answer the process that started this one, by `reply_of`."""
    sys.stdout.write(f"\n{_MARK}{json.dumps(document)}\n")
    sys.stdout.flush()


def answer(module: str, attribute: str) -> None:
    """Import an adapter's module in this process, tell what that did, and end without waiting for threads."""
    place, state = Place(module, attribute), _State()
    begin = time.perf_counter()
    try:
        found = _imported(place)
    except (Exception, SystemExit) as error:  # noqa: BLE001  (another package's import may raise anything)
        report = ImportReport(problem=_said(error))
    else:
        seconds = time.perf_counter() - begin
        is_one = isinstance(found, Adapter)
        problem = None if is_one else f"{attribute!r} is not an energyscope.adapters.Adapter"
        report = ImportReport(seconds, tuple(state.changes()), problem)
    say(asdict(report))
    sys.stderr.flush()
    os._exit(0)


class _State:
    """What an import should leave as it is."""

    def __init__(self) -> None:
        self.modules = {name for name in HEAVY if name in sys.modules}
        self.folder, self.environment = Path.cwd(), dict(os.environ)
        self.threads = {thread.ident for thread in threading.enumerate()}

    def changes(self) -> Iterator[str]:
        for name in HEAVY:
            if name in sys.modules and name not in self.modules:
                yield f"it imports {name}"
        if Path.cwd() != self.folder:
            yield f"it changes the working folder to {Path.cwd()}"
        names = {*self.environment, *os.environ}
        for name in sorted(name for name in names if self.environment.get(name) != os.environ.get(name)):
            yield f"it changes the environment variable {name}"
        for thread in threading.enumerate():
            if thread.ident not in self.threads:
                yield f"it leaves the thread {thread.name!r} running"


def _imported(place: Place) -> Any:
    with _searching(_folder(place)):
        if place.file is None:
            module = importlib.import_module(place.module)
        else:
            spec = importlib.util.spec_from_file_location(place.file.stem, place.file)
            if spec is None or spec.loader is None:
                raise ImportError(f"{place.file} is no Python file")
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        get: Callable[[Any, str], Any] = getattr
        return functools.reduce(get, place.attribute.split("."), module)


def _folder(place: Place) -> str:
    """Return the folder that is searched first: a file's own, else the working folder."""
    return str(place.file.parent if place.file else Path.cwd())


@contextlib.contextmanager
def _searching(folder: str) -> Iterator[None]:
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # the import may have taken it out
            sys.path.remove(folder)


def _said(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"it exits the process ({error})"
    return f"{type(error).__name__}: {first_line(error)}"
