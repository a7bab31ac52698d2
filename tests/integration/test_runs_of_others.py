"""The whole job on the bundled models that generate nothing; `make test` has that of the chat model."""

from __future__ import annotations

import pytest
from whole_run import WholeRun

pytestmark = [pytest.mark.timeout(2000), pytest.mark.slow, pytest.mark.ci]  # whole runs, for the fixtures


class TestLanguageModel(WholeRun):
    model = "tiny-gpt2"


class TestClassifier(WholeRun):
    model = "tiny-distilbert"
