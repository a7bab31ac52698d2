"""Every sort of page that a reader may open, made once for all tests in a browser."""

from __future__ import annotations

import pytest
from page_gallery import Gallery


@pytest.fixture(scope="session")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Gallery:
    """Pages by name; each is made when it is first asked for."""
    return Gallery(tmp_path_factory.mktemp("gallery"))
