"""The sections of a run's page: each tells what its files hold, and is left out where there is nothing."""

from __future__ import annotations

import base64
import json
import zlib

import numpy as np
import pandas as pd
import pytest
from benchmark_builder import Bench
from generation_builder import Inference, build_inference
from impact_builder import every_impact
from run_builder import Shape, build_run, differential

from energyscope.intervals import Interval
from energyscope.reasons import reason, words
from energyscope.reporting.run import (
    changes,
    components,
    energy,
    generation,
    method,
    page,
    parts,
    quality,
    statistics,
    trust,
)
from energyscope.reporting.run.answer import Answer
from energyscope.reporting.run.report import RUN, Report
from energyscope.reporting.section import figures, tables
from energyscope.runs.store import RunStore, load_run


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """A run with a profile, impact and a benchmark."""
    return build_run(tmp_path_factory.mktemp("full") / "run", Shape(benchmark=Bench(batch_sizes=(1, 8))))


@pytest.fixture(scope="module")
def inference(tmp_path_factory):
    """A generation with prefill and two decode steps."""
    return build_inference(tmp_path_factory.mktemp("inference") / "run", Inference(layers=3, contexts=(1024, 128)))


def names(run):
    return [item.section.name for item in RUN.shown(Report(run))]


def figures_of(content):
    return {figure.name: figure for figure in content.figures}


def with_document(run, **parts):
    """Return a run with parts of its run.json replaced, or removed where they are None."""
    store = RunStore.open(run.path)
    for name, part in parts.items():
        store.document.pop(name, None)
        store.document |= {} if part is None else {name: part}
    store.update()
    return load_run(run.path)


def test_sections_stand_in_the_order_of_the_questions(full, inference):
    """GIVEN what was measured, THEN energy first and the method last; what was not measured is no section."""
    assert page.RUN is RUN
    assert names(full) == ["energy", "changes", "quality", "table", "trust", "budget", "method"]
    assert names(inference) == ["energy", "generation", "changes", "table", "trust", "budget", "method"]


def test_missing_sections_are_named_with_their_options(full):
    """GIVEN a run without a generation, THEN the closing line names it with the option that measures it."""
    missing = RUN.missing(Report(full), RUN.shown(Report(full)))
    assert missing == {"generation": "--phase both", "plan": '--stages plan --budget "..."'}


def test_every_figure_name_is_unique_and_every_view_has_numbers(full, inference):
    """GIVEN whole pages, THEN figure names are unique, views differ in state and have rows, captions are short."""
    for run in (full, inference):
        every = list(figures(RUN.shown(Report(run))))
        assert len({figure.name for figure in every}) == len(every)
        for figure in every:
            states = [json.dumps(dict(view.when), sort_keys=True) for view in figure.views]
            assert len(set(states)) == len(states)
            assert all(view.table.rows for view in figure.views)
            assert len(figure.caption.split()) <= 20, figure.caption


def test_layers_that_are_equal_are_one_line_and_no_chart(tmp_path):
    """GIVEN layers that differ by less than their errors, or by more, THEN a chart only of the latter."""
    equal = build_run(tmp_path / "equal")
    table = equal.energy.copy()
    layers = table["level"] == "layer"
    for factors, differ in (((1.0, 1.001, 0.999, 1.0), False), ((1.0, 1.5, 0.7, 1.2), True)):
        table.loc[layers, "energy_mj"] = 12.0 * np.array(factors)
        table.loc[layers, "energy_ci_low_mj"] = table.loc[layers, "energy_mj"] * 0.97
        table.loc[layers, "energy_ci_high_mj"] = table.loc[layers, "energy_mj"] * 1.03
        table.to_csv(equal.path / "per_layer_energy.csv", index=False)
        content = energy.section(Report(load_run(equal.path)))
        assert content.data["layers"]["prefill"]["differ"] is differ
        assert ("energy-by-layer" in figures_of(content)) is differ


def test_work_and_idle_are_views_of_one_figure(full):
    """GIVEN a measured run, THEN blocks, flow and layer have a view each of all energy, work and idle."""
    drawn = figures_of(energy.section(Report(full)))
    for name in ("energy-flow", "energy-layer"):
        assert [view.when["part"] for view in drawn[name].views] == ["energy", "work", "idle"]


