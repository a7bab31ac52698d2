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


def test_a_term_that_may_be_zero_is_no_cost(document: dict[str, Any]) -> None:
    """GIVEN k, or E0, whose interval holds 0 THEN table, flags and gist say so, within 80 columns."""
    vague = copy.deepcopy(document)
    nothing, sure = {"value": -0.5, "low": -2.0, "high": 1.0}, {"value": 2.0, "low": 1.5, "high": 2.5}
    terms = [(nothing, sure), (sure, nothing), (nothing, nothing), (sure, sure)]
    for group, (slope, offset) in zip(vague["groups"], terms, strict=True):
        whole = next(one for one in group["subjects"] if one["role"] == "whole")
        flags = ["k is negative: its interval includes 0"] if slope is nothing else []
        whole["two_term"].update(marginal_pj_per_flop=slope, fixed_mj=offset, flags=flags)
        whole["trend"] = {"verdict": "rising", "change": {"value": 3.66, "low": 1.0, "high": 6.0}}
    gist = shown(laws_brief(vague, Path("several")), width=400)
    said = [line.partition("whole model: ")[2].partition("; median")[0] for line in gist.splitlines()[:8]]
    flat = "no growth with FLOPs is shown, k -0.500 pJ/FLOP [-2.0, 1.0] holds 0; E0 "
    assert [one for one in said if one] == [
        f"{flat}2.00 mJ [1.5, 2.5]",
        "2.00 pJ/FLOP [1.5, 2.5] x FLOPs; E0 -500 \u00b5J [-2,000, 1,000] cannot be told from nothing",
        f"{flat}-500 \u00b5J [-2,000, 1,000] cannot be told from nothing",
        "2.00 mJ [1.5, 2.5] + 2.00 pJ/FLOP [1.5, 2.5] x FLOPs",
    ]
    found = shown(laws_tables(vague, Path("several")), width=80)
    assert max(len(line) for line in found.splitlines()) <= 80
    lines = [line.strip() for line in found.splitlines()]
    above = [lines[index - 1] for index, line in enumerate(lines) if line.endswith("no growth")]
    assert len([line for line in above if "[-2.0, 1.0]" in line]) == 2
    assert "no growth with FLOPs is shown: the interval of k holds 0" in " ".join(lines)
    assert found.count("+366") == 2, "a k that may be 0 has no trend"


def test_a_ratio_that_may_be_one_tells_nothing_apart(document: dict[str, Any]) -> None:
    """GIVEN a ratio of slopes whose interval holds 1 THEN the terminal says what the page does; else not."""
    both = copy.deepcopy(document)
    for group, low in zip(both["groups"], (0.5, 1.1, 1.1, 1.1), strict=True):
        group["ratios"] = [{"first": "attention", "second": "mlp", "at": [], "reason": None,
                            "marginal": {"value": 1.3, "low": low, "high": 2.0}}]  # fmt: skip
    assert shown(laws_tables(both, Path("several"))).count("one of mlp: they cannot be told apart") == 1


def test_within_ten_percent_says_of_what_and_how(document: dict[str, Any]) -> None:
    """The legend says which cells hold: those that the law of the others foretells, and of what the 10 % are."""
    found = " ".join(shown(laws_tables(document, Path("several")), width=80).split())
    assert (
        "Holds for: cells, from the smallest on, that are each foretold within 10 % of their measured energy by "
        "the law of the others." in found
    )


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


