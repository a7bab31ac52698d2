"""Which format a plan is exported in, and what none holds."""

from __future__ import annotations

import pytest

from energyscope.errors import UsageError
from energyscope.loading.checkpoint_formats import EXPORT_FORMATS, format_of
from energyscope.loading.options import BY_TORCH
from energyscope.settings.fields import settings_of
from energyscope.settings.run import RunSettings


def test_the_option_names_every_format():
    """GIVEN the formats THEN --export-format takes each of them, and no other."""
    assert settings_of(RunSettings)["export_format"].choices == tuple(EXPORT_FORMATS)


@pytest.mark.parametrize(
    ("precisions", "asked", "name"),
    [
        ((), None, "compressed-tensors"),
        (BY_TORCH, None, "compressed-tensors"),
        (("w8a8",), None, "compressed-tensors"),
        (("w8a8", "fp8"), "torchao", "torchao"),
        ((), "torchao", "torchao"),
        (("nf4",), None, "bitsandbytes"),
        (("int8",), "bitsandbytes", "bitsandbytes"),
    ],
)
def test_the_first_that_holds_the_precisions(precisions, asked, name):
    """GIVEN precisions, and a format or none THEN that one, or the first that holds all of them."""
    assert format_of(precisions, asked).name == name


@pytest.mark.parametrize(
    ("precisions", "asked", "words"),
    [
        (
            ("nf4", "fp8"),
            None,
            "cannot be exported: compressed-tensors holds .*; bitsandbytes holds one of int8",
        ),
        (("bf16",), None, "bf16 cannot be exported"),
        (("int4",), "torchao", "int4 cannot be exported: torchao holds fp8, w8a8, w8a16"),
        (("nf4",), "compressed-tensors", "nf4 cannot be exported: compressed-tensors holds fp8"),
        (("nf4", "int8"), None, "one precision beside the model's own: use --plan-precisions with one of int8"),
        ((), "bitsandbytes", "one precision beside the model's own"),
        (("fp8",), "gguf", "there is no format 'gguf': use one of compressed-tensors, torchao, bitsandbytes"),
    ],
)
def test_what_no_format_holds_is_said_in_one_line(precisions, asked, words):
    """GIVEN precisions of several formats, or of another one THEN one line with what each holds."""
    with pytest.raises(UsageError, match=words):
        format_of(precisions, asked)
