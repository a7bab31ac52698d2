"""Advice writes joules in a unit that fits, with the interval beside them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from energyscope.advising import words
from energyscope.runs.intervals import Interval


@pytest.mark.parametrize(
    ("item", "text"),
    [
        (Interval(0.0312, 0.0309, 0.0315), "31.2 mJ [30.90, 31.50]"),
        (Interval(1.5), "1.50 J"),
        (Interval(1234.0, 1200.0, 1260.0), "1,234 J [1,200, 1,260]"),
        (Interval(4.2e-6), "4.20 µJ"),
        (Interval(0.0), "0 nJ"),
    ],
)
def test_joules(item, text):
    """Values have three digits, and limits two digits of the interval's width."""
    assert words.joules(item) == text


@given(st.floats(1e-9, 1e6), st.floats(0.0, 0.9))
def test_every_interval_can_be_written(value, half):
    """Whatever the size and the width, the text has a value, a unit and both limits."""
    text = words.joules(Interval(value, value * (1 - half), value * (1 + half)))
    assert "J [" in text
    assert text.endswith("]")


@pytest.mark.parametrize(
    ("what", "value", "text"),
    [
        ("batch_size", "16", "a batch of 16"),
        ("context_length", "8192", "a context of 8,192 tokens"),
        ("kv_cache", "static", "a static KV cache"),
        ("execution", "cuda-graph", "a CUDA graph"),
        ("attention", "sdpa", "sdpa attention"),
    ],
)
def test_settings_in_words(what, value, text):
    """Each alternative is named as a person would."""
    assert words.setting({"what": what, "value": value}) == text


def test_small_shares_keep_a_digit():
    """Shares below a tenth are written with one decimal place."""
    assert (words.percent(0.923), words.percent(0.041)) == ("92 %", "4.1 %")
