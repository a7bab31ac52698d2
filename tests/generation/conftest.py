"""Models that generate."""

from __future__ import annotations

import pytest

from energyscope.loading import load_model


@pytest.fixture(scope="module", params=["tiny-llama", "tiny-gpt2"])
def loaded(request):
    return load_model(request.param, device="cpu")
