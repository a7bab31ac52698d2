"""Every sort of page that a reader may open, made once for all tests in a browser."""

from __future__ import annotations

import os

import pytest
from page_gallery import Gallery


@pytest.fixture(scope="session")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Gallery:
    """Pages by name; each is made when it is first asked for, by one of xdist's processes for all."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    return Gallery(tmp_path_factory.mktemp("gallery"), shared / "pages")