def test_without_executed_flops_tables_say_so(tmp_path):
    """GIVEN a run of before THEN a FLOP has no price, its rate is of nominal FLOPs, and both tables say so."""
    run = build_run(tmp_path / "run")
    run.energy["executed_flops"] /= 2
    before = load_run(run.path)
    del before.energy["executed_flops"]
    for make in (components.component_table, lambda report: energy.efficiency(report.main)):
        executed, nominal = (make(Report(item)) for item in (run, before))
        assert list(executed.notes) == []
        (note,) = nominal.notes
        assert note.startswith("executed FLOPs not recorded")
        for new, old in zip(executed.rows, nominal.rows, strict=True):
            assert old["pj_per_flop"] is None
            if new["flops"]:
                assert new["intensity"] == pytest.approx(old["intensity"] / 2)


def test_efficiency_is_energy_for_work(full):
    """GIVEN counted work, THEN joules per FLOP and byte are the quotients, and no work has no price."""
    report = Report(full)
    for row in energy.efficiency(report.main).rows:
        if row["flops"]:
            assert row["pj_per_flop"].value == pytest.approx(row["energy"].value * 1e9 / row["executed_flops"])
        else:
            assert row["pj_per_flop"] is None


def test_phases_add_up_without_the_load(inference):
    """GIVEN traced phases, THEN the generation is their sum, shares add up to 1, and the load is in neither."""
    table = generation.phase_table(Report(inference))
    whole = next(row for row in table.rows if row["part"] == "generation")
    rows = [row for row in table.rows if row is not whole and row["kind"] != "load" and row["energy"]]
    assert sum(row["energy"].value for row in rows) == pytest.approx(whole["energy"].value)
    assert sum(row["share"].value for row in rows) == pytest.approx(1.0)


@pytest.mark.parametrize(("disagree", "verdict"), [(1.0, {"agrees"}), (1.6, {"differs"})])
def test_parts_are_held_against_the_trace(tmp_path, disagree, verdict):
    """GIVEN a decode step that was traced as its parts say, or not, THEN the verdict follows the ratio."""
    run = build_inference(tmp_path / "run", Inference(layers=2, contexts=(1024,), disagree=disagree))
    rows = {row["part"]: row for row in generation.agreements(Report(run)).rows}
    assert {rows["decode"]["verdict"]} == verdict
    assert rows["decode"]["ratio"].value == pytest.approx(1 / disagree, rel=0.05)


def test_power_over_time_keeps_its_energy(inference):
    """GIVEN the trace, THEN power x time over all bars is the counter's rise, and phases are marked."""
    rows = figures_of(generation.section(Report(inference)))["generation-power"].views[0].table.rows
    joules = sum(row["power"] * (row["end"] - row["begin"]) for row in rows)
    trace = inference.trace[inference.trace["device"] == inference.trace["device"].iloc[0]]
    marks = inference.generation["marks"]
    around = trace["time_s"].between(marks[0]["begin_s"] - 0.3, marks[-1]["end_s"] + 0.3)
    rise = (trace[around]["energy_mj"].max() - trace[around]["energy_mj"].min()) / 1e3
    assert joules == pytest.approx(rise, rel=0.05)
    assert {"prefill", "decode"} & {row["phase"] for row in rows}


def test_context_growth_needs_two_contexts(inference, tmp_path):
    """GIVEN steps at two contexts, THEN their growth by group, the whole step among them; of one context none."""
    alone = build_inference(tmp_path / "alone", Inference(layers=2, contexts=(1024,)))
    assert "generation-context" not in figures_of(generation.section(Report(alone)))
    rows = figures_of(generation.section(Report(inference)))["generation-context"].views[0].table.rows
    assert {row["context"] for row in rows} == {128, 1024}
    assert "whole step" in {row["group"] for row in rows}


def test_the_table_of_changes_holds_what_was_measured(inference):
    """GIVEN alternatives, THEN energy, time, quality and confidence of each; apart what was not measured."""
    content = changes.section(Report(inference))
    row = content.tables["changes"].rows[0]
    assert {"change", "phase", "saved", "time", "quality", "confidence"} <= set(row)
    assert isinstance(row["saved"], Interval)
    skipped = inference.alternatives["skipped"]
    assert (len(content.tables["skipped"].rows) if skipped else 0) == len(skipped)


