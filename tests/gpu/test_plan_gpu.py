"""A plan on a GPU: what is predicted of parts is what the whole takes, and rows decide. Seven minutes."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import tiny_models  # noqa: E402

import energyscope  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available() or torch.cuda.get_device_capability() < (8, 9), reason="needs a GPU with FP8"
    ),
]
WIDE = {
    "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 6, "num_attention_heads": 32,
    "num_key_value_heads": 8, "max_position_embeddings": 2048, "vocab_size": 4096,
}  # fmt: skip
WITHIN = 0.03  # of the whole, a prediction


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    root = tmp_path_factory.mktemp("plan")
    tiny_models.config("llama", **WIDE).save_pretrained(root / "wide")
    tiny_models.save_tokenizer(root / "wide", wrapped=False)
    return energyscope.run(
        str(root / "wide"), weights="random", precision="bf16", execution="cuda-graph", stages=("plan",),
        plan_precisions=("fp8", "int4"), workloads=("prefill", "decode"), sequence_length=1024,
        context_lengths=(512,), kv_cache="static", budget="kl 10", root=root, name="plan", levers=False,
    )  # fmt: skip


def plans(run):
    return {plan["phase"]: plan for plan in run.plan["workloads"]}


def test_rows_decide(run):
    """GIVEN 1,024 rows or one THEN FP8 for the first and INT4 for the other, and both save energy."""
    for phase, precision in (("prefill", "fp8"), ("decode", "int4")):
        plan = plans(run)[phase]
        assert plan["verdict"] == "saves"
        assert precision in {group["precision"] for group in plan["groups"]}
    elsewhere = {(one["plan"], one["at"]): one["energy"]["value"] for one in run.plan["elsewhere"]}
    assert elsewhere["decode:1", "prefill:1"] > 1.5  # INT4's kernel is for few rows


def test_the_whole_takes_what_its_parts_say(run):
    """GIVEN what was applied THEN the measured ratio is the predicted one."""
    for plan in plans(run).values():
        for choice in plan["choices"]:
            measured, predicted = choice["measured"]["energy"], choice["predicted"]["energy"]
            if measured is not None:
                assert abs(measured["value"] - predicted["value"]) < WITHIN, (plan["key"], choice["name"])


def test_every_precision_was_priced(run):
    """GIVEN both kernels THEN every family has a price at each, and no layer stayed as it was."""
    for plan in plans(run).values():
        assert {family["precision"] for family in plan["families"]} == {"bf16", "fp8", "int4"}
        assert all(family["energy_mj"] is not None for family in plan["families"])
        sizes = {(family["family"], family["precision"]): family["bytes"] for family in plan["families"]}
        assert all(sizes[family, "int4"] < sizes[family, "fp8"] < sizes[family, "bf16"] for family, _ in sizes)
