"""What the README shows works as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("code", EXAMPLES, ids=lambda code: code.split("\n", 1)[0])
def test_python_examples_run(code, tmp_path):
    """Every Python example runs on its own in an empty folder, without network, and prints something."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_there_are_examples():
    """The README shows the stages and the building blocks."""
    assert len(EXAMPLES) == 2