def test_prompt_lookup_has_a_bar_and_a_table_of_what_is_accepted(tmp_path):
    """GIVEN prompt lookup among the alternatives, THEN a row among the changes, and what it rests on apart."""
    run = build_inference(tmp_path / "run", Inference(layers=2))
    document = run.alternatives
    base = next(row for row in document["rows"] if row["what"] == "base")
    accepted = {
        "tokens_per_step": {"value": 1.6, "low": 1.5, "high": 1.7}, "proposed_share": 0.8, "texts": 16, "same": 15,
        "largest_gap": 0.1,
    }  # fmt: skip
    ratio = {"value": 0.7, "low": 0.65, "high": 0.75}
    changed = {"what": "prompt_lookup", "value": "3", "proposed": 3, "ratio": ratio, "acceptance": accepted}
    document["rows"].append({**base, **changed})
    RunStore.open(run.path).write_json("alternatives.json", document)
    tables = changes.section(Report(load_run(run.path))).tables
    row = next(row for row in tables["changes"].rows if row["change"] == "Prompt lookup of 3 tokens")
    assert (row["saved"].value, row["quality"], row["verdict"]) == (pytest.approx(0.3), "same", "saves")
    (shown,) = tables["lookup"].rows
    assert (shown["proposed"], shown["accepted"].value, shown["texts"]) == (3, 1.6, "15 of 16")


def test_every_precision_and_shape_of_a_benchmark_is_in_its_table(full):
    """GIVEN two batch sizes, THEN a row for each cell, the six panels of the first shape, and growth by batch."""
    content = changes.section(Report(full))
    assert len(content.tables["benchmark"].rows) == len(full.benchmark["cells"])
    keys = ("latency", "speedup", "energy", "throughput", "quality", "size", "by-batch")
    assert {f"precision-{key}" for key in keys} <= set(figures_of(content))
    energies = {row["name"]: row["energy"].value for row in content.figures[2].views[0].table.rows}
    first = full.benchmark["cells"][0]
    assert energies["FP32"] == pytest.approx(first["energy_mj"]["value"])


def test_impact_by_kind_is_the_mean_over_its_components(full):
    """GIVEN impact of each component, THEN a kind's value is the mean, and joint removals are in none."""
    table = quality.kinds_table(full.impact, "kl")
    row = next(row for row in table.rows if (row["kind"], row["id"]) == ("mlp", "zero"))
    own = full.impact.query("kind == 'mlp' and method == 'zero' and metric == 'kl'")["value"]
    assert row["value"].value == pytest.approx(own.mean())
    assert row["count"] == len(own)


def test_the_ranking_orders_blocks_by_harm(tmp_path):
    """GIVEN every method, THEN the least harmed comes first, for quantization and for removal."""
    run = build_run(tmp_path / "run")
    RunStore.open(run.path).write_rows(
        "prediction_impact.csv", every_impact(run).to_dict("records"), list(run.impact.columns)
    )
    rankings = {entry["family"]: entry for entry in quality.ranking(Report(load_run(run.path)))}
    assert set(rankings) == {"quantize", "remove"}
    assert all(entry["least"] and entry["most"] for entry in rankings.values())
    assert "embedding" in rankings["remove"]["most"][0] or "LM head" in rankings["remove"]["most"][0]


def test_points_without_a_coefficient_still_stand_in_the_scatter(tmp_path):
    """GIVEN no coefficient but its reason, THEN all points are shown, and the reason."""
    run = build_run(tmp_path / "run")
    document = run.correlation
    for entry in document["correlations"]:
        entry.update(value=None, ci_low=None, ci_high=None, reason="too-few-points(points=4, needed=8)")
    RunStore.open(run.path).write_json("correlation.json", document)
    content = quality.section(Report(load_run(run.path)))
    coefficients = content.tables["coefficients"]
    assert len(figures_of(content)["quality-quadrants"].views[0].table.rows) == len(document["points"])
    assert {row["value"] for row in coefficients.rows} == {None}
    assert all("8" in row[-1] for row in coefficients.texts())


def test_invalid_impact_is_counted_by_reason(tmp_path):
    """GIVEN rows without a value, THEN they are counted by their reason, and never drawn."""
    run = build_run(tmp_path / "run")
    impact = run.impact.copy()
    impact["reasons"] = impact["reasons"].astype(object)
    chosen = impact["kind"] == "norm"
    impact.loc[chosen, ["valid", "value", "reasons"]] = [False, np.nan, "output-unchanged"]
    impact.to_csv(run.path / "prediction_impact.csv", index=False)
    tables = quality.section(Report(load_run(run.path))).tables
    assert [row["count"] for row in tables["invalid"].rows] == [int(chosen.sum())]
    assert "norm" not in {row["kind"] for row in tables["impact-by-kind"].rows}


