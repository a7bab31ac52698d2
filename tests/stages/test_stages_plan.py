"""A plan from beginning to end: a real model on modelled joules, its journal and its file."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

import energyscope
from energyscope import bundled
from energyscope.changes.savings import levers
from energyscope.errors import DataError, ModelError, RunError, UsageError
from energyscope.loading import load_model
from energyscope.loading.options import BY_TORCH
from energyscope.planning.record import STILL, TOGETHER, PlanRecord, to_judge
from energyscope.planning.replaying import MODEL, applied_target
from energyscope.reasons import read
from energyscope.runs.store import read_journal
from energyscope.settings.run import RunSettings
from energyscope.stages import plan, plan_replays
from energyscope.workloads import load_evaluation
from energyscope.workloads.evaluation import halves

SHORT = {
    "passes": 2, "window_s": 0.02, "stages": ("plan",), "max_examples": 30, "meter": "modelled", "levers": False,
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _short_texts(tmp_path_factory):
    """Let plans be judged on the first words of texts: a pass over whole ones takes seconds in INT4 on a CPU."""
    lines = (bundled.directory("tiny-gpt2") / "evaluation.jsonl").read_text(encoding="utf-8").splitlines()
    words = [json.loads(line)["text"].split()[:12] for line in lines[:100]]
    file = tmp_path_factory.mktemp("data") / "short.jsonl"
    file.write_text("\n".join(json.dumps({"text": " ".join(text)}) for text in words), encoding="utf-8")
    SHORT["data"] = str(file)


STEPS, ESTIMATES = [], {}  # of the run below: what its stages reported, and what was estimated before them


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    def step(stage, label, done, total):
        STEPS.append((stage, label, done, total))

    return energyscope.run(
        "tiny-gpt2", **SHORT, budget="perplexity +2%", name="plan", root=tmp_path_factory.mktemp("runs"),
        progress=step, on_open=lambda _, estimates: ESTIMATES.update(estimates),
    )  # fmt: skip


def first(run):
    """Return the plan of the first workload."""
    return run.plan["workloads"][0]


def named(choices, name):
    """Return the choice of a name."""
    return next(choice for choice in choices if choice["name"] == name)


def everywhere(run, precision):
    """Return a plan document with one precision for all groups."""
    groups = [{**group, "precision": precision} for group in first(run)["groups"]]
    return {**run.plan, "workloads": [{**first(run), "verdict": "saves", "groups": groups}]}


def record_of(run):
    return PlanRecord([entry for entry in read_journal(run.path) if entry.get("stage") == "plan"])


def test_a_precision_is_measured_again_without_groups_that_it_leaves_no_saving(tmp_path, monkeypatch):
    """GIVEN a precision that saves nothing in attention once all have it THEN it is measured in the MLPs alone."""

    def saving(record, group, precision, _objective):
        return 1.0 if group.kind.startswith("mlp") or not record.together_in(TOGETHER, precision) else -1.0

    monkeypatch.setattr(PlanRecord, "saving", saving)
    run = energyscope.run(
        "tiny-gpt2", **SHORT, budget="perplexity +2%", plan_precisions=("int8",), name="again", root=tmp_path
    )
    record = record_of(run)
    families = {group.family: group.kind for group in record.groups}
    assert {families[family] for family in record.together_in(STILL, "int8")} == {"mlp.up", "mlp.down"}
    assert set(record.measured(STILL)) == {MODEL.key, applied_target("all int8").key}
    still, others = record.prediction.together["int8"]
    assert {families[family].split(".")[0] for family in others.families} == {"attention"}
    assert set(still.families) | set(others.families) == set(families)
    assert others.others is still


def test_everything_that_a_plan_needs_is_journalled(run):
    """GIVEN 16 groups at 3 precisions THEN prices of each family, harms of what may be chosen, whole choices."""
    record = record_of(run)
    assert record.precisions == ["fp32", "bf16", "int8", "int4"]
    assert len(record.groups) == 16
    assert len(record.priced_bytes) == 4 * 4
    assert not record.all("not_priced")
    judged = [(group.name, precision) for group, precision in to_judge([record], "energy")]
    assert [(item["group"], item["precision"]) for item in record.all("harms")] == judged
    assert {("int8", group.name) for group in record.groups} <= {(name, group) for group, name in judged}
    assert all(item["sums"] is not None for item in record.all("harms"))
    names = [tried.name for tried in record.tried]
    assert names[:4] == ["all bf16", "all int8", "all int4", "MLP to 8 bits"]
    assert {"random 1", "random 2", "random 3"} <= set(names)


def test_a_plan_has_the_steps_that_were_estimated(run):
    """GIVEN the estimate of a run THEN its parts are those that report, in their order, with as many windows."""
    parts = list(dict.fromkeys(stage.removeprefix("plan: ") for stage, *_ in STEPS if stage.startswith("plan: ")))
    estimated = {time.part: time for time in ESTIMATES["plan"]}
    assert [part for part in parts if part in estimated] == [part for part in estimated if part in parts]
    assert set(parts) - set(estimated) == {"predictions"}
    firsts = {stage: total for stage, label, _, total in reversed(STEPS) if label == "preheating"}
    assert firsts["plan: prices"] == 1 + 2 * (1 + 4 * 4) < estimated["prices"].steps_most  # with repeated ones
    assert firsts["plan: verification"] <= estimated["verification"].steps_most
    judged = {total for stage, _, _, total in STEPS if stage == "plan: sensitivity"}
    assert judged == {len(record_of(run).all("harms"))}
    assert max(judged) <= estimated["sensitivity"].steps_most
    assert run.document["stages"]["plan"]["state"] == "done"


def test_the_document_is_what_the_journal_says(run):
    """GIVEN the journal alone THEN the file follows from it; halves are of the same size, and disjoint."""
    assert run.plan == json.loads(json.dumps(plan.document.document(record_of(run))))
    assert run.plan["examples"] == [15, 15]
    assert first(run)["verdict"] in {"saves", "keep", "over budget"}
    assert run.document["stages"]["plan"]["state"] == "done"
    prices = {(row["kind"], row["precision"]): row["energy_mj"]["value"] for row in first(run)["families"]}
    assert len(prices) == 16
    assert min(prices.values()) > 0


def loss(model, evaluation):
    """Return the mean loss of a token, by plain arithmetic."""
    total, count = 0.0, 0
    for batch in evaluation.batches:
        with torch.no_grad():
            logits = model(**batch).logits[:, :-1].double()
        targets, mask = batch["input_ids"][:, 1:], batch["attention_mask"][:, 1:].bool()
        chosen = logits.log_softmax(-1).gather(-1, targets[..., None])[..., 0]
        total, count = total - float(chosen[mask].sum()), count + int(mask.sum())
    return total / count


def test_harms_are_those_of_the_applied_layers(run):
    """GIVEN INT4 everywhere THEN its harm is the loss that a model with those layers adds on the first half."""
    int4 = named(first(run)["choices"], "all int4")
    loaded = load_model("tiny-gpt2", device="cpu")
    half, _ = halves(load_evaluation(loaded, data=SHORT["data"], max_examples=30))
    before = loss(loaded.model, half)
    after = loss(energyscope.apply_plan(loaded.model, everywhere(run, "int4")), half)
    assert int4["harm"] == pytest.approx(after - before, abs=1e-6)
    assert run.plan["baseline"] == pytest.approx(math.exp(before), rel=1e-5)
    assert int4["measured"]["memory"]["value"] < 0.4


def test_a_plan_is_applied_elsewhere(run):
    """GIVEN the file THEN its layers take the place of the linears of a model that is loaded anew."""
    fresh = load_model("tiny-gpt2", device="cpu").model
    ids = torch.arange(20)[None]
    with torch.no_grad():
        before = fresh(input_ids=ids).logits
        document = everywhere(run, "int8")
        after = energyscope.apply_plan(fresh, document)(input_ids=ids).logits
    assert 0 < float((after - before).norm() / before.norm()) < 0.1
    assert energyscope.apply_plan(load_model("tiny-gpt2", device="cpu").model, run.path, force=True) is not None


def test_a_plan_for_another_model_is_refused(run, tmp_path):
    """GIVEN another model, another type, or no plan THEN one line, and the model stays as it is."""
    document = everywhere(run, "int8")
    llama = load_model("tiny-llama", device="cpu").model
    with pytest.raises(ModelError, match=r"for tiny-gpt2, and this model has no linear transformer\.h\.0"):
        energyscope.apply_plan(llama, document)
    half = load_model("tiny-gpt2", device="cpu", precision="bf16").model
    with pytest.raises(ModelError, match="load it with dtype=float32"):
        energyscope.apply_plan(half, document)
    with pytest.raises(RunError, match="holds no plan"):
        energyscope.apply_plan(half, _written(tmp_path / "other.json", {"a": 1}))
    with pytest.raises(RunError, match="newer energyscope"):
        energyscope.apply_plan(half, _written(tmp_path / "new.json", {"schema": 99}))
    kept = {**document, "workloads": [{**document["workloads"][0], "verdict": "keep"}]}
    with pytest.raises(UsageError, match="the plan's verdict is 'keep': give force=True"):
        energyscope.apply_plan(half, kept)
    with pytest.raises(UsageError, match="the plan is for prefill:1, not for decode:1"):
        energyscope.apply_plan(half, document, workload="decode:1")
    with pytest.raises(RunError, match="cannot be read as a plan"):
        energyscope.apply_plan(half, tmp_path / "missing.json")


def _written(path, document):
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_random_weights_are_judged_by_their_outputs(tmp_path):
    """GIVEN random weights THEN random tokens and a KL budget; a budget of perplexity is refused beforehand."""
    options = {**SHORT, "weights": "random", "plan_precisions": ("bf16",), "root": tmp_path}
    run = energyscope.run("tiny-gpt2", **options, name="random")
    assert (run.plan["budget"]["metric"], run.plan["data"]) == ("kl", "random tokens")
    assert [choice["name"] for choice in first(run)["choices"]][:2] == ["plan", "all bf16"]
    with pytest.raises(UsageError, match=r'these are random: use --budget "kl 0\.01"'):
        RunSettings.of("tiny-gpt2", weights="random", stages=("plan",), budget="accuracy -1%").check()


def test_every_workload_has_prices_and_a_plan(tmp_path):
    """GIVEN a prompt and decode steps of two batches THEN each is priced, planned for and verified by itself."""
    options = {
        **SHORT,
        "plan_precisions": ("bf16",),
        "root": tmp_path,
        "context_lengths": (16,),
    }
    run = energyscope.run("tiny-llama", **options, workloads=("prefill", "decode", "decode:4"), name="several")
    plans = run.plan["workloads"]
    assert [plan["key"] for plan in plans] == ["prefill:1", "decode:1", "decode:4"]
    assert [plan["tokens"] for plan in plans] == [128, 16, 16]
    wholes = [plan["whole"]["time_us"]["value"] for plan in plans]
    assert wholes[0] > 1.2 * wholes[1]
    assert len({plan["families"][0]["energy_mj"]["value"] for plan in plans}) == 3
    assert len(run.plan["elsewhere"]) == 9
    harms = [(harm["group"], harm["precision"]) for harm in record_of(run).all("harms")]
    assert len(set(harms)) == len(harms) <= 20  # predictions know of no workload


def test_levers_are_measured_with_the_layers_in_place(tmp_path, monkeypatch):
    """GIVEN a choice that is said to save THEN other batches are measured with it; the model is as it was then."""
    seen = []
    monkeypatch.setattr(plan.document, "_verdict", lambda _: "saves")
    monkeypatch.setattr(plan.document, "_adopted", lambda choices: named(choices, "all bf16"))
    inner = plan_replays.alternatives

    def watched(loaded, *args, **options):
        seen.append([path for path, module in loaded.model.named_modules() if "forward" in vars(module)])
        inner(loaded, *args, **options)

    monkeypatch.setattr(plan_replays, "alternatives", watched)
    options = {**SHORT, "levers": True, "plan_precisions": ("bf16",), "phase": "prefill", "root": tmp_path}
    run = energyscope.run("tiny-gpt2", **options, budget="perplexity +50%", name="levers")
    assert len(seen[0]) == 16  # every linear of the four layers
    rows = first(run)["levers"]["rows"]
    assert {(row["what"], row["value"]) for row in rows} >= {("base", "base"), ("batch_size", "4")}
    assert {row["phase"] for row in rows} == {"prefill"}  # the workload's own, of a model that decodes too
    found = levers(run)
    assert {lever.change.what for lever in found} >= {"batch_size"}
    assert all(lever.change.modelled for lever in found)


@pytest.mark.parametrize(
    ("verdict", "form", "precisions", "code"),
    [
        ("saves", None, BY_TORCH, "exported-compressed-tensors"),
        ("saves", "torchao", ("w8a16",), "exported-torchao"),
        ("saves", None, ("nf4",), "exported-bitsandbytes"),
        ("keep", None, ("w8a16",), "plan-not-exported"),
    ],
)
def test_a_plan_that_saves_is_exported(tmp_path, monkeypatch, verdict, form, precisions, code):
    """GIVEN --export THEN what the format holds is chosen from, and a folder is written where the plan saves."""
    monkeypatch.setattr(plan.document, "_verdict", lambda _: verdict)
    monkeypatch.setattr(plan.document, "_adopted", lambda choices: named(choices, f"all {precisions[-1]}"))
    folder = tmp_path / "exported"
    options = {**SHORT, "root": tmp_path, "phase": "prefill"}
    asked = {"export_format": form, "plan_precisions": () if precisions == BY_TORCH else precisions}
    run = energyscope.run(
        "tiny-llama", **options, **asked, budget="loss +9", name="e", export=folder, command="energyscope plan x"
    )
    assert run.plan["precisions"] == ["fp32", *precisions]
    assert folder.exists() == (verdict == "saves")
    notes = [read(text) for text in run.document["warnings"]]
    assert code in [note.code for note in notes]
    if verdict == "saves":
        assert "- Command: `energyscope plan x`" in (folder / "README.md").read_text(encoding="utf-8")
        assert str(folder) in notes[-1].words


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"precision": "int8"}, UsageError, "quantized already"),
        ({"plan_precisions": ("fp32",)}, UsageError, "no precision is possible here but fp32$"),
        ({"budget": "nonsense"}, UsageError, "cannot be read"),
        ({"export": Path("x"), "plan_precisions": ("bf16",)}, UsageError, "bf16 cannot be exported"),
        (
            {"export": Path("x"), "plan_precisions": ("int8", "nf4")},
            UsageError,
            "one precision beside the model's",
        ),
        (
            {"export": Path("x"), "export_format": "bitsandbytes"},
            UsageError,
            "one precision beside the model's own",
        ),
        ({"export": Path("x"), "export_format": "gguf"}, UsageError, "--export-format 'gguf' is not known"),
        ({"export_format": "torchao"}, UsageError, "--export-format is for --export FOLDER"),
        ({"export": Path(), "budget": "kl 1"}, UsageError, "--export . exists: name a new folder"),
        ({"workloads": ("decode:0",)}, UsageError, "name some of prefill, decode, decode:32"),
        ({"budget": "accuracy -0.01%"}, DataError, "each half of the data needs 30,000"),
        (
            {"budget": "kl 1", "weights": "random", "max_examples": 24},
            DataError,
            "24 examples are too few to plan on: it takes 30",
        ),
    ],
)
def test_what_cannot_be_planned_is_said_in_one_line(tmp_path, options, error, words):
    """GIVEN a quantized model, no choice, no budget or too few data THEN one line with what to do."""
    with pytest.raises(error, match=words):
        energyscope.run("tiny-gpt2", **{**SHORT, **options}, name="refused", root=tmp_path)


def test_the_usual_budget_is_one_that_the_data_can_show(tmp_path):
    """GIVEN 60 answers and no budget THEN the narrowest loss of accuracy that 30 of them can show."""
    options = {**SHORT, "data": None, "max_examples": 60, "plan_precisions": ("bf16",), "root": tmp_path}
    run = energyscope.run("tiny-distilbert", **options, name="usual")
    assert run.plan["budget"]["text"] == "accuracy -10%"
    assert run.plan["examples"] == [30, 30]


def test_answers_are_tokens_of_a_language_model(tmp_path):
    """GIVEN 60 texts or 60 classified ones THEN the first have enough answers for 1 %, and the others have not."""
    options = {
        **SHORT,
        "data": None,
        "max_examples": 60,
        "plan_precisions": ("bf16",),
        "budget": "accuracy -1%",
        "phase": "prefill",
        "root": tmp_path,
    }
    run = energyscope.run("tiny-gpt2", **options, name="texts")
    record = record_of(run)
    assert sum(record.tried[0].harm.weights) > 300
    assert run.plan["examples"] == [30, 30]
    with pytest.raises(DataError, match=r"30 answers in half of the data are too few .* needs 300"):
        energyscope.run("tiny-distilbert", **options, name="classes")


def test_a_budget_asks_for_a_plan():
    """GIVEN --budget and the usual stages THEN the plan is one of them; named stages are left as they are."""
    assert "plan" in RunSettings.of("tiny-gpt2", budget="kl 1").stages
    assert "plan" not in RunSettings.of("tiny-gpt2").stages
    assert RunSettings.of("tiny-gpt2", budget="kl 1", stages=("profile",)).stages == ("profile",)


@pytest.mark.parametrize(
    ("model", "options", "error", "words"),
    [
        ("tiny-gpt2", {"precision": "int8"}, UsageError, "quantized already"),
        ("tiny-gpt2", {"plan_precisions": ("fp32",)}, UsageError, "no precision is possible here but fp32$"),
        ("tiny-gpt2", {"budget": "accuracy -0.01%"}, DataError, "too few to see accuracy"),
        ("tiny-gpt2", {"skip_modules": ("transformer",)}, UsageError, "there is nothing to plan"),
        (
            "tiny-distilbert",
            {"workloads": ("decode",), "data": None},
            UsageError,
            "generates no text, which cannot be planned: use --workloads prefill",
        ),
        ("tiny-gpt2", {"export": Path("x")}, ModelError, r"is a Conv1D, .* with energyscope\.apply_plan"),
        ("tiny-gpt2", {"export": Path("x"), "export_format": "torchao"}, ModelError, "torchao has Linear only"),
        ("tiny-gpt2", {"workloads": ("decode",), "context_lengths": (9999,)}, UsageError, r"9,?999"),
    ],
)
def test_what_cannot_be_planned_is_refused_before_anything_is_measured(tmp_path, model, options, error, words):
    """GIVEN stages before the plan and what no plan can be made of THEN the refusal comes before a run begins."""
    stages = ("profile", "ablate", "plan")
    with pytest.raises(error, match=words):
        energyscope.run(model, **{**SHORT, **options, "stages": stages}, name="early", root=tmp_path)
    assert not (tmp_path / "early").exists()
