"""A plan's journal: what groups cost, what a choice is expected to take, and what it was measured to take."""

from __future__ import annotations

import math

import numpy as np
import plan_builder as made
import pytest

from energyscope.changes.savings import changes
from energyscope.planning.choice import choose
from energyscope.planning.document import best_within, document, to_verify
from energyscope.planning.record import VERIFY, PlanRecord, to_judge
from energyscope.planning.replaying import price_target
from energyscope.runs.checking import document_flaw
from energyscope.runs.documents import PlanDocument
from energyscope.runs.files import json_ready


def planned(record):
    """Return the plan of the first workload."""
    return document(record)["workloads"][0]


@pytest.fixture(scope="module")
def record():
    return PlanRecord(made.plan_entries())


def test_the_problem_has_what_was_measured(record):
    """GIVEN prices and harms THEN each group has those of its family, and its own precision does no harm."""
    problem = record.problem()
    assert problem.costs[0] == pytest.approx([16, 10, 12], rel=2e-3)
    assert problem.costs[1] == pytest.approx([8, 9, 4], rel=2e-3)
    assert problem.means[0] == pytest.approx([0, 1e-3, 4e-3])
    assert problem.harm(np.array([1] * 6)) == pytest.approx(3 * 1.5e-3)


def test_the_objective_chooses_the_cost(record):
    """GIVEN time or memory as the objective THEN costs are us or bytes."""
    assert record.problem("time").costs[0] == pytest.approx([160, 100, 120], rel=2e-3)
    assert record.problem("memory").costs[0].tolist() == [2048, 1024, 512]


def test_what_was_not_measured_cannot_be_chosen():
    """GIVEN no price at a precision, and no harm at another THEN neither is possible."""
    lost = price_target(made.GROUPS[0].family, "int4").key
    entries = [entry for entry in made.plan_entries() if entry.get("subject") != lost]
    entries = [
        {"harms": {**entry["harms"], "sums": None, "reason": 'failed(error="nan")'}}
        if entry.get("harms", {}).get("group") == "layers.1.down" and entry["harms"]["precision"] == "fp8"
        else entry
        for entry in entries
    ]
    costs = PlanRecord(entries).problem().costs
    assert np.isnan(costs).tolist() == [
        [False, False, place % 2 == 0] if place != 3 else [False, True, False] for place in range(6)
    ]


def test_what_saves_nothing_is_not_judged():
    """GIVEN INT4 that is dearer for one family THEN its harm there is not asked for; that of 8 bits always is."""
    prices_mj = {"mlp.up": (16.0, 10.0, 17.0), "mlp.down": (8.0, 9.0, 4.0)}
    record = PlanRecord([{"header": made.header()}, *made.priced(prices_mj=prices_mj)])
    judged = {(group.kind, precision) for group, precision in to_judge([record], "energy")}
    assert judged == {("mlp.up", "fp8"), ("mlp.down", "fp8"), ("mlp.down", "int4")}
    assert len(to_judge([record], "memory")) == 6 * 2


def test_the_rules_eight_bits_have_a_price():
    """GIVEN 8 bits that cost more everywhere, and others without a price THEN the priced ones are judged."""
    prices_mj = {"mlp.up": (16.0, 17.0, 12.0), "mlp.down": (8.0, 9.0, 4.0)}
    entries = made.priced(prices_mj=prices_mj)
    header = made.header(precisions=["bf16", "int8", "fp8", "int4"])
    assert PlanRecord([{"header": header}, *entries]).eight("energy") == "fp8"
    judged = {name for _, name in to_judge([PlanRecord([{"header": header}, *entries])], "energy")}
    assert judged == {"fp8", "int4"}
    assert PlanRecord([{"header": made.header(precisions=["bf16", "int8"])}, *entries]).eight("energy") is None


def test_harm_that_was_not_measured_is_not_expected():
    """GIVEN no harm of INT4 for one family THEN INT4 everywhere is expected to do nobody knows what."""
    entries = [
        entry
        for entry in made.plan_entries()
        if entry.get("harms", {}).get("precision") != "int4" or "down" in entry["harms"]["group"]
    ]
    choices = {choice["name"]: choice["expected_harm"] for choice in planned(PlanRecord(entries))["choices"]}
    assert choices["all int4"] is None
    assert choices["all fp8"] == pytest.approx(3 * 1.5e-3)
    assert PlanRecord(entries).corrected(5e-3).factor == PlanRecord(made.plan_entries()).corrected(5e-3).factor


def test_a_single_precision_may_lose_in_some_groups():
    """GIVEN FP8 that saves in all and costs more in one family, of unknown harm there THEN it is the best."""
    entries = [
        entry
        for entry in made.plan_entries()
        if entry.get("harms", {}).get("precision") != "fp8" or "up" in entry["harms"]["group"]
    ]
    record = PlanRecord(entries)
    best = best_within(record, 5e-3)
    assert best.name == "all fp8"
    assert record.cost_of(best) == pytest.approx(3 * (10 + 9), rel=2e-3)


