"""Models that generate."""

from __future__ import annotations

import pytest
from task_models import task_model

from energyscope.loading import load_model

T5 = "sequence-to-sequence"  # a decoder beside an encoder


@pytest.fixture(scope="module", params=["tiny-llama", "tiny-gpt2", T5])
def loaded(request):
    return task_model(T5) if request.param == T5 else load_model(request.param, device="cpu")
