"""The document of scaling: what is grouped, what is said once, and what is left out."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from planted_observations import observation, swept
from simulated_board import SIZES

from energyscope.reasons import reason
from energyscope.runs.method import REVISION
from energyscope.scaling.cells import Observation
from energyscope.scaling.law_document import law_document

LAYERS = {size.name: size.layers for size in SIZES}
PARAMETERS = {"1b": 1_235_814_400, "3b": 3_212_749_824, "8b": 8_030_261_248, "small": 124_439_808}


def located(*observations: Observation) -> list[Observation]:
    return [
        replace(item, path=item.run, device="H200", parameters=PARAMETERS[item.model], layers=LAYERS[item.model])
        for item in observations
    ]


def made(*observations: Observation) -> dict[str, Any]:
    return law_document(located(*observations))


@pytest.mark.parametrize(
    "other",
    [
        {"board": "GPU-2"}, {"meter": "modelled"}, {"execution": "cuda-graph"}, {"precision": "fp32"},
        {"weights": "pretrained"}, {"kv_cache": "dynamic"}, {"size": SIZES[1]},
    ],
)  # fmt: skip
def test_what_differs_is_never_joined(other: dict[str, Any]) -> None:
    """GIVEN cells that differ in more than their shape THEN they are two groups, of which each law knows one."""
    document = made(*swept(batches=(1,)), *swept(batches=(4,), **other))
    assert [len(group["cells"]) for group in document["groups"]] == [4, 4]
    assert {len(entry["points"]) for group in document["groups"] for entry in group["subjects"]} == {4}


def test_laws_are_over_executed_flops() -> None:
    """GIVEN kernels that skip a quarter THEN k is that of executed FLOPs, a third more, beside nominal ones."""
    full = swept()
    skipping = [
        replace(
            item,
            cells={name: replace(cell, executed_flops=cell.flops * 0.75) for name, cell in item.cells.items()},
        )
        for item in full
    ]
    nominal, executed = (mlp_of(made(*items)) for items in (full, skipping))
    k, more = (entry["two_term"]["marginal_pj_per_flop"]["value"] for entry in (nominal, executed))
    assert more == pytest.approx(k / 0.75)
    assert [point["nominal_flops"] for point in executed["points"]] == [p["flops"] for p in nominal["points"]]
    assert made(*skipping)["flops"] == "executed"


def test_runs_of_before_have_laws_over_nominal_flops() -> None:
    """GIVEN cells without executed FLOPs THEN laws are fitted to nominal ones, and a note names their runs."""
    before = [
        replace(item, cells={name: replace(cell, executed_flops=None) for name, cell in item.cells.items()})
        for item in swept()
    ]
    document = made(*before)
    assert document["flops"] == "nominal"
    assert mlp_of(document)["two_term"] == mlp_of(made(*swept()))["two_term"]
    assert [note.code for note in document["notes"]] == ["executed-flops-not-recorded"]


def mlp_of(document: dict[str, Any]) -> dict[str, Any]:
    return next(entry for entry in document["groups"][0]["subjects"] if entry["subject"] == "mlp")


def test_cells_and_sources_are_in_the_order_of_their_work() -> None:
    """Sources and each group's cells go from the least tokens in a pass to the most."""
    document = made(*reversed(swept()))
    order = [item["batch_size"] * item["tokens"] for item in document["groups"][0]["cells"]]
    assert order == sorted(order)
    assert [item["path"] for item in document["sources"]] == [
        item["path"] for item in document["groups"][0]["cells"]
    ]
    assert document["sources"][0] == {
        "run": "b1-s32", "path": "b1-s32", "model": "1b", "phase": "prefill", "precision": "bf16",
        "execution": "eager", "kv_cache": None, "board": "GPU-1", "limit": "", "meter": "nvml",
        "weights": "random", "method": str(REVISION), "batch_size": 1, "tokens": 32, "device": "H200",
        "quality": None,
    }  # fmt: skip


def test_what_is_missing_is_said_once() -> None:
    """GIVEN a subject that two runs lack, and a run with nothing THEN each reason is one note, with the runs."""
    lacking = [
        replace(item, left_out={"glue": reason("overhead-not-measured", component="layers")})
        for item in swept(batches=(1,))
    ]
    empty = replace(observation(1, 512), cells={}, parts=(), left_out={"model": reason("whole-not-measured")})
    document = made(*lacking, empty)
    assert document["notes"] == [
        reason(
            "subject-not-used",
            subject="glue",
            runs=[item.run for item in lacking],
            why=reason("overhead-not-measured", component="layers"),
        ),
        reason("run-not-used", runs=["b1-s512"], why=reason("whole-not-measured")),
    ]
    assert "b1-s512" not in json.dumps(document["sources"])


def test_a_static_cache_is_noted() -> None:
    """A static KV cache has a size that no cell tells: a reader must know."""
    assert reason("static-cache-seen-in-part") in made(*swept(kv_cache="static"))["notes"]
    assert made(*swept())["notes"] == []


def test_efficiency_and_sizes_are_in_it() -> None:
    """GIVEN three models THEN they are compared at each shape, and each is predicted from the others."""
    observations = [item for size in SIZES[:3] for item in swept(lengths=(32, 128, 512), size=size)]
    document = made(*observations)
    assert len(document["groups"]) == 3
    assert document["sizes"][0]["rows"][0]["parameters"] == PARAMETERS["1b"]
    assert {item["left_out"] for item in document["sizes_held_out"]} == {"1b", "3b", "8b"}
    assert {item["along"] for item in document["efficiency"]} == {"batch_size", "tokens"}
    assert json.loads(json.dumps(document, allow_nan=False)) == document