def test_a_prediction_is_the_sum_of_what_groups_save(record):
    """GIVEN three groups that save 6 of 100 mJ each THEN 0.82 of the energy and the time, with an interval."""
    plan = ["fp8", "bf16"] * 3
    for quantity in ("energy", "time"):
        share = record.predicted(plan, quantity)
        assert share.value == pytest.approx(0.82, abs=1e-3)
        assert 0 < share.half < 0.01
    assert record.predicted(["bf16"] * 6).value == 1.0
    assert record.bytes_saved(plan) == 3 * 1024


def test_measured_in_turn_with_the_model(record):
    """GIVEN windows of a choice and of the model in the same passes THEN their ratio, whose drift cancels."""
    share = record.verified("plan")
    assert share.value == pytest.approx(0.82, abs=1e-3)
    assert share.half < 2e-3  # each by itself drifts by 0.6 %
    assert record.quality("plan")[0] == "A"
    assert record.quality("all int4") == (None, [])  # tried, and not applied


def test_a_choice_within_the_budget_is_found(record):
    """GIVEN 0.5 % of perplexity (4.99e-3 nats) THEN FP8 where it saves, and INT4 nowhere: 3 x 6e-3 is too much."""
    choice = choose(record.problem(), math.log1p(0.005))
    assert [made.PRECISIONS[option] for option in choice] == ["fp8", "bf16"] * 3


def test_the_plan_and_the_best_single_precision_are_applied(record):
    """GIVEN one precision within the budget and one beyond THEN the plan and the first are verified."""
    assert [choice.name for choice in to_verify(record)] == ["plan", "all fp8"]


def test_a_plan_that_saves(record):
    """GIVEN 18 % measured, and the budget kept on the other half THEN it saves, and is what is handed over."""
    result = planned(record)
    plan = result["choices"][0]
    assert (result["verdict"], result["adopted"], plan["name"]) == ("saves", "plan", "plan")
    assert plan["predicted"]["energy"]["value"] == pytest.approx(plan["measured"]["energy"]["value"], abs=0.005)
    assert plan["measured"]["memory"]["value"] == pytest.approx(1 - 3 * 1024 / 10_000)
    assert plan["held_out"]["value"] == pytest.approx(8.1 * math.exp(3.1e-3))
    assert (plan["held_out"]["holds"], plan["held_out"]["shown"]) == (True, True)
    assert [group["precision"] for group in result["groups"]] == ["fp8", "bf16"] * 3
    assert {choice["name"]: choice["within"] for choice in result["choices"]} == {
        "plan": True, "all fp8": True, "all int4": False,
    }  # fmt: skip
    energies = [point["energy"] for point in result["front"]]
    assert energies[0] == 1.0
    assert energies == sorted(energies, reverse=True)
    assert result["nearest"] is None


def test_what_takes_less_is_adopted_whatever_was_predicted():
    """GIVEN a single precision that takes less than the plan in the whole model THEN it is adopted."""
    result = planned(PlanRecord(made.plan_entries(plan_mj=91.0)))
    assert (result["adopted"], result["verdict"]) == ("all fp8", "saves")
    assert {group["precision"] for group in result["groups"]} == {"fp8"}


@pytest.mark.parametrize(("energy_mj", "adopted"), [(70.0, "high energy, low impact"), (95.0, "plan")])
def test_what_is_applied_for_comparison_is_advised_where_it_saves_most(tmp_path, energy_mj, adopted):
    """GIVEN the quadrant within the budget THEN it is adopted if it takes less than the plan, else unnamed."""
    name, precisions = "high energy, low impact", ["fp8", "fp8", *["bf16"] * 4]
    more = [made.tried(name, precisions, 1e-3), *made.verified(name, energy_mj, 1e-3)]
    entries = [*made.plan_entries(), *more]
    assert name in [choice.name for choice in to_verify(PlanRecord(entries))]
    run = made.build_plan(tmp_path / "run", entries=entries)
    assert run.plan["workloads"][0]["adopted"] == adopted
    assert (name in [change.value for change in changes(run)]) == (adopted == name)


def test_a_plan_that_saves_nothing_keeps_the_model():
    """GIVEN choices that take as much as the model THEN nothing should be changed."""
    assert planned(PlanRecord(made.plan_entries(plan_mj=100.2, single_mj=101.0)))["verdict"] == "keep"


def test_a_budget_broken_on_the_other_half_is_said():
    """GIVEN more harm on the other half than the budget has THEN so, however much is saved."""
    result = planned(PlanRecord(made.plan_entries(held_out=6e-3)))
    assert result["verdict"] == "over budget"
    assert result["choices"][0]["held_out"]["holds"] is False


