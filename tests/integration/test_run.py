"""The whole job on a bundled model, as a user would do it: every stage, at the finest granularity."""

from __future__ import annotations

import pytest
from whole_run import WholeRun

pytestmark = pytest.mark.timeout(2000)  # a whole run, for the fixture


class TestChatModel(WholeRun):
    """Of the three that are bundled, the one that also generates and weighs changes."""

    model = "tiny-llama"
    options = ("--granularity", "fine", "--layers", "kinds", "--new-tokens", "8", "--sequence-length", "16",
               "--max-examples", "8", "--methods", "zero,mean,int8")  # fmt: skip