def test_the_table_has_a_row_for_each_measurement(full):
    """GIVEN values that stand for several layers, THEN one row each with their number; no measurement twice."""
    table = components.component_table(Report(full))
    sources = {node.source for node in Report(full).main.tree.nodes}
    assert len(table.rows) == len(sources)
    assert any("each of 4" in row["name"] for row in table.rows)


def test_the_table_of_an_eager_run_begins_with_what_is_known_best(tmp_path):
    """GIVEN graded work, THEN it comes first with its share and grade, then all energy with a grade of its own."""
    table = components.component_table(Report(build_run(tmp_path / "run", Shape(graded_work=True))))
    titles = [column.title for column in table.columns]
    assert titles[titles.index("Work") :][:8] == [
        "Work", "Share", "Grade", "Share's grade", "Energy", "Share of energy", "Its grade", "Energy's grade",
    ]  # fmt: skip
    head = next(row for row in table.records() if row["kind"] == "lm_head")
    assert (head["work_grade"], head["grade"], head["work_share_grade"], head["share_grade"]) == (
        "B", "invalid", "A", "B",
    )  # fmt: skip
    assert all(head[key]["low"] < head[key]["high"] for key in ("work_mj", "work_share", "idle_mj", "time_share"))


def test_the_table_of_a_cuda_graph_has_shares_with_intervals_and_grades(tmp_path):
    """GIVEN a CUDA graph, THEN energy comes first as before, and its share has an interval and a grade."""
    shape = Shape(graded_work=True, execution="cuda-graph")
    table = components.component_table(Report(build_run(tmp_path / "run", shape)))
    assert [column.key for column in table.columns][3:7] == ["energy", "share", "share_grade", "work"]
    assert all(row["share"].known for row in table.rows)
    assert "work_grade" not in {column.key for column in table.columns}


def test_layers_of_an_eager_run_are_compared_by_work(tmp_path):
    """GIVEN layers with one energy and other work, THEN they differ, and the chart is of their work."""
    run = build_run(tmp_path / "run", Shape(graded_work=True))
    report = Report(run)
    layers = [node for node in report.main.tree.nodes if node.level == "layer"]
    assert not energy.layer_range(report.main)["differ"]
    for at, node in enumerate(layers):
        for column in ("dynamic_mj", "dynamic_ci_low_mj", "dynamic_ci_high_mj"):
            node.row[column] *= 1 + at
    content = energy.section(report)
    figure = figures_of(content)["energy-by-layer"]
    assert figure.title == "Work of each layer"
    assert [row["work"] for row in figure.views[0].table.rows] == [node.dynamic for node in layers]


def test_what_launching_costs_is_of_all_energy(tmp_path):
    """GIVEN both executions and graded work, THEN bars are of energy, hollow where that is too noisy."""
    shape = Inference(layers=2, contexts=(1024,), graded_work=True, executions=("eager", "cuda-graph"))
    report = Report(build_inference(tmp_path / "run", shape))
    figure = figures_of(changes.section(report))["launching"]
    heads = [row for row in figure.views[0].table.rows if row["kind"] == "lm_head"]
    assert len(heads) == 2
    assert all(row["noisy"] == parts.is_noisy(row["energy"]) for row in figure.views[0].table.rows)
    assert [column.key for column in figure.views[0].table.columns][:3] == ["part", "series", "energy"]


def test_the_table_says_what_the_board_was_busy_with(tmp_path, full):
    """GIVEN a board with counters, THEN rows have shares and a limit; without, there is no such column."""
    table = components.component_table(Report(build_run(tmp_path / "run", Shape(activity=True))))
    row = next(row for row in table.rows if row["kind"] == "mlp")
    assert [table.column(key).text(row[key]) for key in ("limited_by", "sm", "tensor", "cuda_cores", "dram")] == [
        "tensor cores", "90 %", "70 %", "10 %", "30 %"
    ]  # fmt: skip
    keys = {column.key for column in components.component_table(Report(full)).columns}
    assert not keys & {"limited_by", "sm", "tensor", "dram", "memory_power"}


def test_downloads_are_the_files_as_they_are(full):
    """GIVEN the packed files, THEN unpacking gives their very bytes; what has no room is named without them."""
    files = {file.name: file for file in components.downloads(full.path)}
    packed = files["per_layer_energy.csv"].packed
    assert zlib.decompress(base64.b64decode(packed)) == (full.path / "per_layer_energy.csv").read_bytes()
    assert {"run.json", "benchmark_results.csv", "prediction_impact.csv"} <= set(files)


