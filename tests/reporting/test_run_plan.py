"""A plan on the page: its sentence, its table of choices, its figures, and its bars among what would change it."""

from __future__ import annotations

import io

import pytest
from plan_builder import add_levers, build_plan, header, lever_rows, plan_entries
from rich.console import Console
from run_builder import Shape

from energyscope.changes.savings import best, changes
from energyscope.reporting.run import plan
from energyscope.reporting.run.answer import Answer
from energyscope.reporting.run.report import RUN, Report
from energyscope.reporting.run.terminal import plan_of


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return build_plan(tmp_path_factory.mktemp("plan") / "run")


def test_a_run_without_a_plan_has_no_section(tmp_path):
    """GIVEN a run without plan.json THEN no section, and the closing line says how to get one."""
    from run_builder import build_run

    report = Report(build_run(tmp_path / "run"))
    shown = RUN.shown(report)
    assert "plan" not in [item.section.name for item in shown]
    assert RUN.missing(report, shown)["plan"] == '--stages plan --budget "..."'


def test_the_first_screen_is_the_plan(made):
    """GIVEN a plan alone THEN the sentence says what is saved, and bars are of what was applied."""
    answer = Answer(Report(made))
    assert answer.sentence.startswith("The plan saves 18.0 %")
    assert answer.sentence.endswith("within perplexity +0.5%: FP8 for 3 of 6 groups of linears.")
    assert answer.cause.startswith("Predicted: 18.0 %")
    figure = next(figure for figure in answer.figures if figure.name == "changes-saved")
    assert [row["change"] for row in figure.views[0].table.rows] == ["The plan (FP8)", "FP8 everywhere"]
    assert "against BF16" in figure.caption


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"plan_mj": 91.0},
            "FP8 everywhere saves 14.0 % ± 0.1 of the energy within perplexity +0.5%, which no mixture",
        ),
        (
            {"plan_mj": 100.4, "single_mj": 101.0},
            "Keep BF16: what was predicted to save 18 % of the energy is not shown to save any",
        ),
        ({"held_out": 6e-3}, "The plan breaks the budget of perplexity +0.5% on data that it was not chosen on"),
    ],
)
def test_every_verdict_has_its_sentence(tmp_path, changed, words):
    """GIVEN a better single precision, nothing saved, or a broken budget THEN the first sentence says so."""
    assert Answer(Report(build_plan(tmp_path / "run", **changed))).sentence.startswith(words)


def test_a_broken_budget_names_what_holds(tmp_path):
    """GIVEN a plan that breaks its budget THEN a single precision that was applied, saves and holds is named."""
    broken = Answer(Report(build_plan(tmp_path / "run", held_out=6e-3))).sentence
    assert broken.endswith("do not use it. FP8 everywhere saves 14.0 % ± 0.1 of the energy and holds.")
    kept = Answer(Report(build_plan(tmp_path / "kept", held_out=6e-3, single_mj=101.0))).sentence
    assert kept.endswith("do not use it.")


def test_a_plan_is_the_remedy_of_a_profile(tmp_path):
    """GIVEN a profile and a plan THEN the plan is what would change it, unless it breaks its budget."""
    run = build_plan(tmp_path / "run", Shape(execution="cuda-graph"))
    remedy = best(changes(run), "prefill")
    assert (remedy.what, remedy.verdict, remedy.degrades) == ("plan", "saves", False)
    assert "the plan (FP8) saves 18 %" in Answer(Report(run)).cause
    broken = build_plan(tmp_path / "broken", Shape(execution="cuda-graph"), held_out=6e-3)
    assert best(changes(broken), "prefill").value == "all fp8"


def test_the_table_has_every_choice(made):
    """GIVEN a plan, what was applied beside it and what was only tried THEN a row each."""
    table = plan.first_plan(Report(made)).choices()
    rows = {row["name"]: row for row in table.rows}
    assert list(rows) == ["Plan", "FP8 everywhere", "INT4 everywhere"]
    assert rows["Plan"]["measured"].value == pytest.approx(0.18, abs=2e-3)
    assert rows["INT4 everywhere"]["measured"] is None
    assert rows["INT4 everywhere"]["within"] == "no"
    assert rows["Plan"]["memory"].value == pytest.approx(1 - 3 * 1024 / 10_000)


