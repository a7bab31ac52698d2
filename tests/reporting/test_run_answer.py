"""The first screen: which sentence, with which numbers."""

from __future__ import annotations

import json
import re

import pytest
from benchmark_builder import Bench
from generation_builder import Inference, build_inference
from run_builder import Shape, build_run, differential

from energyscope import format as fmt
from energyscope.reporting.run import parts
from energyscope.reporting.run.answer import Answer
from energyscope.reporting.run.quality import needs, ranking
from energyscope.reporting.run.report import Report
from energyscope.runs.store import RunStore, load_run


def answer(run):
    return Answer(Report(run))


def rewritten(run, change):
    """Return a run with its energy table changed."""
    table = run.energy.copy()
    change(table)
    table.to_csv(run.path / "per_layer_energy.csv", index=False)
    return load_run(run.path)


def with_document(run, **parts):
    """Return a run with parts of its run.json replaced."""
    RunStore.open(run.path).update(**parts)
    return load_run(run.path)


def waiting(table):
    table["static_mj"] = table["energy_mj"] * 0.8
    table["dynamic_mj"] = table["energy_mj"] * 0.2
    table["host_bound"] = True


def test_a_run_that_waits_is_told_by_work_and_idle_power(tmp_path):
    """GIVEN 80 % idle power while the host launches, THEN the sentence has both parts of the model's energy."""
    run = rewritten(build_run(tmp_path / "run"), waiting)
    facts, energy = answer(run).facts, Report(run).main.energy.value
    assert facts["case"] == "waits"
    assert (facts["work"].value, facts["idle"].value) == pytest.approx((0.2 * energy, 0.8 * energy))


@pytest.mark.parametrize(("execution", "advice"), [("eager", "a CUDA graph or larger"), ("cuda-graph", "larger")])
def test_a_cuda_graph_is_not_advised_to_a_cuda_graph(tmp_path, execution, advice):
    """GIVEN mostly idle power THEN what could be measured next is named, without what the run did already."""
    told = answer(rewritten(build_run(tmp_path / "run", Shape(execution=execution)), waiting))
    assert f": measure {advice} batches with --stages alternatives." in told.cause


@pytest.mark.parametrize(
    ("traffic", "named"), [(1.2, "Reading 1.00 MiB of weights"), (3.4, "Moving 3.40 MiB (1.00 MiB of weights)")]
)
def test_weights_set_the_pace_only_where_they_are_most_of_the_traffic(tmp_path, traffic, named):
    """GIVEN few FLOPs for each byte, THEN weights are named as the cause, or beside what is read otherwise."""

    def few_flops(table):
        table["flops"] = table["executed_flops"] = 1e6
        table["bytes"] = traffic * 2**20
        table["host_bound"] = False

    run = rewritten(build_run(tmp_path / "run", Shape(execution="cuda-graph")), few_flops)
    run = with_document(run, model={**Report(run).part("model"), "size_bytes": 2**20})
    assert answer(run).cause.startswith(f"{named} sets the pace")


def test_a_run_that_works_is_told_by_its_largest_blocks(tmp_path):
    """GIVEN mostly work, THEN the share of the energy that is work in the one or two largest blocks."""
    run = build_run(tmp_path / "run")
    facts = answer(run).facts
    assert facts["case"] == "blocks"
    assert facts["of_work"]
    blocks = {row["kind"]: row["work"].value for row in answer(run).breakdown.rows if not row.get("rest")}
    largest = sorted(blocks.values(), reverse=True)[: len(facts["blocks"])]
    assert facts["share"].value == pytest.approx(sum(largest) / Report(run).main.energy.value)


def eager(path, **shape):
    return answer(build_run(path, Shape(graded_work=True, host_bound=True, **shape)))


def test_an_eager_run_is_told_by_its_work(tmp_path):
    """GIVEN work known to 1.2 % and energy to 12 %, THEN sentence, numbers, chip and trust are of work."""
    told = eager(tmp_path / "run")
    root = told.report.main.tree.root
    work, (kinds, share) = root.dynamic, parts.costliest(told.report.main.tree, work=True)
    assert (
        f"takes {fmt.measured(work, 'mJ')} of work; {fmt.measured(share, 'share')} of it is in the"
        in told.sentence
    )
    blocks = {row["kind"]: row["work"].value for row in told.breakdown.rows}
    assert share.value == pytest.approx(sum(blocks[kind] for kind in kinds) / work.value)
    assert [stat.label for stat in told.stats] == [
        "Work per forward pass", "Work per 1,000 tokens", "Idle energy per forward pass", "Latency", "Mean power",
    ]  # fmt: skip
    assert told.chips[-1].text == "grade B, \u00b11.2 %"
    assert "the work is known to \u00b11.2 %" in told.trust
    assert told.figures[0].title == "Work by block"
    assert [view.when for view in told.figures[0].views] == [{"phase": "prefill"}]


