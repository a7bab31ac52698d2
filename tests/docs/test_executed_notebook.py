"""The notebook in docs/ runs from its first cell to its last, and results show themselves in it."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parent.parent.parent / "docs" / "notebook.ipynb"


@pytest.fixture
def notebook():
    return nbformat.read(NOTEBOOK, as_version=4)


@pytest.mark.slow
@pytest.mark.ci
def test_every_cell_runs_and_results_show_themselves(notebook, tmp_path, monkeypatch):
    """GIVEN an empty folder and no network THEN no cell fails, and all kinds of results appear as HTML."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    place = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=place).execute()
    shown = [
        output["data"].get("text/html", "")
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if output["output_type"] == "execute_result"
    ]
    assert "NVIDIA H100" in shown[0]
    assert "MODELLED" in shown[1]
    assert any(html.startswith("<p><b>") for html in shown)  # the laws' sentence, which noise may change
    assert any("fp32-b1-s64" in html for html in shown)
    assert any("fp32-b1-s64 against fp32-b1-s16" in html for html in shown)
    assert list((tmp_path / "figures").glob("*.svg"))  # how many, noise decides


def test_it_holds_no_outputs(notebook):
    """GIVEN the notebook as it is kept THEN no output: they would name the machine that it ran on."""
    code = [cell for cell in notebook.cells if cell["cell_type"] == "code"]
    assert code
    assert not any(cell["outputs"] or cell["execution_count"] for cell in code)
