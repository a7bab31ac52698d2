"""`energyscope laws` and `report` of laws, on the command line."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from prediction_builder import planted_run
from typer.testing import CliRunner

from energyscope.cli.app import app
from energyscope.runs.laws import load_laws, write_laws

LENGTHS = (16, 32, 64, 128)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for tokens in LENGTHS:
        planted_run(folder / f"s{tokens}", tokens)
        planted_run(folder / f"m{tokens}", tokens, modelled=True)
        planted_run(folder / f"n{tokens}", tokens, noise=(16 / tokens) ** 2)
    return folder


def invoke(root: Path, *words: str, columns: int = 120) -> Result:
    return CliRunner().invoke(app, [*words, "--root", str(root)], env={"COLUMNS": str(columns)})


def test_it_prints_the_laws_and_where_they_are(root: Path) -> None:
    """Each part has its terms, and below are errors, tokens per joule and the page."""
    done = invoke(root, "laws", *(f"s{tokens}" for tokens in LENGTHS), "--name", "mine")
    assert done.exit_code == 0, done.output
    for word in (
        "tiny-gpt2, prefill, FP32, eager", "NVIDIA H200", "4 runs", "whole model", "attention", "Per FLOP",
        "Per byte", "all 4 cells", "Held-out error", "components", "Tokens per joule", "mine/report.html",
        "mine/laws.json",
    ):  # fmt: skip
        assert word in done.output, word
    assert "MODELLED" not in done.output
    assert (root / "mine" / "report.html").is_file()


def test_json_is_the_document(root: Path) -> None:
    """--json prints what laws.json holds, and nothing else."""
    done = invoke(root, "laws", *(f"s{tokens}" for tokens in LENGTHS), "--name", "plain", "--json")
    assert json.loads(done.stdout) == load_laws(root / "plain")


def test_modelled_joules_say_so(root: Path) -> None:
    """GIVEN modelled runs THEN a line above, the law and the column of E0 say MODELLED."""
    done = invoke(root, "laws", *(f"m{tokens}" for tokens in LENGTHS))
    for word in ("MODELLED: ", "E0 (MODELLED)", "(MODELLED) per FLOP", "Only as times (MODELLED)"):
        assert word in done.output


def test_a_negative_term_is_shown_and_flagged(root: Path) -> None:
    """GIVEN joules that fall with the length THEN the negative k stands in the table, and a line names it."""
    done = invoke(root, "laws", *(f"n{tokens}" for tokens in LENGTHS))
    assert "k is negative" in done.output
    assert " \u2212" in next(line for line in done.output.splitlines() if line.startswith("whole model"))


def test_one_cell_is_no_error(root: Path) -> None:
    """GIVEN one run THEN its group says that there is no law, and the exit code is 0."""
    done = invoke(root, "laws", "s32", "--name", "single")
    assert done.exit_code == 0, done.output
    assert "one cell gives no law" in " ".join(done.output.split())
    assert (root / "single" / "report.html").is_file()


@pytest.mark.parametrize("columns", [80, 140])
def test_the_tables_fit_the_terminal(root: Path, columns: int) -> None:
    """At 80 columns no number is cut."""
    for kind in "sm":
        done = invoke(root, "laws", *(f"{kind}{tokens}" for tokens in LENGTHS), columns=columns)
        assert done.exit_code == 0, done.output
        assert "\u2026" not in done.output
        lines = [line for line in done.output.splitlines() if not line.startswith(("Page", "Data"))]
        assert [line for line in lines if len(line) > columns] == []


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["laws", "nowhere"], 1, "no run 'nowhere'"),
        (["laws", "s16", "s32", "--name", "s16"], 2, "exists"),
        (["report", "nowhere"], 1, "no run 'nowhere'"),
    ],
)
def test_bad_input_is_one_line(root: Path, words: list[str], code: int, complaint: str) -> None:
    """With its exit code and what to do."""
    done = invoke(root, *words)
    assert done.exit_code == code, done.output
    assert complaint in done.output
    assert done.output.count("\n") == 1


def test_a_page_is_rendered_again_without_a_fit(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN an altered laws.json, runs that are gone and fits that fail THEN report renders what it says."""
    invoke(root, "laws", "s16", "s32", "s64", "--name", "altered")
    path = root / "altered"
    document = load_laws(path)
    document["name"] = "altered-by-hand"
    document["groups"][0]["subjects"][0]["two_term"]["r2"] = 0.123
    for source in document["sources"]:
        source["path"] = "gone"
    write_laws(path, document)
    _forbid_fits(monkeypatch)
    done = invoke(root, "report", "altered")
    assert done.exit_code == 0, done.output
    assert done.output.strip() == str(path / "report.html")
    page = (path / "report.html").read_text(encoding="utf-8")
    assert "altered-by-hand" in page
    assert "0.123" in page
    assert load_laws(path) == document


def test_a_cells_page_has_its_law_without_a_fit(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN laws that name a run, altered, and fits that fail THEN the run's page shows what they say."""
    for tokens in LENGTHS:
        shutil.copytree(root / f"s{tokens}", tmp_path / f"s{tokens}")
    invoke(tmp_path, "laws", *(f"s{tokens}" for tokens in LENGTHS), "--name", "of-cells")
    document = load_laws(tmp_path / "of-cells")
    document["groups"][0]["subjects"][0]["two_term"]["r2"] = 0.321
    write_laws(tmp_path / "of-cells", document)
    _forbid_fits(monkeypatch)
    done = invoke(tmp_path, "report", "s32")
    assert done.exit_code == 0, done.output
    page = (tmp_path / "s32" / "report.html").read_text(encoding="utf-8")
    assert 'id="scaling"' in page
    assert "0.321" in page


def _forbid_fits(patch: pytest.MonkeyPatch) -> None:
    """Make every function of `energyscope.scaling` and the solvers below them fail."""

    def forbidden(*_: Any, **__: Any) -> Any:
        raise AssertionError("a fit was called")

    for name, module in list(sys.modules.items()):
        if name.startswith("energyscope.scaling"):
            for attribute, value in list(vars(module).items()):
                if callable(value) and getattr(value, "__module__", "").startswith("energyscope.scaling"):
                    patch.setattr(module, attribute, forbidden)
    patch.setattr("numpy.linalg.svd", forbidden)
    patch.setattr("numpy.linalg.lstsq", forbidden)


def test_a_sweep_ends_with_its_laws(tmp_path: Path) -> None:
    """GIVEN a sweep of two lengths THEN its directory has laws and a page, and their gist is printed."""
    short = ["--granularity", "coarse", "--passes", "2", "--component-budget", "0.05", "--device", "cpu"]
    done = invoke(tmp_path, "sweep", "tiny-gpt2", "--sequence-length", "8,16", *short, "--name", "swept")
    assert done.exit_code == 0, done.output
    document = load_laws(tmp_path / "swept")
    assert [source["run"] for source in document["sources"]] == ["fp32-b1-s8", "fp32-b1-s16"]
    assert document["groups"][0]["reason"] is None
    assert (tmp_path / "swept" / "report.html").is_file()
    assert "(MODELLED)" in done.output
    assert "swept/report.html" in done.output
