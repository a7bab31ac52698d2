"""On a real NVIDIA GPU: eager execution, a CUDA graph and a compiled step of a decode, by joules per token.

Run with `pytest -m gpu tests/gpu`.
"""

from __future__ import annotations

import pytest
import tiny_models

torch = pytest.importorskip("torch")

from energyscope.loading import load_model  # noqa: E402
from energyscope.metering.choice import open_meter  # noqa: E402
from energyscope.metering.group import MeterGroup  # noqa: E402
from energyscope.stages.alternatives import AlternativesSettings, alternatives, recover  # noqa: E402
from energyscope.stages.facts import gpu_uuid  # noqa: E402
from energyscope.workloads import profile_inputs  # noqa: E402

pytestmark = pytest.mark.gpu

SHAPE = {
    "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 512,
}  # fmt: skip


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("llama")
    return load_model(str(tiny_models.save_model(folder, "llama", **SHAPE)), precision="bf16", device="cuda")


@pytest.fixture(scope="module")
def document(loaded):
    """Return the alternatives to eager decode steps of one sequence, and to its prefill."""
    entries: list = []
    settings = AlternativesSettings(batch_sizes=(4,), context_lengths=(64,), passes=3, budget_s=300.0)
    with MeterGroup([open_meter("auto", gpu_uuid=gpu_uuid(loaded.device))]) as meter:
        prompt = profile_inputs(loaded, sequence_length=32)
        alternatives(loaded, prompt, meter, settings, context_length=256, journal=entries.append)
    return recover(entries)


def decode(document):
    return {row["value"]: row for row in document["rows"] if row["phase"] == "decode"}


def test_a_graph_takes_fewer_joules_than_eager_launches(document):
    """GIVEN a small model, which launches bound, THEN its step in a CUDA graph has a ratio below 1."""
    row = decode(document)["cuda-graph"]
    assert (row["execution"], row["kv_cache"]) == ("cuda-graph", "static")
    assert row["ratio"]["high"] < 1
    assert row["setup_s"] > 0


def test_a_compiled_step_is_measured_in_one_piece(document):
    """The compiled step has all windows, the seconds of compiling, and was not broken into parts."""
    row = decode(document)["torch-compile"]
    assert row["windows"] == 3
    assert row["setup_s"] > 0.1
    assert "broke the step" not in row["reasons"]
    assert row["ratio"]["value"] < 1


def test_a_prefill_in_a_graph_is_measured(document):
    """The prompt's pass has a row in a CUDA graph too."""
    (row,) = [one for one in document["rows"] if one["phase"] == "prefill" and one["value"] == "cuda-graph"]
    assert row["ratio"]["value"] < 1


def test_static_energy_is_a_part_of_all_energy(document):
    """GIVEN a measured idle power THEN each row's static energy is above 0 and below its energy."""
    assert document["idle_w"] > 0
    for row in document["rows"]:
        assert 0 < row["static_mj"] < row["energy_mj"]["value"]


def test_the_model_is_left_as_it_was(document, loaded):
    """The attention implementation is the model's own, and a step still runs."""
    assert loaded.model.config._attn_implementation == document["base"]["attention"]
    with torch.inference_mode():
        loaded.model(**profile_inputs(loaded, sequence_length=8).inputs)