@pytest.mark.parametrize(
    ("share", "half", "level"),
    [
        (1.0, 0.01, "yes"),
        (0.85, 0.01, "partly"),
        (1.0, 0.3, "mostly"),
        (1.2, 0.02, "partly"),
        (0.94, 0.02, "mostly"),
    ],
)
def test_trust_follows_from_what_the_leaves_add_up_to(tmp_path, share, half, level):
    """GIVEN leaves that add up, do not, or might, THEN the verdict is yes, partly or mostly, not by level."""
    low, high = share - half, share + half
    leaves = {"dynamic": share, "dynamic_low": low, "dynamic_high": high, "energy": 1.0, "decides": "dynamic"}
    model = {"energy": 1.0, "energy_low": 0.99, "energy_high": 1.01, "with_glue": True}
    run = with_document(build_run(tmp_path / "run"), closure={"model": model, "leaves": leaves}, drift=None)
    verdict = trust.trust(Report(run))
    assert verdict.level == level
    assert verdict.checks.leaves == Interval(share, low, high)


@pytest.mark.parametrize(
    ("kinds", "level", "judged"),
    [
        ({"mlp": (24.0, 0.5), "attention": (15.2, 0.6)}, "yes", {"agrees": ["MLP", "attention"]}),
        (
            {"mlp": (34.0, 0.5), "attention": (15.2, 0.6)},
            "partly",
            {"disagrees": ["MLP"], "agrees": ["attention"]},
        ),
        ({"mlp": (34.0, 20.0), "attention": (15.2, 0.6)}, "mostly", {"unclear": ["MLP"], "agrees": ["attention"]}),
        ({"mlp": (24.0, 0.5)}, "mostly", {"agrees": ["MLP"], "unknown": ["attention"]}),
    ],
)
def test_trust_follows_from_the_model_without_the_costliest_blocks(tmp_path, kinds, level, judged):
    """GIVEN that the model without them agrees, disagrees, is noisy or was not measured, THEN trust says which."""
    replayed = {"mlp": 24.3, "attention": 15.4}
    differentials = {kind: differential(*saved, replayed[kind]) for kind, saved in kinds.items()}
    run = with_document(build_run(tmp_path / "run"), differential=differentials, drift=None)
    verdict = trust.trust(Report(run))
    assert (verdict.level, verdict.judged) == (level, judged)


def test_an_older_run_is_checked_by_its_table(tmp_path):
    """GIVEN a run from before leaves were added up, THEN its rows are: leaves and overhead, of all energy."""
    workload = Report(build_run(tmp_path / "run", Shape(old=True))).main
    opened = [node for node in workload.tree.nodes if node.children]
    summed = sum(node.energy.value for node in workload.tree.leaves) + sum(node.glue.value for node in opened)
    assert workload.checks.leaves.value == pytest.approx(summed / workload.energy.value)
    assert workload.checks.leaves.low < workload.checks.leaves.value < workload.checks.leaves.high
    assert workload.checks.name == "energy"


def test_modelled_joules_are_trusted_as_times_only(tmp_path):
    """GIVEN stated watts, THEN the verdict is no, whatever adds up."""
    assert trust.trust(Report(build_run(tmp_path / "run", Shape(modelled=True)))).level == "no"


@pytest.mark.parametrize(
    ("saved", "half", "verdict"),
    [
        (24.0, 0.5, "agrees"),
        (24.0, 20.0, "unclear"),
        (18.0, 0.5, "costlier in replay"),
        (34.0, 0.5, "cheaper in replay"),
    ],
)
def test_replay_is_judged_by_intervals(tmp_path, saved, half, verdict):
    """GIVEN 24.3 mJ in replay, THEN the model's saving agrees, or differs where intervals are apart."""
    entry = differential(saved, half, 24.3)
    run = with_document(build_run(tmp_path / "run"), differential={"mlp": entry})
    (row,) = trust.section(Report(run)).tables["replay-prefill"].rows
    assert (row["verdict"], row["grade"]) == (verdict, entry["quality"])
    (check,) = {row["check"] for row in Answer(Report(run)).breakdown.rows if row.get("kind") == "mlp"}
    assert check.startswith(verdict if verdict in {"agrees", "unclear"} else "24 % in replay, ")