def test_a_budget_that_nothing_meets_names_the_nearest():
    """GIVEN a plan that changes nothing THEN the narrowest budget in which something saves, and how much."""
    own = ["bf16"] * len(made.GROUPS)
    entries = [{"header": made.header("perplexity +0.01%")}, *made.priced(), made.chosen(own, "perplexity +0.01%")]
    result = planned(PlanRecord(entries))
    assert (result["verdict"], result["adopted"]) == ("keep", "plan")
    assert result["nearest"]["budget"].startswith("perplexity +0.1")
    assert result["nearest"]["saves"]["value"] == pytest.approx(0.94, abs=3e-3)


def test_without_a_choice_there_is_no_document():
    """GIVEN a plan that broke off while groups were judged THEN nothing is written."""
    assert document(PlanRecord([{"header": made.header()}, *made.priced()])) is None


def test_each_workload_has_its_plan():
    """GIVEN decode steps where INT4 is cheap THEN another plan, and what each takes at the other workload."""
    workloads = [
        {"key": "prefill:1", "phase": "prefill", "batch_size": 1, "tokens": 128},
        {"key": "decode:1", "phase": "decode", "batch_size": 1, "tokens": 128},
    ]
    prefill = ["fp8", "bf16"] * 3
    decode = ["int4", "bf16", "bf16", "bf16", "bf16", "bf16"]
    cheap = {"mlp.up": (16.0, 12.0, 6.0), "mlp.down": (8.0, 9.0, 4.0)}
    entries = [
        {"header": {**made.header(), "workloads": workloads}},
        *({"workload": "prefill:1", **entry} if "part" in entry else entry for entry in made.priced()),
        *({"workload": "decode:1", **entry} for entry in made.priced(prices_mj=cheap) if "part" in entry),
        {"workload": "prefill:1", **made.chosen(prefill)},
        {"workload": "decode:1", **made.chosen(decode)},
    ]
    result = document(PlanRecord(entries))
    assert [[group["precision"] for group in each["groups"]] for each in result["workloads"]] == [prefill, decode]
    taken = {(one["plan"], one["at"]): one["energy"]["value"] for one in result["elsewhere"]}
    expected = {
        ("prefill:1", "prefill:1"): 0.82, ("prefill:1", "decode:1"): 0.88,
        ("decode:1", "prefill:1"): 0.96, ("decode:1", "decode:1"): 0.90,
    }  # fmt: skip
    assert taken == {key: pytest.approx(value, abs=2e-3) for key, value in expected.items()}


@pytest.mark.parametrize(("objective", "saves"), [("time", 0.82 / 0.9), ("memory", 1 - 3 * 1024 / 10_000)])
def test_a_plan_is_judged_by_its_objective(objective, saves):
    """GIVEN time or memory as the objective THEN what is adopted, and whether it saves, is of that."""
    entries = made.plan_entries()
    entries[0] = {"header": made.header(objective=objective)}
    result = planned(PlanRecord(entries))
    plan = result["choices"][0]
    assert plan["saves"]["measured"]["value"] == pytest.approx(saves, abs=2e-3)
    assert result["verdict"] == "saves"
    assert result["adopted"] == ("plan" if objective == "time" else "all fp8")
    predicted = plan["saves"]["predicted"]["value"]  # times of prices are as their energies
    nearest = min(result["front"], key=lambda point: abs(point["saves"] - predicted))
    assert nearest["saves"] == pytest.approx(predicted, abs=2e-3)


def test_a_plan_that_was_not_measured_is_not_judged():
    """GIVEN a choice whose windows are missing THEN the verdict says so, and nothing is called saved."""
    entries = [entry for entry in made.plan_entries() if entry.get("part") != VERIFY]
    assert planned(PlanRecord(entries))["verdict"] == "not measured"


def test_outputs_that_are_not_finite_on_the_other_half_break_the_budget():
    """GIVEN a choice that could not be judged on the second half THEN it does not hold."""
    failed = {"held_out": {"name": "plan", "failed": 'failed(error="its outputs are not finite")'}}
    entries = [
        failed if (entry.get("held_out") or {}).get("name") == "plan" else entry for entry in made.plan_entries()
    ]
    result = planned(PlanRecord(entries))
    assert (result["verdict"], result["choices"][0]["held_out"]["value"]) == ("over budget", None)


@pytest.mark.parametrize("waited", [0.0, 0.5, None])
def test_a_plan_is_what_is_declared_of_it(waited: float | None) -> None:
    """GIVEN windows of eager execution, where the device waits for the host or not, THEN a run can be read."""
    entries = [{**entry, "waited_share": waited} if "window" in entry else entry for entry in made.plan_entries()]
    plan = document(PlanRecord(entries))
    assert (plan["workloads"][0]["whole"]["host_bound"] is None) == (waited is None)
    assert document_flaw(json_ready(plan), PlanDocument) is None