def test_a_precision_that_wins_is_graded_by_its_ratio(tmp_path):
    """GIVEN trials that drift together THEN the chip is of the ratio; disturbed ones leave none."""
    run = build_run(tmp_path / "run", Shape(profile=False, impact=False, benchmark=Bench()))
    chips = []
    for reasons in ("wide-interval(half_width=0.3)", "other-process(pid=7)"):
        document = json.loads((run.path / "benchmark.json").read_text())
        for cell in document["cells"]:
            cell |= {"quality": "invalid", "reasons": reasons, "trials": 5}
            if cell["precision"] != document["baseline"]:
                value = cell["energy_ratio"]["value"]
                cell["energy_ratio"] = {"value": value, "low": 0.98 * value, "high": 1.02 * value}
        (run.path / "benchmark.json").write_text(json.dumps(document))
        chips.append(answer(load_run(run.path)).chips[-1].text)
    assert chips == ["grade B, \u00b12.0 %", "too noisy, \u00b10.5 %"]


def test_idle_energy_stands_beside_the_work_as_what_it_is(tmp_path):
    """GIVEN an eager run, THEN a sentence says what idle energy is, and whose time it is where known."""
    told = eager(tmp_path / "run")
    static = fmt.measured(told.report.main.tree.root.static, "mJ")
    assert told.idle == (
        f"Idle energy adds {static}: idle power x the host's time, a property of this host and minute, "
        "not of the model."
    )
    device_bound = answer(build_run(tmp_path / "device", Shape(graded_work=True)))
    assert device_bound.idle.endswith(": idle power x its time on this host.")
    assert told.record()["idle"] == told.idle


@pytest.mark.parametrize(
    "shape", [Shape(), Shape(graded_work=True, execution="cuda-graph")], ids=["earlier run", "CUDA graph"]
)
def test_all_other_runs_are_told_by_all_their_energy(tmp_path, shape):
    """GIVEN no graded work, or a CUDA graph, THEN the sentence is of all energy, and none is of idle energy."""
    told = answer(build_run(tmp_path / "run", shape))
    assert told.sentence.startswith(
        f"A pass over 128 tokens takes {fmt.quantity(told.facts['energy'].value, 'mJ')};"
    )
    assert told.idle == ""
    assert told.stats[0].label == "Energy per forward pass"
    assert [view.when["part"] for view in told.figures[0].views] == ["energy", "work", "idle"]


def test_a_token_of_an_eager_generation_is_that_of_the_graded_step(tmp_path):
    """GIVEN a trace, whose work has no interval, beside a step with graded work, THEN the step's work is told."""
    told = answer(build_inference(tmp_path / "run", Inference(layers=2, contexts=(1024,), graded_work=True)))
    assert told.facts["subject"] == "A generated token at 1,024 tokens of context"
    assert told.facts["work"] == told.report.main.tree.root.dynamic
    assert told.subject.per_token == told.facts["work"]


def test_a_page_of_both_executions_switches_between_work_and_all_energy(tmp_path):
    """GIVEN an eager workload beside its CUDA graph, THEN the switch begins with work, and each has all views."""
    shape = Inference(layers=2, contexts=(1024,), graded_work=True, executions=("eager", "cuda-graph"))
    told = answer(build_inference(tmp_path / "run", shape))
    assert [value for value, _ in told.report.part_dimension] == ["work", "idle", "energy"]
    assert [view.when["part"] for view in told.figures[0].views] == ["work", "idle", "energy"] * 4
    assert [label.endswith("of work)") for _, label in told.report.phase_dimension] == [True, False, True, False]


def test_a_share_that_the_model_contradicts_is_told_with_both_numbers(tmp_path):
    """GIVEN an MLP of 24 % in replay without which the model takes 34 % less, THEN sentence and trust say so."""
    run = with_document(build_run(tmp_path / "run"), differential={"mlp": differential(34.0, 0.5, 24.3)})
    told = answer(run)
    assert "By its own replay, MLP takes 24 % of the work; the model without it uses 34.0 % \u00b1 0.5 less." in (
        told.sentence
    )
    assert "the model without each contradicts the share of MLP, was not measured to check" in told.trust
    assert told.trust.startswith("With care")
    assert any("(\u221234 % without it)" in str(row.get("label")) for row in told.figures[0].views[0].table.rows)


def test_leaves_that_do_not_add_up_are_told_beside_the_share(tmp_path):
    """GIVEN leaves and overhead of 81 % of the model's work, THEN sentence, trust line and record say so."""
    leaves = {"energy": 0.99, "dynamic": 0.81, "dynamic_low": 0.78, "dynamic_high": 0.84, "decides": "dynamic"}
    told = answer(with_document(build_run(tmp_path / "run"), closure={"leaves": leaves}))
    assert "Leaves and overhead add up to 81 % \u00b1 3 of the work: shares are not sure." in told.sentence
    assert "leaves and overhead add up to 81 % \u00b1 3 of the model's work" in told.record()["trust"]


