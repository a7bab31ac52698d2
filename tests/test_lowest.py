"""The lowest versions that `make lowest` tries: one for each dependency, and none above what is known to work."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def lowest():
    spec = importlib.util.spec_from_file_location("lowest", ROOT / "tools" / "lowest.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_dependency_has_a_lowest_version(lowest, tmp_path):
    """GIVEN bounds, markers and extras THEN each is a constraint, and torch the one of constraints.txt."""
    (tmp_path / "pyproject.toml").write_text(
        '[project]\ndependencies = ["torch>=2.6", "numpy<3,>=1.26", "b>=0.48; platform_system == \'Linux\'"]\n'
        '[project.optional-dependencies]\nimages = ["pillow>=10"]\n'
    )
    (tmp_path / "constraints.txt").write_text("# known\nnumpy==2.4.6\ntorch==2.13.0\n")
    assert lowest.lowest_versions(tmp_path) == ["b==0.48", "numpy==1.26", "pillow==10", "torch==2.13.0"]


def test_a_dependency_without_a_bound_is_named(lowest):
    """GIVEN a requirement without a lower bound THEN it is refused by its name."""
    with pytest.raises(ValueError, match="rich<15 has no lower bound"):
        lowest.lower_bound(Requirement("rich<15"))


def test_what_is_known_to_work_is_allowed(lowest):
    """GIVEN the project's own files THEN no lower bound is above the version in constraints.txt."""
    known = dict(lowest._known_versions(ROOT))
    bounds = dict(line.split("==") for line in lowest.lowest_versions(ROOT))
    untried = {"amdsmi", "zeus-apple-silicon"}  # no board was there to try them on
    assert bounds.keys() <= known.keys() | {"pillow"} | untried
    assert [name for name in bounds if name in known and Version(bounds[name]) > Version(known[name])] == []