def test_figures_are_of_what_the_plan_says(made):
    """GIVEN a plan THEN choices in a plane with the front, and a tile for each kind in each layer."""
    content = plan.section(Report(made))
    figures = {figure.name: figure for figure in content.figures}
    assert set(figures) == {"plan-front", "plan-layers"}
    tiles = figures["plan-layers"].views[0].table
    assert [(row["part"], row["layer"], row["precision"]) for row in tiles.rows[:2]] == [
        ("mlp.up", 0, "FP8"), ("mlp.down", 0, "BF16"),
    ]  # fmt: skip
    assert set(content.tables) == {"plan", "plan-groups", "plan-prices"}


@pytest.mark.parametrize(
    ("objective", "what", "saved", "predicted", "cause"),
    [
        ("time", "Time", 1 - 0.82 / 0.9, 0.18, "Energy saved: 18.0 % ± 0.1."),
        ("memory", "Weights' memory", 0.3072, 0.3072, "Energy saved: 14.0 % ± 0.1. On data"),
    ],
)
def test_another_objective_is_what_is_shown(tmp_path, objective, what, saved, predicted, cause):
    """GIVEN time or memory as the objective THEN table and chart are of that, with energy beside it."""
    entries = plan_entries()
    entries[0] = {"header": header(objective=objective)}
    report = Report(build_plan(tmp_path / "run", entries=entries))
    shown = plan.first_plan(report)
    table = shown.choices()
    assert (table.column("measured").title, table.column("energy").title) == (f"{what} saved", "Energy saved")
    row = next(row for row in table.rows if row["name"] == "Plan")
    assert row["measured"].value == pytest.approx(saved, abs=2e-3)
    assert row["predicted"].value == pytest.approx(predicted, abs=2e-3)
    assert row["energy"].value == pytest.approx(0.18, abs=2e-3)
    assert cause in Answer(report).cause
    figure = shown.front()
    assert figure.title == f"{what} saved against what it does to predictions"
    assert figure.views[0].table.column("saved").title == f"{what} saved"


def test_another_objective_is_what_a_plan_takes_elsewhere():
    """GIVEN time as the objective THEN columns of time for each workload, and of energy beside them."""
    workloads = [
        {"key": key, "phase": "decode", "batch_size": size} for key, size in (("decode:1", 1), ("decode:8", 8))
    ]
    taken = {"energy": {"value": 0.9}, "saves": {"value": 0.8}}
    elsewhere = [{"plan": "decode:1", "at": at, **taken} for at in ("decode:1", "decode:8")]
    table = plan.elsewhere_table({"objective": "time", "workloads": workloads, "elsewhere": elsewhere})
    assert table.column("decode_8").title == "saves time: decode, batch 8"
    assert table.rows[0]["decode_8"].value == pytest.approx(0.2)
    assert table.rows[0]["decode_8_energy"].value == pytest.approx(0.1)


def test_what_was_applied_has_a_grade(made):
    """GIVEN choices that were applied or only tried THEN a grade with its reasons for the first alone."""
    rows = {row["name"]: row for row in plan.first_plan(Report(made)).choices().rows}
    assert rows["Plan"]["grade"] == "A"
    assert rows["INT4 everywhere"]["grade"] is None


def test_a_lever_that_is_dropped_is_told(tmp_path):
    """GIVEN prompt lookup that saves alone and costs with the plan THEN it is marked, and one sentence says so."""
    with_plan = lever_rows(prompt_lookup=(1.2, 1.15, 1.25), kv_cache=(0.9, 0.88, 0.92))
    alone = lever_rows(prompt_lookup=(0.7, 0.65, 0.75), kv_cache=(0.9, 0.88, 0.92))
    report = Report(add_levers(build_plan(tmp_path / "run"), with_plan, alone))
    table = plan.levers_table(report)
    assert [(row["change"], row["use"]) for row in table.rows] == [
        ("A 3 KV cache", "yes"), ("Prompt lookup of 3 tokens", "no"),
    ]  # fmt: skip
    (note,) = table.notes
    assert note.startswith("Prompt lookup of 3 tokens (decode) saves 30 % of the energy without the plan, and")
    assert note.endswith("and costs 20 % more with it: it is dropped.")
    assert note in text_of(plan_of(report.run, 100))


def text_of(drawing):
    """Return what a terminal shows, in one line."""
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(drawing)
    return " ".join(console.export_text().split())