def test_what_could_not_be_checked_is_told(tmp_path):
    """GIVEN neither a sum nor a model without its blocks, THEN the trust line says that of both."""
    run = build_run(tmp_path / "run", Shape(glue=False))
    told = answer(with_document(run, closure={}, differential={}))
    assert "what leaves and overhead add up to could not be measured" in told.trust
    assert "the model without each was not measured to check the share of MLP and attention" in told.trust
    assert told.trust.startswith("Mostly")


def test_a_generation_is_told_by_its_token(tmp_path):
    """GIVEN a traced generation, THEN energy, work and idle are those of a traced token, which add up."""
    run = build_inference(tmp_path / "run", Inference(layers=2, contexts=(1024,)))
    facts = answer(run).facts
    traced = run.generation["rates"]["joules_per_generated_token"]["value"] * 1e3
    assert facts["subject"] == "A generated token"
    assert facts["energy"].value == pytest.approx(traced, rel=0.01)
    assert facts["work"].value + facts["idle"].value == pytest.approx(traced, rel=0.02)


def test_a_classifier_at_several_precisions_is_told_by_the_winner(tmp_path):
    """GIVEN a benchmark of a classifier, THEN the precision that saves most without a loss of accuracy."""
    bench = Bench(precisions=("fp32", "fp16", "bf16", "int8"), metric="accuracy")
    run = build_run(
        tmp_path / "run", Shape(benchmark=bench), model={"task": "classification", "metric": "accuracy"}
    )
    facts = answer(run).facts
    ratios = {
        cell["precision"]: cell["energy_ratio"]["value"] for cell in run.benchmark["cells"] if cell["energy_ratio"]
    }
    assert facts["case"] == "winner"
    assert facts["factor"] == pytest.approx(1 / ratios[facts["change"].value])
    assert facts["change"].degrades is not True
    assert facts["factor"] == pytest.approx(1 / min(ratios.values()), rel=0.2)


def test_a_benchmark_alone_is_told_by_its_winner(tmp_path):
    """GIVEN nothing but a benchmark, THEN precisions are the question, whatever the task."""
    shown = answer(build_run(tmp_path / "run", Shape(profile=False, impact=False, benchmark=Bench(metric=None))))
    assert shown.facts["case"] == "winner"
    assert shown.facts["metric"] is None
    assert "not judged" in shown.sentence


def test_where_no_precision_saves_none_is_praised(tmp_path):
    """GIVEN intervals of all ratios that include 1, THEN there is no winner."""
    run = build_run(tmp_path / "run", Shape(profile=False, impact=False, benchmark=Bench()))
    for cell in run.benchmark["cells"]:
        cell["energy_ratio"] = {"value": 0.9, "low": 0.7, "high": 1.2}
    assert answer(run).facts["case"] == "no-winner"


def test_a_run_with_nothing_measured_says_so(tmp_path):
    """GIVEN a failed profile, THEN no number, and the stage that failed."""
    run = build_run(tmp_path / "run", Shape(profile=False, impact=False))
    store = RunStore.open(run.path)
    store.document["stages"]["profile"] = {"state": "failed", "reason": "CUDA out of memory", "seconds": 1.0}
    store.update()
    shown = answer(load_run(run.path))
    assert shown.facts["case"] == "nothing"
    assert [stage["stage"] for stage in shown.alerts] == ["profile"]
    assert "profile" in shown.sentence
    assert shown.stats == []


@pytest.mark.parametrize("modelled", [False, True])
def test_what_must_not_be_overlooked_is_a_chip(tmp_path, modelled):
    """GIVEN random weights and modelled joules, THEN chips warn of both, and the sentence names MODELLED."""
    run = build_run(tmp_path / "run", Shape(modelled=modelled, impact=False), model={"weights": "random"})
    warnings = {chip.text for chip in answer(run).chips if chip.tone == "warn"}
    assert "random weights" in warnings
    assert ("MODELLED" in warnings) is modelled
    assert ("MODELLED" in answer(run).sentence) is modelled


def test_modelled_joules_stand_behind_what_was_measured(tmp_path):
    """GIVEN removals and a benchmark of a modelled run, THEN the sentence says what the predictions need.

    Time follows, with joules in brackets; the first number is the time.
    """
    shown = answer(build_run(tmp_path / "run", Shape(modelled=True, benchmark=Bench(modelled=True))))
    assert re.fullmatch(
        r"Removing .* changes the predictions least \(KL divergence \S+ nats\), removing .* most \(\S+\); "
        r"the whole model in INT8 keeps .* of them \(\d+ examples\)\.",
        shown.sentence,
    )
    assert re.search(r"takes \S+ (µs|ms) \(\S+ m?J MODELLED\)", shown.cause)
    assert shown.stats[0].label == "Latency"


