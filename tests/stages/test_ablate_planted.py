"""Impact finds what training has put into a model: a block that carries the answer, and one that carries none.

A GPT-2 of three layers learns to repeat texts of a period of four. While it is trained, its blocks are left out at
random, except for one attention: only that one can be relied on, and it learns to look four tokens back. One MLP
decays to next to nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from energyscope_adapters import gpt2
from torch import Tensor, nn
from torch.nn import functional
from transformers import GPT2Config, GPT2LMHeadModel

from energyscope.components import component_tree
from energyscope.impact.examples import unpack
from energyscope.impact.metrics import Outcomes, bootstrap, estimate
from energyscope.stages.ablate import ablate
from energyscope.workloads import Evaluation

pytestmark = pytest.mark.slow

WORDS, PERIOD, LENGTH = 16, 4, 20
STEPS, BATCH, KEPT = 150, 64, 0.5
DECAY = 30.0  # times the learning rate of 0.003: a tenth of each weight is lost in a step
CRITICAL, USELESS = "transformer.h.1.attn", "transformer.h.1.mlp"
ON_ITS_WAY = {
    "transformer.wte", "transformer.wpe", "transformer.h.0", "transformer.h.1", "transformer.h.1.ln_1",
    "transformer.h.2", "transformer.ln_f", "lm_head",
}  # fmt: skip
REMOVALS = ("zero", "mean", "resample")
NEGLIGIBLE = 1e-6  # nats for each token, of an original that is about 1e-2 nats from certain

Impacts = dict[tuple[str, str], Outcomes]


def texts(count: int, seed: int) -> Tensor:
    first = torch.randint(1, WORDS, (count, PERIOD), generator=torch.Generator().manual_seed(seed))
    return first.repeat(1, LENGTH // PERIOD)


def blocks(model: GPT2LMHeadModel) -> dict[str, nn.Module]:
    return {name: module for name, module in model.named_modules() if name.endswith((".attn", ".mlp"))}


def trained() -> GPT2LMHeadModel:
    torch.manual_seed(0)
    sizes = {"n_layer": 3, "n_embd": 32, "n_head": 2, "n_positions": LENGTH, "bos_token_id": 0, "eos_token_id": 0}
    without = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=WORDS, **sizes, **without))
    dying = list(blocks(model)[USELESS].parameters())
    others = [weight for weight in model.parameters() if all(weight is not weak for weak in dying)]
    groups = [{"params": dying, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.01}]
    optimizer = torch.optim.AdamW(groups, lr=3e-3)
    hooks = [
        module.register_forward_hook(leave_out_at_random)
        for name, module in blocks(model).items()
        if name != CRITICAL
    ]
    for step in range(STEPS):
        batch = texts(BATCH, seed=1000 + step)
        logits = model(input_ids=batch, use_cache=False).logits[:, PERIOD - 1 : -1]
        optimizer.zero_grad()
        functional.cross_entropy(logits.flatten(0, 1), batch[:, PERIOD:].flatten()).backward()
        optimizer.step()
    for hook in hooks:
        hook.remove()
    return model.eval()


def leave_out_at_random(_module: nn.Module, _args: Any, output: Any) -> Any:
    if bool(torch.rand(()) < KEPT):
        return output
    if isinstance(output, tuple):
        return (torch.zeros_like(output[0]), *output[1:])
    return torch.zeros_like(output)


@pytest.fixture(scope="module")
def impacts() -> Impacts:
    """Return the outcomes on texts that training has not seen, by (component, method)."""
    torch.set_num_threads(1)
    with torch.random.fork_rng([]):
        model = trained()
    batches = tuple({"input_ids": ids, "attention_mask": torch.ones_like(ids)} for ids in texts(64, 1).split(16))
    evaluation = Evaluation(source="planted", task="next-token", batches=batches, labels=None, examples=64)
    entries: list[Mapping[str, Any]] = []
    tree = component_tree(model, gpt2.adapter, "medium")
    ablate(model, tree, evaluation, methods=(*REMOVALS, "int8"), journal=entries.append)
    changes = [entry for entry in entries if "rows" in entry]
    valid = [entry for entry in changes if entry["rows"][0].valid and entry["examples"]]
    return {(entry["rows"][0].component, entry["rows"][0].method): unpack(entry["examples"]) for entry in valid}


def ranked(impacts: Impacts, method: str) -> list[str]:
    """Return the components by their KL divergence, the largest first."""
    values = {
        name: estimate("kl", outcomes).value or 0.0 for (name, how), outcomes in impacts.items() if how == method
    }
    return sorted(values, key=values.__getitem__, reverse=True)


def lead(first: Outcomes, second: Outcomes) -> float:
    """Return by how much the first divergence is larger at least: the lower end of the paired difference."""
    low = bootstrap(lambda weights: weights @ (first.kl - second.kl) / len(first), len(first)).ci_low
    assert low is not None
    return low


def is_block(name: str) -> bool:
    return name.endswith((".attn", ".mlp"))


@pytest.mark.parametrize("method", REMOVALS)
def test_the_block_that_carries_the_answer_ranks_first(impacts: Impacts, method: str) -> None:
    """It stands clear of every other block; above it is only what its answer has to pass through."""
    order = ranked(impacts, method)

    assert set(order[: order.index(CRITICAL)]) <= ON_ITS_WAY
    others = [name for name in order if is_block(name) and name != CRITICAL]
    for other in others:
        assert lead(impacts[CRITICAL, method], impacts[other, method]) > 1.0  # nats for each token


@pytest.mark.parametrize("method", [*REMOVALS, "int8"])
def test_the_block_that_training_emptied_is_worth_nothing(impacts: Impacts, method: str) -> None:
    """Its interval ends far below what matters."""
    high = estimate("kl", impacts[USELESS, method]).ci_high

    assert high is not None
    assert high < NEGLIGIBLE


@pytest.mark.parametrize("method", REMOVALS)
def test_the_emptied_block_is_told_apart_from_the_next_one(impacts: Impacts, method: str) -> None:
    """It is the last of all blocks, by a paired difference whose interval excludes 0."""
    order = [name for name in ranked(impacts, method) if is_block(name)]

    assert order[-1] == USELESS
    assert lead(impacts[order[-2], method], impacts[USELESS, method]) > 0
