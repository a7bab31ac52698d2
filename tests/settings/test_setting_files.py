"""Settings in TOML files, in the words of the options."""

from __future__ import annotations

from pathlib import Path

import pytest

from energyscope.errors import UsageError
from energyscope.settings.fields import settings_of
from energyscope.settings.files import read_settings
from energyscope.settings.run import RunSettings
from energyscope.settings.serving import ServingSettings

SETTINGS = list(settings_of(RunSettings).values())


def test_a_file_holds_values_of_the_fields(tmp_path):
    """GIVEN numbers, words, lists and paths, THEN they are the fields' values; the model stands beside them."""
    file = tmp_path / "run.toml"
    file.write_text(
        'model = "gpt2"\nbatch-size = 4\ncontext-length = [128, 512]\nmethods = "zero"\nroot = "there"\n'
        "adaptive = true\nwindow = 1\n"
    )
    assert read_settings(file, SETTINGS) == {
        "model": "gpt2", "batch_size": 4, "context_lengths": (128, 512), "methods": ("zero",),
        "root": Path("there"), "adaptive": True, "window_s": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("batchsize = 4", "did you mean 'batch-size'"), ('batch-size = "4"', "give a whole number"),
        ("batch-size = true", "give a whole number"), ("adaptive = 1", "give true or false"),
        ("context-length = [1.5]", "give one or a list"), ("precision = 4", "give text in quotes"),
        ('window = "1"', "give a number"), ("a b", "is no TOML file"),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_refused(tmp_path, text, hint):
    """GIVEN a wrong key or type, THEN the file, the key and what to give."""
    file = tmp_path / "run.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=hint):
        read_settings(file, SETTINGS)


def test_text_that_is_mostly_a_number_needs_no_quotes(tmp_path):
    """GIVEN an option such as --prompt-tokens, THEN its number needs no quotes; other types stay refused."""
    file = tmp_path / "serving.toml"
    file.write_text('prompt-tokens = 512\nnew-tokens = "64:lognormal"\nrate = [0.5, 2]\n')
    declared = list(settings_of(ServingSettings).values())
    assert read_settings(file, declared) == {
        "prompt_tokens": "512", "new_tokens": "64:lognormal", "rates": ("0.5", "2"),
    }  # fmt: skip
    for wrong in ("prompt-tokens = 1.5", "prompt-tokens = true", "api = 3"):
        file.write_text(wrong)
        with pytest.raises(UsageError, match="give text in quotes"):
            read_settings(file, declared)


def test_no_file(tmp_path):
    """GIVEN a file that is not there, THEN what to give instead."""
    with pytest.raises(UsageError, match="give a model or a TOML file"):
        read_settings(tmp_path / "none.toml", SETTINGS)
