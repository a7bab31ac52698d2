"""Laws for the terminal: what they say of sizes, contrasts and sweeps, and what hostile names cannot do."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from prediction_builder import planted_run
from rich.console import Console

from energyscope.reporting.terminal_laws import laws_brief, laws_tables
from energyscope.stages.laws import document_of, gather

LENGTHS = (16, 32, 64)


def shown(table: Any, width: int = 100) -> str:
    console = Console(width=width)
    with console.capture() as captured:
        console.print(table)
    return captured.get()


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Two models in two precisions, of which one takes 0.6 of the other's joules."""
    root = tmp_path_factory.mktemp("runs")
    for model in ("tiny-gpt2", "tiny-llama"):
        for precision, noise in (("fp32", 1.0), ("bf16", 0.6)):
            for tokens in LENGTHS:
                planted_run(
                    root / f"{model}-{precision}-{tokens}", tokens, model=model, precision=precision, noise=noise
                )
    names = [one.name for one in sorted(root.iterdir())]
    return document_of(gather(names, root), "several", root / "several", None)


def test_every_group_has_its_table(document: dict[str, Any]) -> None:
    """Each model in each precision has a heading of its own."""
    found = shown(laws_tables(document, Path("several")))
    for heading in ("tiny-gpt2, prefill, fp32, eager", "tiny-llama, prefill, bf16, eager"):
        assert heading in found


def test_contrasts_and_sizes_are_said(document: dict[str, Any]) -> None:
    """Precisions are compared by their ratio where they were planted apart, and models by parameters."""
    found = shown(laws_tables(document, Path("several")))
    ratios = [
        one["ratio"]["value"]
        for one in document["contrasts"]
        if (one["subject"], one["model"]) == ("model", "tiny-gpt2")
    ]
    assert "tiny-gpt2, prefill, eager: energy in bf16 over fp32" in found
    assert f"whole model {min(ratios):.2f}" in found
    assert "sizes compared: prefill, bf16, eager, 1 x 64 tokens (the largest of 3 shapes)" in found


def test_the_gist_is_short(document: dict[str, Any]) -> None:
    """The gist of a sweep has the law and the error of each group's whole model, and where the page is."""
    found = shown(laws_brief(document, Path("several")), width=400)
    assert found.count("whole model: ") == 4
    assert found.count("median error of lengths held out") == 4
    assert "Data: several/laws.json" in found
    assert "Page: not drawn here: `energyscope report several`" in found


def test_unknown_is_a_dash_and_no_number(document: dict[str, Any]) -> None:
    """GIVEN a document without intervals, R2, best law and errors THEN all is drawn, without None or nan."""
    bare = copy.deepcopy(document)
    for entry in (one for group in bare["groups"] for one in group["subjects"]):
        entry.update(best=None, held_out=[])
        for item in (entry["two_term"].get("fixed_mj"), entry["two_term"].get("marginal_pj_per_flop")):
            if item:
                item.update(low=None, high=None)
        if "r2" in entry["two_term"]:
            entry["two_term"]["r2"] = None
    for group in bare["groups"]:
        group["held_out"] = {"components": None, "whole": None, "reason": "no cell could be left out", "ways": []}
    found = shown(laws_tables(bare, Path("several")))
    assert "held out: no cell could be left out" in found
    assert "None" not in found
    assert "nan" not in found


def test_a_name_is_no_markup(document: dict[str, Any]) -> None:
    """GIVEN a model called [bold red] THEN it is printed as it is."""
    hostile = copy.deepcopy(document)
    hostile["name"] = "[/bold] x"
    for group in hostile["groups"]:
        group["model"] = "[bold red]m[/nothing]"
    for entry in (*hostile["sizes"][0]["rows"], *hostile["contrasts"], *hostile["efficiency"]):
        entry["model"] = "[bold red]m[/nothing]"
    found = shown(laws_tables(hostile, Path("several")))
    assert "[bold red]m[/nothing], prefill, fp32" in found
    assert "[/bold] x" in found
