"""Tiny models for the tests of this folder."""

from __future__ import annotations

import pytest
from dataset_fixtures import MOODS
from tiny_models import save_model

from energyscope.loading import LoadedModel, load_model


@pytest.fixture(scope="session")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    folder = save_model(tmp_path_factory.mktemp("models") / "classifier", "distilbert", **MOODS)
    return load_model(str(folder), device="cpu")


@pytest.fixture(scope="session")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load_model(str(save_model(tmp_path_factory.mktemp("models") / "decoder", "gpt2")), device="cpu")