def test_what_is_removed_is_named_with_its_value(tmp_path):
    """GIVEN removals of blocks, THEN the least and the most are the ends of the valid ones in the table."""
    run = build_run(tmp_path / "run", Shape(modelled=True))
    found = needs(Report(run))
    table = run.impact[(run.impact["method"] == "zero") & (run.impact["metric"] == "kl") & run.impact["valid"]]
    blocks = table[table["kind"].isin(["attention", "mlp", "norm", "embedding", "lm_head"])]
    assert found["least"]["value"] == blocks["value"].min()
    assert found["most"]["value"] == blocks["value"].max()
    assert found["kept"] is None  # no benchmark judged the whole model


def test_blocks_whose_intervals_overlap_are_named_together(tmp_path):
    """GIVEN removals with intervals that overlap the smallest THEN all are named; of many, none is the least."""

    def least(width):
        def change(table):
            table["ci_low"], table["ci_high"] = table["value"] * (1 - width), table["value"] * (1 + width)

        run = build_run(tmp_path / f"run-{width}", Shape(layers=4, modelled=True))
        change(run.impact)
        return needs(Report(run))

    narrow = least(0.0)
    assert len(narrow["least"]["names"]) == 1
    assert least(0.9)["least"]["names"] == []
    rows = run_blocks(build_run(tmp_path / "run", Shape(layers=4, modelled=True)))
    second = rows["value"].iloc[1]
    apart = second / rows["value"].iloc[0] - 1
    assert len(least(apart)["least"]["names"]) > 1


def run_blocks(run):
    """Return the valid removals of blocks by KL divergence, the smallest first."""
    table = run.impact[(run.impact["method"] == "zero") & (run.impact["metric"] == "kl") & run.impact["valid"]]
    blocks = ["attention", "mlp", "norm", "embedding", "lm_head"]
    return table[table["kind"].isin(blocks)].sort_values("value")


def test_layers_are_ranked_where_nothing_in_them_was_removed(tmp_path):
    """GIVEN a coarse run THEN layers are among the blocks, and what is needed most is not among the safest."""
    run = build_run(tmp_path / "run", Shape(layers=3, granularity="coarse", modelled=True))
    names = [name for end in ("least", "most") for name in needs(Report(run))[end]["names"]]
    ranked = [entry for entry in ranking(Report(run)) if entry["family"] == "remove"]
    assert any(name.startswith("layer ") for name in [*names, *ranked[0]["least"], *ranked[0]["most"]])
    assert all(not set(entry["least"]) & set(entry["most"]) for entry in ranked)


def test_the_ranking_needs_no_energy(tmp_path):
    """GIVEN impact of a modelled run of which every energy is too noisy, THEN the ranking stands all the same."""
    run = build_run(tmp_path / "run", Shape(modelled=True))
    noisy = rewritten(
        build_run(tmp_path / "noisy", Shape(modelled=True)), lambda table: table.__setitem__("quality", "invalid")
    )
    assert answer(run).ranking
    assert answer(noisy).ranking == answer(run).ranking


def test_stats_carry_errors_and_joules_per_thousand_tokens(tmp_path):
    """GIVEN a pass over 128 tokens, THEN four or five numbers, that of 1,000 tokens being 1000/128 of the pass."""
    run = build_run(tmp_path / "run")
    stats = answer(run).stats
    assert 4 <= len(stats) <= 5
    assert stats[0].error.startswith("±")
    assert any("kWh" in stat.label for stat in stats)
    energy = Report(run).main
    assert energy.per_token.value * 128 == pytest.approx(energy.energy.value)


RUNS = {
    "pass": lambda path: build_run(path, Shape(benchmark=Bench())),
    "modelled": lambda path: build_run(path, Shape(modelled=True)),
    "generation": lambda path: build_inference(path, Inference(layers=2, contexts=(1024,))),
    "benchmark": lambda path: build_run(path, Shape(profile=False, impact=False, benchmark=Bench())),
    "waits": lambda path: rewritten(build_run(path), waiting),
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_the_sentence_is_short(tmp_path, name):
    """GIVEN any run, THEN its sentence has at most 20 words, and two numbers with a unit beside precisions."""
    shown = answer(RUNS[name](tmp_path / "run"))
    for text in (shown.sentence, shown.cause):
        words = [word for word in text.split() if re.search(r"\w", word)]
        assert len(words) <= 24, text
        assert len(re.findall(r"(?<![\w.])\d[\d.,]*(?= ?(?:%|[a-zµ]?J\b|x\b))", text)) <= 2, text
