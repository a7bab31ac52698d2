"""A model split over processes computes what it computes as one, and its modules can be copied and counted."""

from __future__ import annotations

import copy
import os

import pytest
import torch
import torch.distributed as dist
from tiny_models import config, model_class, save_model
from torch import multiprocessing, nn

from energyscope.errors import DeviceError, UsageError
from energyscope.loading import load_model, parameter_count, tensor_parallel

pytestmark = pytest.mark.skipif(not dist.is_gloo_available(), reason="the processes talk by gloo")
IDS = torch.tensor([[2, 5, 6, 7, 3, 9, 4, 8]])
SIZES = {"num_attention_heads": 4, "num_key_value_heads": 2}


def meta(family, **changes):
    with torch.device("meta"):
        return model_class(family)(config(family, **changes))


def both(tmp_path, scenario, *more):
    multiprocessing.spawn(_joined, (str(tmp_path / "meeting"), scenario, more), nprocs=2)


def _joined(rank, meeting, scenario, more):
    os.environ |= {"GLOO_SOCKET_IFNAME": "lo", "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    scenario(*more)
    if dist.is_initialized():
        dist.destroy_process_group()  # its threads must not outlive the interpreter


def computes_the_same(folder):
    whole = load_model(folder, device="cpu")
    split = load_model(folder, device="cpu", tensor_parallel=True)
    with torch.inference_mode():
        expected, logits = (loaded.model(IDS, use_cache=False).logits for loaded in (whole, split))
    torch.testing.assert_close(logits, expected)
    assert split.ranks == 2
    assert (split.notes[0].code, split.notes[0].values) == ("split-over-processes", {"processes": 2})
    assert split.devices == (torch.device("cpu"),)
    mlp = split.model.model.layers[0].mlp
    assert all(type(weight) is nn.Parameter for weight in split.model.parameters())
    assert mlp.up_proj.weight.shape[0] * 2 == whole.model.model.layers[0].mlp.up_proj.weight.shape[0]
    assert parameter_count(split.model) < 0.7 * parameter_count(whole.model)
    given = torch.ones(1, 3, 16)
    with torch.inference_mode():
        alone = copy.deepcopy(mlp)
        torch.testing.assert_close(alone(given), mlp(given))
        alone.down_proj.weight.zero_()
        assert not alone(given).any()  # it computes with its own weights
        assert mlp(given).any()


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("tied", [True, False])
def test_shares_together_are_the_model(tmp_path, tied):
    """GIVEN a stored model THEN two processes compute its logits, a copied module as well, on plain tensors."""
    folder = save_model(tmp_path / "model", "llama", tie_word_embeddings=tied, vocab_size=28, **SIZES)
    both(tmp_path, computes_the_same, str(folder))


def is_drawn(folder):
    split = load_model(folder, device="cpu", tensor_parallel=True, weights="random", seed=3)
    with torch.inference_mode():
        logits = split.model(IDS, use_cache=False).logits
    assert logits.isfinite().all()
    assert logits.std() > 0
    first_rank = logits.clone()
    dist.broadcast(first_rank, 0)
    torch.testing.assert_close(logits, first_rank)
    head = split.model.get_output_embeddings().weight
    assert head.shape[0] == 14
    assert (head is split.model.get_input_embeddings().weight) == split.model.config.tie_word_embeddings


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("tied", [True, False])
def test_random_shares_are_drawn_without_the_whole(tmp_path, tied):
    """GIVEN random weights THEN each process draws its share alone, ties hold, and both compute one result."""
    folder = save_model(tmp_path / "model", "llama", tie_word_embeddings=tied, vocab_size=28, **SIZES)
    both(tmp_path, is_drawn, str(folder))


def test_a_model_without_a_plan_is_refused():
    """The line says what to do instead."""
    with pytest.raises(UsageError, match=r"no tensor-parallel plan for gpt2 .*--device-map"):
        tensor_parallel.check_plan("gpt2", meta("gpt2"), 2)


@pytest.mark.parametrize(("ranks", "instead"), [(3, "start 2 or 4 of them"), (8, "start 2 or 4 of them")])
def test_heads_that_cannot_be_divided_are_refused(ranks, instead):
    """The line names the numbers of processes that would do."""
    model = meta("llama", hidden_size=48, num_attention_heads=12, num_key_value_heads=4)
    with pytest.raises(UsageError, match=rf"12 heads of it, 4 of them .* over {ranks} processes: {instead}"):
        tensor_parallel.check_plan("it", model, ranks)
    tensor_parallel.check_plan("it", model, 2)


def test_a_way_of_splitting_that_cannot_be_replayed_is_refused():
    """GIVEN a plan with other styles than those of dense decoders THEN it is named."""
    model = meta("llama", **SIZES)
    model._tp_plan = {**model._tp_plan, "model.layers.*.mlp.experts": "moe_tp_experts"}
    with pytest.raises(UsageError, match="moe_tp_experts"):
        tensor_parallel.check_plan("it", model, 2)


def test_a_share_is_smaller_by_what_is_split():
    """Norms are whole in every process; what the plan names is divided; layer numbers stand for themselves."""
    model = meta("llama", tie_word_embeddings=False, **SIZES)
    whole = sum(weight.nbytes for weight in model.parameters())
    norms = sum(weight.nbytes for name, weight in model.named_parameters() if "norm" in name)
    embedding = model.get_input_embeddings().weight.nbytes
    plan = tensor_parallel.plan_of(model)
    kept = norms + (0 if "model.embed_tokens" in plan else embedding)
    assert tensor_parallel.share_bytes(model, 2) == kept + (whole - kept) // 2
    assert tensor_parallel.style_of("model.layers.1.mlp.up_proj", plan) == "colwise"
    assert tensor_parallel.style_of("model.norm", plan) is None


@pytest.mark.skipif(torch.cuda.is_available(), reason="there are GPUs")
def test_processes_without_gpus_share_the_cpu():
    """GIVEN no GPU THEN the device is the CPU, unless a GPU was asked for."""
    assert tensor_parallel.rank_device("auto", 1, 2) == torch.device("cpu")
    with pytest.raises(DeviceError, match="needs NVIDIA GPUs"):
        tensor_parallel.rank_device("cuda", 0, 2)
