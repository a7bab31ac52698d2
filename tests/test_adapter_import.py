"""Importing an adapter's module: where it is, and what its import does, seen from a fresh process."""

from __future__ import annotations

from pathlib import Path

import pytest

from energyscope.adapter_import import Place, import_report, load, place_of
from energyscope.adapters import Adapter
from energyscope.errors import UsageError

GOOD = """from energyscope.adapters import Adapter, Part
adapter = Adapter("good", ("good",), "next-token", "layers", (Part("layer", "layers.{layer}", "coarse"),))
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with a good adapter, in the working folder."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "good_family.py"
    path.write_text(GOOD)
    return path


def test_an_installed_name_stands_for_its_entry_point() -> None:
    """GIVEN a name THEN its module and attribute are those of the entry point."""
    assert place_of("gpt2") == Place("energyscope_adapters.gpt2", "adapter", "gpt2")


@pytest.mark.parametrize("reference", ["good_family.py", "good_family:adapter"])
def test_a_file_and_a_module_of_the_working_folder(file: Path, reference: str) -> None:
    """GIVEN either way to write it THEN the adapter is loaded, and its import had no effect."""
    place = place_of(reference)
    report = import_report(place)
    assert (report.problem, report.effects) == (None, ())
    assert 0 < (report.seconds or 0) < 30
    assert load(place).name == "good"
    assert isinstance(load(place), Adapter)


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("gtp2", "no adapter is called 'gtp2', nor is it FILE.py or PACKAGE:ATTRIBUTE: did you mean 'gpt2'?"),
        ("missing.py", "there is no file missing.py"),
        (":adapter", "no adapter is called ':adapter'"),
    ],
)
def test_what_is_no_place(reference: str, words: str) -> None:
    """GIVEN neither a name, a file nor a module THEN one line says what can be given."""
    with pytest.raises(UsageError) as caught:
        place_of(reference)
    assert str(caught.value).startswith(words)


@pytest.mark.parametrize(
    ("code", "effect"),
    [
        ("print('hello')", "it prints 'hello'"),
        ("import sys; print('careful', file=sys.stderr)", "it prints 'careful'"),
        ("import os; os.environ['FAMILY'] = '1'", "it changes the environment variable FAMILY"),
        ("import os; os.chdir('/')", "it changes the working folder to /"),
        (
            "import threading, time; threading.Thread(target=time.sleep, args=(600,), name='watcher').start()",
            "it leaves the thread 'watcher' running",
        ),
        ("import torch", "it imports torch"),
        ("import transformers", "it imports transformers"),
    ],
)
def test_what_an_import_does_is_told(file: Path, code: str, effect: str) -> None:
    """GIVEN a module that does more than declare THEN each effect is told, and a thread holds nothing up."""
    for library in ("torch", "transformers"):
        (file.parent / f"{library}.py").touch()  # found first: the real ones take seconds
    file.write_text(f"{GOOD}{code}\n")
    report = import_report(place_of("good_family.py"))
    assert (report.problem, report.effects) == (None, (effect,))


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("raise OSError('broken')", "OSError: broken"),
        ("import sys; sys.exit('no licence')", "it exits the process (no licence)"),
        ("import os; os._exit(7)", "its import ended the process (exit code 7)"),
        ("import time; time.sleep(600)", "its import takes more than 3 s"),
        ("del adapter", "AttributeError: module 'good_family' has no attribute 'adapter'"),
        ("adapter = 3", "'adapter' is not an energyscope.adapters.Adapter"),
        ("adapter = ", "SyntaxError: invalid syntax (good_family.py, line 3)"),
    ],
)
def test_an_import_that_fails(file: Path, code: str, problem: str) -> None:
    """GIVEN a module that raises, exits, hangs or has no adapter THEN the report says why, in one line."""
    file.write_text(f"{GOOD}{code}\n")
    limit_s = 3.0 if "sleep" in code else 30.0
    assert import_report(place_of("good_family.py"), limit_s).problem == problem


def test_loading_what_is_broken(file: Path) -> None:
    """GIVEN the same in this process THEN it is a usage error that names the file."""
    file.write_text("raise OSError('broken')")
    with pytest.raises(UsageError, match=r"good_family.py cannot be imported: OSError: broken"):
        load(place_of("good_family.py"))
    file.write_text("adapter = 3")
    with pytest.raises(UsageError, match=r"'adapter' is not an energyscope.adapters.Adapter"):
        load(place_of("good_family.py"))
