"""Settings are declared once: type, default, option, help, choices and range of a field."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
import typer

from energyscope.cli.app import app
from energyscope.errors import UsageError
from energyscope.settings.benchmark import BenchmarkSettings
from energyscope.settings.fields import PANELS, check_each, select_settings, setting, settings_of
from energyscope.settings.run import BENCHMARK_OF_RUN, RunSettings
from energyscope.settings.sweep import SweepSettings

FIRST = PANELS[0]


@dataclass(frozen=True)
class Sample:
    size: int = setting(1, "How many.", FIRST, least=1)
    share: float | None = setting(None, "How much.", FIRST, above=0, most=1, unit="of all")
    way: Literal["left", "right"] = setting("left", "Where to.", FIRST)
    lengths: tuple[int, ...] = setting((1, 2), "Of what.", FIRST, option="--length", least=1)
    names: tuple[str, ...] = setting((), "Of whom.", FIRST, lower=True)
    interval_s: float = setting(0.1, "Apart.", FIRST, option="--interval", above=0, most=10, per_unit=1e-3)
    place: Path = setting(Path("here"), "Where.", FIRST)
    rate: float = setting(1.0, "How often.", FIRST, above=0)
    other: int = 3


def test_a_field_says_all_about_its_option():
    """GIVEN fields with types, THEN kind, choices, option and whether there are several or none follow."""
    declared = settings_of(Sample)
    assert list(declared) == ["size", "share", "way", "lengths", "names", "interval_s", "place", "rate"]
    assert (declared["size"].kind, declared["size"].option) == (int, "--size")
    assert (declared["share"].kind, declared["share"].optional) == (float, True)
    assert declared["way"].choices == ("left", "right")
    assert (declared["lengths"].kind, declared["lengths"].several, declared["lengths"].key) == (
        int,
        True,
        "length",
    )
    assert declared["place"].kind is Path


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("lengths", "8, 1,8", (8, 1)), ("names", "A,b", ("a", "b")), ("names", "", ()),
        ("interval_s", 250.0, 0.25), ("size", 3, 3), ("share", None, None),
    ],
)  # fmt: skip
def test_what_stands_on_the_command_line_becomes_the_value(name, given, value):
    """GIVEN words with commas, another unit or nothing, THEN the field's value."""
    assert settings_of(Sample)[name].read(given) == pytest.approx(value)


def test_an_option_of_slurm_may_hold_a_list():
    """GIVEN a comma that no KEY= follows, THEN it belongs to the value, and is written back so."""
    slurm = settings_of(SweepSettings)["slurm"]
    words = ("slurm_partition=a,b", "timeout_min=60", "slurm_exclude=n1,b")
    assert slurm.read("slurm_partition=a,b, timeout_min=60,slurm_exclude=n1,b") == words
    assert slurm.read(slurm.written(words)) == words
    assert slurm.read("partition") == ("partition",)


def test_a_default_is_written_as_it_would_be_given():
    """Whatever the setting, its default as the command line writes it is read as the default."""
    for record in (Sample, RunSettings, BenchmarkSettings, SweepSettings):
        for declared in settings_of(record).values():
            assert declared.read(declared.written(declared.default)) == declared.default


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        ({"size": 0}, "--size must be 1 or more, not 0"), ({"way": "rigth"}, "did you mean 'right'"),
        ({"share": 1.5}, "--share must be above 0 and at most 1 of all, not 1.5"),
        ({"lengths": (4, 0)}, "--length must be 1 or more, not 0"), ({"lengths": ()}, "--length names nothing"),
        ({"rate": 0.0}, "--rate must be above 0, not 0"),
        ({"interval_s": 20.0}, "at most 10,000"), ({"share": float("nan")}, "--share must be above 0"),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_is_refused_by_its_option(change, hint):
    """GIVEN a wrong word, number or empty list, THEN the option is named and what it takes."""
    check_each(Sample())
    with pytest.raises(UsageError, match=hint):
        check_each(Sample(**change))


def test_no_list_of_numbers():
    """GIVEN words where numbers are listed, THEN an example of a list."""
    with pytest.raises(UsageError, match="such as 1,8,32"):
        settings_of(Sample)["lengths"].read("4,eight")


def test_some_settings_with_other_defaults():
    """GIVEN names and changes, THEN those settings in that order, changed."""
    way, size = select_settings(Sample, "way", "size", size={"default": 7})
    assert (way.name, size.name, size.default) == ("way", "size", 7)


def test_every_setting_of_a_run_is_an_option_with_its_default():
    """GIVEN the command line, THEN no setting lacks an option, none has another default, and each has a panel."""
    group = typer.main.get_command(app)
    options = {declared.opts[0]: declared for declared in group.get_command(None, "run").params}
    for name, declared in settings_of(RunSettings).items():
        assert declared.option in options, name
        assert options[declared.option].rich_help_panel in PANELS
        assert declared.read(options[declared.option].default) == declared.default
    assert set(BENCHMARK_OF_RUN.values()) <= set(settings_of(BenchmarkSettings))


def test_few_options_are_shown_first():
    """GIVEN the settings of a run, THEN nine (and --dry-run) stand in the first panel."""
    assert sum(declared.panel == FIRST for declared in settings_of(RunSettings).values()) == 9


def test_settings_by_name_reach_the_benchmark():
    """GIVEN options of the benchmark among a run's, THEN they are the benchmark's; unknown ones are refused."""
    settings = RunSettings.of("gpt2", trials=7, benchmark_precision=("bf16",))
    assert (settings.benchmark.trials, settings.benchmark.precisions) == (7, ("bf16",))
    with pytest.raises(UsageError, match="did you mean 'granularity'"):
        RunSettings.of("gpt2", granularty="fine")


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("size", 2.0, "--size takes a whole number, not 2.0"),
        ("size", True, "--size takes a whole number, not True"),
        ("share", "half", "--share takes a number, not 'half'"),
        ("names", (5,), "--names takes a text, not 5"),
        ("place", 3, "--place takes a path, not 3"),
        ("size", None, "--size takes a whole number, not None"),
        ("lengths", 8, "--length takes a list, not 8"),
    ],
)
def test_a_value_of_another_kind_is_refused(name: str, value: object, says: str) -> None:
    """GIVEN from Python what is no value of the setting THEN it is refused before anything is measured."""
    with pytest.raises(UsageError, match=re.escape(says)):
        check_each(Sample(**{name: value}))


def test_numbers_in_a_list_of_texts_are_texts() -> None:
    """GIVEN ids of GPUs as numbers, as a TOML file may have them, THEN they are what the command line gives."""
    assert RunSettings.of("tiny-gpt2", gpu_id=[0, "GPU-a"]).gpu_id == ("0", "GPU-a")
    assert RunSettings.of("tiny-gpt2", gpu_id=1).gpu_id == ("1",)


def test_a_path_is_a_text() -> None:
    """GIVEN a file of texts as a path THEN it is taken where a text names files too."""
    assert RunSettings.of("tiny-gpt2", data=Path("texts.jsonl")).data == "texts.jsonl"
