"""Every sort of page that a reader may open, made once for all tests in a browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from controlled_pages import controlled_pages
from page_gallery import Gallery


@pytest.fixture(scope="session")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Gallery:
    """Pages by name; each is made when it is first asked for."""
    return Gallery(tmp_path_factory.mktemp("gallery"))


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The pages whose controls are tried."""
    return controlled_pages(tmp_path_factory.mktemp("controls"))