def test_several_devices_are_listed(tmp_path):
    """GIVEN energies of two devices, THEN each has its own; where a component does not say, there is no sum."""
    sensor = {"devices": [{"device": "GPU-a"}, {"device": "GPU-b"}]}
    run = build_run(tmp_path / "run", Shape(), sensor=sensor)
    table = run.energy.copy()
    table["devices_mj"] = [f"{0.75 * energy};{0.25 * energy}" for energy in table["energy_mj"]]
    table.to_csv(run.path / "per_layer_energy.csv", index=False)
    report = Report(load_run(run.path))
    shares = [row["energy"] / report.main.energy.value for row in trust.section(report).tables["devices"].rows]
    assert shares == pytest.approx([0.75, 0.25])


def test_the_method_says_how_and_on_what(full):
    """GIVEN run.json, THEN its settings and versions are there in words, with units, and its command to copy."""
    content = method.section(Report(full))
    facts = {(row["part"], row["name"]): row["value"] for row in content.tables["settings"].rows}
    assert content.data["command"] == full.document["command"]
    assert facts["device", "power limit"].endswith("W")
    assert facts["model", "name"] == full.document["model"]["name"]


def test_the_method_says_in_words_what_the_sensor_lacks(tmp_path):
    """GIVEN notes on a sensor, which are codes, THEN the page has their words: why there is no activity, too."""
    notes = [reason("energy-counter"), reason("activity-unknown", why="this GPU has no GPM counters")]
    run = with_document(build_run(tmp_path / "run"), sensor={"meter": "nvml", "notes": notes})
    rows = method.section(Report(run)).tables["settings"].rows
    (said,) = [row["value"] for row in rows if (row["part"], row["name"]) == ("sensor", "notes")]
    assert said == ", ".join(note.words for note in notes)
    assert "what the GPU was busy with is unknown: this GPU has no GPM counters" in said


def test_an_older_method_is_named(tmp_path):
    """GIVEN a prefill in a CUDA graph of before a change of the method, THEN the page says what was mended."""
    run = with_document(build_run(tmp_path / "run", Shape(execution="cuda-graph")), method=None)
    assert method.section(Report(run)).data["older"]


def test_tables_of_a_run_are_all_of_its_sections(full):
    """GIVEN a page, THEN its tables by name are those that `show --table` knows, each with unique columns."""
    every = tables(RUN.shown(Report(full)))
    assert {"blocks-prefill", "changes", "benchmark", "impact", "energy", "trust", "settings"} <= set(every)
    for table in every.values():
        keys = [column.key for column in table.columns]
        assert len(keys) == len(set(keys))


def test_no_impact_is_no_section(tmp_path):
    """GIVEN a table of predictors alone, THEN there is no section of quality and no error."""
    run = build_run(tmp_path / "run", Shape(impact=False))
    assert quality.section(Report(run)) is None
    empty = pd.DataFrame(columns=["method", "metric"])
    assert quality.kinds_table(empty, "kl").rows == []


def test_older_coefficients_of_few_points_are_not_shown():
    """GIVEN a run of an older version with a coefficient of 4 points, THEN the table has the reason instead."""
    pair = {"x": "energy_mj", "y": "zero:kl"}
    older = {"correlations": [{**pair, "method": "pearson", "n": 4, "value": 0.28, "p_value": 0.9},
                              {**pair, "method": "kendall", "n": 9, "value": 0.5, "p_value": 0.1}]}  # fmt: skip
    few, enough = statistics.coefficients(older).rows
    assert (few["value"], few["p_value"], few["reason"].code) == (None, None, "too-few-points")
    assert (enough["value"].value, enough["p_value"], enough["reason"]) == (0.5, 0.1, None)


def test_the_matrix_holds_every_metric_and_says_why_a_coefficient_is_missing():
    """GIVEN metrics without a coefficient, THEN their cells stay, with the reason; none at all is no figure."""
    columns = ["energy_mj", "zero:kl", "int8:accuracy_difference", "skip:kl"]
    value = [[None] * 4 for _ in columns]
    value[1][0] = 0.5
    constant = 'axis-constant(axis="int8:accuracy_difference", points=9)'
    matrix = {
        "columns": columns, "energy_columns": columns[:1], "value": value,
        "n": [[20] * 4, [20] * 4, [9] * 4, [4] * 4],
        "reasons": {"int8:accuracy_difference|energy_mj": constant},
    }  # fmt: skip
    [figure] = statistics.matrix({"matrix": matrix})
    rows = figure.views[0].table.rows
    assert [row["value"] for row in rows] == [0.5, None, None]
    assert rows[0]["reason"] is None
    assert rows[1]["reason"] == constant
    assert "4" in words(rows[2]["reason"])
    assert not list(statistics.matrix({"matrix": {**matrix, "value": [[None] * 4 for _ in columns]}}))