def widest(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document with the widest words that its tables may have to hold, all of it modelled."""
    wide = copy.deepcopy(document)
    wide["modelled"] = True
    subjects = [one for group in wide["groups"] for one in group["subjects"]]
    for entry in subjects:
        entry["subject"] = "attention.output"
        entry["two_term"] = {
            "fixed_mj": {"value": -1234.5, "low": -123_456.0, "high": 98_765.0},
            "marginal_pj_per_flop": {"value": 48_797.0, "low": -138_013.0, "high": 257_930.0},
            "r2": -0.123, "residuals": [], "flags": [],
        }  # fmt: skip
        entry["reach"] = {
            "holds": False, "within": 12, "cells": 16, "reason": None,
            "first_beyond": {"batch_size": 128, "tokens": 131_072},
        }  # fmt: skip
        entry["trend"] = {"verdict": "falling", "change": {"value": -1.234, "low": -2.0, "high": -1.0}}
        entry["best"] = "roofline (floor)"
        entry["held_out"] = [
            {"law": law, "by": "length", "median": median, "worst": 2.0, "cells": 16, "reason": None}
            for law, median in (("roofline (floor)", 1.234), ("two-term", 3.456))
        ]
    for entry in wide["efficiency"]:
        for one in entry["rows"]:
            one.update(batch_size=1024, tokens=131_072, latency_us=123_456.0)
            one["tokens_per_j"] = {"value": 1_234_567.0, "low": None, "high": None}
        entry.update(fixed=131_072, least_edp=131_072, along="tokens")
    for entry in wide["sizes"]:
        for one in entry["rows"]:
            one.update(model="meta-llama/Llama-3.3-70B-Instruct", pj_per_flop={"value": 12_345.0})
            one["energy_per_token_mj"] = {"value": 1.0, "low": 0.99987, "high": 1.00012}
    return wide


@pytest.mark.parametrize("width", [80, 120])
def test_no_column_is_lost(document: dict[str, Any], width: int) -> None:
    """GIVEN modelled joules and the widest of words THEN the last column of each table is whole, at 80 too."""
    found = shown(laws_tables(widest(document), Path("several")), width)
    assert "\u2026" not in found
    lines = found.splitlines()
    assert max(len(line) for line in lines) <= width
    for words in ("better law,", "error (other)", "(346 %)", "MODELLED E0", "MODELLED k", "least", "EDP", "power"):
        assert words in found, words
    assert sum(line.rstrip().endswith("131,072") for line in lines) >= 2, "least EDP"


def test_groups_of_two_methods_are_told_apart(document: dict[str, Any]) -> None:
    """GIVEN two groups that differ in their method alone THEN both are named by it, and the others are not."""
    two = copy.deepcopy(document)
    first = two["groups"][0]
    two["groups"].append({**first, "method": "0"})
    found = shown(laws_tables(two, Path("several")))
    assert "tiny-gpt2, prefill, bf16, eager, method 0" in found
    assert "tiny-gpt2, prefill, bf16, eager, method 1" in found
    assert found.count(", method ") == 2


def test_efficiency_and_sizes_of_two_methods_are_told_apart(document: dict[str, Any]) -> None:
    """GIVEN efficiency and sizes that differ in their method alone THEN no table mixes them: both are named."""
    two = copy.deepcopy(document)
    for section in ("efficiency", "sizes"):
        two[section] = [one for one in two[section] if one["precision"] == "bf16"]
        two[section] += [{**one, "method": "0"} for one in two[section]]
    found = shown(laws_tables(two, Path("several")))
    for method in ("0", "1"):
        assert f"tiny-gpt2, prefill, bf16, eager, method {method}: tokens per joule" in found
        where = f"prefill, bf16, eager, method {method}, 1 x 64 tokens (the largest of 3 shapes)"
        assert f"sizes compared: {where}" in found
    assert "method" not in shown(laws_tables(document, Path("several")))


def test_sizes_left_out_of_two_methods_are_told_apart(document: dict[str, Any]) -> None:
    """GIVEN one size foretold under two methods THEN each line names its own."""
    one = {
        "phase": "prefill", "precision": "bf16", "execution": "eager", "left_out": "big", "law": "two-term",
        "subject": "model", "median": 0.1, "worst": 0.2, "cells": 4, "extrapolated": False,
    }  # fmt: skip
    two = {**document, "sizes_held_out": [{**one, "method": method} for method in ("0", "1")]}
    found = shown(laws_tables(two, Path("several")), 200)
    for method in ("0", "1"):
        assert f"prefill, bf16, eager, method {method}: big foretold" in found


def test_a_contrast_of_an_older_method_says_so(document: dict[str, Any]) -> None:
    """GIVEN one side of a contrast of an older method THEN it stands beside the ratio, and nowhere else."""
    assert "older method" not in shown(laws_tables(document, Path("several")))
    two = copy.deepcopy(document)
    for one in two["contrasts"]:
        if one["model"] == "tiny-gpt2":
            one["lacking"] = {"first": "masks were other ones", "second": None}
    lines = shown(laws_tables(two, Path("several")), 200).splitlines()
    at = [index for index, line in enumerate(lines) if "older method" in line]
    assert len(at) == 1
    assert lines[at[0]].startswith(
        "bf16 measured by an older method, which these ratios hold: masks were other ones"
    )
    assert lines[at[0] - 2].startswith("tiny-gpt2, prefill, eager: energy in bf16 over fp32")
