"""A page is one file of less than 4 MB, whatever the model."""

from __future__ import annotations

import pytest
from page_gallery import Gallery

MOST_BYTES = 4_000_000


@pytest.mark.parametrize("name", ["deep", "inference", "benchmark", "deep-comparison", "several", "six-laws"])
def test_a_page_weighs_less_than_four_megabytes(gallery: Gallery, name: str) -> None:
    """GIVEN 80 layers of 13 components, each measured, or six groups of laws, THEN the page is below 4 MB."""
    assert gallery[name].stat().st_size < MOST_BYTES
