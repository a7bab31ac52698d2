"""What a task's rules do with an adapter's hooks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from test_adapters import MINIMAL

from energyscope.errors import DataError, ModelError
from energyscope.tasks import HOOKS, rules_of


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_that_fails_is_named(name: str) -> None:
    """GIVEN a hook that raises THEN the error names it and its adapter, and how to try it."""

    def hook(*_arguments: Any) -> Any:
        raise IndexError("planted")

    called = getattr(rules_of(replace(MINIMAL, **{name: hook})), name)
    words = rf"the hook '{name}' of the adapter 'minimal' fails \(IndexError: planted\): .*check-adapter"
    with pytest.raises(ModelError, match=words):
        called(None)


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory"), DataError("a label is missing")])
def test_what_a_hook_says_itself_stays(error: Exception) -> None:
    """GIVEN a hook that finds no memory, or has words of its own, THEN its error is raised as it is."""

    def hook(_output: Any) -> Any:
        raise error

    outcome = rules_of(replace(MINIMAL, outcome=hook)).outcome
    assert outcome is not None
    with pytest.raises(type(error)) as found:
        outcome(None)
    assert found.value is error
