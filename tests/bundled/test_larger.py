"""The larger models, which do not ship: their shapes, where they may be written, and their training when tiny."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cards
import evaluation
import models
import pytest
import stories
import torch
import train
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from energyscope import bundled

LARGER = ("gpt2-small", "llama-1b-width")


@pytest.fixture
def determinism_restored() -> Iterator[None]:
    """Undo what ``train.make`` sets for the whole process."""
    before = torch.are_deterministic_algorithms_enabled()
    yield
    torch.use_deterministic_algorithms(before)


def on_meta(name: str) -> Any:
    """Build a larger model without its weights' memory."""
    recipe = models.RECIPES[name]
    with torch.device("meta"):
        return models.build(recipe, models.tokenizer_for(recipe, stories.vocabulary()))


def parameters(model: Any) -> int:
    return sum(weight.numel() for weight in model.parameters())


def test_gpt2_small_has_the_true_shape() -> None:
    """GPT-2 small has 124,439,808 parameters, its tied head counted once; nothing is dropped out."""
    model = on_meta("gpt2-small")
    config = model.config
    assert parameters(model) == 124_439_808
    assert (config.n_embd, config.n_layer, config.n_head) == (768, 12, 12)
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    assert model.get_output_embeddings().weight.shape == (50_257, 768)
    assert model.transformer.wpe.weight.shape == (1024, 768)
    assert not any(module.p for module in model.modules() if isinstance(module, torch.nn.Dropout))


def test_llama_has_the_width_of_the_1b_one() -> None:
    """Each layer has the 60,821,504 parameters of one of Llama-3.2-1B's; head and embedding are one."""
    model = on_meta("llama-1b-width")
    layers = model.model.layers
    assert [parameters(layer) for layer in layers] == [60_821_504] * 4
    assert parameters(model) == 243_812_352
    assert layers[0].self_attn.q_proj.weight.shape == (32 * 64, 2048)
    assert layers[0].self_attn.k_proj.weight.shape == (8 * 64, 2048)
    assert layers[0].mlp.up_proj.weight.shape == (8192, 2048)
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    assert model.config.vocab_size == 256
    assert model.config.max_position_embeddings == 2048


@pytest.mark.parametrize("name", LARGER)
def test_tokenizer_takes_as_many_tokens_as_the_model(name: str) -> None:
    """The tokenizer's limit is the model's, and all of its ids have a row in the embedding."""
    recipe, config = models.RECIPES[name], on_meta(name).config
    tokenizer = models.tokenizer_for(recipe, stories.vocabulary())
    assert tokenizer.model_max_length == config.max_position_embeddings
    assert len(tokenizer) <= config.vocab_size


def test_default_is_what_ships() -> None:
    """Without --model the models of the package are made, and no larger one."""
    assert sorted(bundled.MODELS) == train.BUNDLED


@pytest.mark.parametrize("name", LARGER)
@pytest.mark.parametrize("output", [[], ["--output", str(train.OUTPUT)], ["--output", str(train.OUTPUT / "x")]])
def test_package_takes_no_larger_model(
    name: str, output: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """GIVEN a larger model WHEN no folder outside the package is named THEN one line says so, none is made."""
    monkeypatch.setattr("sys.argv", ["train.py", "--model", "tiny-gpt2", "--model", name, *output])
    monkeypatch.setattr(train, "make", lambda *_: pytest.fail("it was made"))
    with pytest.raises(SystemExit) as stopped:
        train.main()
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert name in line
    assert "--output" in line


def test_larger_model_goes_where_it_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """GIVEN a folder outside the package THEN the larger model named is made there, and no other."""
    made: list[tuple[Any, ...]] = []
    monkeypatch.setattr("sys.argv", ["train.py", "--model", "gpt2-small", "--output", str(tmp_path)])
    monkeypatch.setattr(train, "make", lambda *told: made.append(told))
    train.main()
    assert made == [(models.RECIPES["gpt2-small"], tmp_path, "cpu")]


@pytest.mark.parametrize(("small", "like"), [("tiny-gpt2", "gpt2-small"), ("tiny-llama", "llama-1b-width")])
def test_larger_recipe_at_a_tiny_size(
    small: str,
    like: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    determinism_restored: None,
) -> None:
    """GIVEN a larger recipe with a tiny model in it WHEN it is made THEN mixed precision learns something, the
    weights are written in the type stated, and the card's numbers are those of what was written.
    """
    monkeypatch.setattr(evaluation, "EVALUATION_TEXTS", 20)
    monkeypatch.setattr(evaluation, "BASELINE_TEXTS", 100)
    recipe = dataclasses.replace(models.RECIPES[like], name=small, texts=1_000, batch_size=8, learning_rate=2e-3)
    assert recipe.mixed
    train.make(recipe, tmp_path)

    printed = capsys.readouterr().out
    assert f"{small} step 125/125 loss" in printed
    assert "MISSED margins: perplexity at most" in printed  # so few steps teach no structure
    model = AutoModelForCausalLM.from_pretrained(tmp_path / small).eval()
    assert {weight.dtype for weight in model.parameters()} == {recipe.saved}
    written = load_file(tmp_path / small / "model.safetensors")
    assert {weight.dtype for weight in written.values()} == {recipe.saved}
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / small)
    card = cards.card_of(model, tokenizer, recipe, (0.0, 0.0))
    perplexity = card["results"]["perplexity"]
    assert perplexity < 60  # of 220 words, untrained
    assert f"result perplexity: {perplexity}\n" in printed
    assert card["training"]["command"].endswith("--output DIR")


@pytest.mark.parametrize("name", bundled.MODELS)
def test_margins_are_judged(name: str) -> None:
    """GIVEN a shipped card THEN it keeps all margins; with a baseline as good as the model it misses one."""
    card = copy.deepcopy(bundled.describe(name))
    assert cards.missed(card) == []
    metric = card["metric"]
    card["baselines"]["bigram"] = card["results"][metric]
    assert any(line.startswith(f"{metric} at") for line in cards.missed(card))


def test_card_names_the_gpu() -> None:
    """Where a GPU trained, the model card says which, and does not speak of a CPU core."""
    card = copy.deepcopy(bundled.describe("tiny-gpt2"))
    card["training"]["device"] = "NVIDIA H100"
    text = cards.model_card(card)
    assert "s by the clock on one NVIDIA H100" in text
    assert "CPU core" not in text
