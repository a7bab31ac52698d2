"""The short names without an adapter: their true shapes, built without weights."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import torch
import transformers
from conformance import structure_of
from energyscope_adapters.models import MODELS

from energyscope.adapter_checks import checkpoint_problems
from energyscope.adapter_registry import own_adapters
from energyscope.adapters import Checkpoint

# Weights, tied ones counted once, with where the count is published; "computed" from the published configuration,
# beside what the card or paper rounds it to. KerasHub gives counts of its own conversions.
PUBLISHED = {
    "albert-base-v2": 11_683_584
    - 590_592
    + 128_688,  # KerasHub, without its pooler, with the head of masked tokens
    "albert-large-v2": 17_683_968 - 1_049_600 + 161_456,  # likewise
    "roberta-base": 124_697_433,  # computed; 125M
    "roberta-large": 355_412_057,  # computed; 355M
    "distilroberta-base": 82_170_201,  # computed; 82M
    "modernbert-base": 149_655_232,  # computed; 149M
    "modernbert-large": 395_881_664,  # computed; 395M
    "opt-125m": 125_237_760 + 2 * 768,  # KerasHub, and two positions that are not used
    "opt-1.3b": 1_315_753_984 + 2 * 2048,  # likewise
    "opt-6.7b": 6_658_473_984,  # computed; 6.7B
    "pythia-160m": 162_322_944,  # card
    "pythia-1.4b": 1_414_647_808,  # card
    "gpt-neox-20b": 20_554_567_680,  # card
    "mistral-7b": 7_248_023_552,  # computed; 7.25B
    "qwen3-0.6b": 596_049_920,  # KerasHub
    "qwen3-1.7b": 1_720_574_976,  # KerasHub
    "qwen3-4b": 4_022_468_096,  # KerasHub
    "qwen3-8b": 8_190_735_360,  # KerasHub
    "gemma-3-1b": 999_885_952,  # KerasHub
    "gemma-3-4b": 4_300_079_472,  # computed; 4.3B, of them 3,880,099,328 in the language model (KerasHub)
    "phi-3-mini": 3_821_079_552,  # KerasHub
    "phi-4": 14_659_507_200,  # computed; 14.7B
    "smollm2-135m": 134_515_008,  # computed; 135M
    "smollm2-360m": 361_821_120,  # computed; 362M
    "smollm2-1.7b": 1_711_376_384,  # computed; 1.71B
    "mixtral-8x7b": 46_702_792_704,  # KerasHub
    "qwen1.5-moe-a2.7b": 14_315_784_192,  # KerasHub
    "qwen3-30b-a3b": 30_532_122_624,  # KerasHub
    "gpt-oss-20b": 20_914_757_184,  # computed; 20.9B
    "mamba2-130m": 128_989_632,  # computed; 130M
    "mamba2-1.3b": 1_343_757_312,  # computed; 1.3B
    "mamba-codestral-7b": 7_285_403_648,  # announcement
    "t5-small": 60_506_624,  # computed; 60M
    "t5-base": 222_903_552,  # computed; 220M
    "t5-large": 737_668_096,  # computed; 770M with its embedding counted twice
    "bart-base": 139_417_344 + 4 * 768,  # KerasHub, and two positions of each half that are not used
    "bart-large": 406_287_360 + 4 * 1024,  # likewise
    "whisper-tiny": 37_760_640,  # KerasHub
    "whisper-base": 72_593_920,  # KerasHub
    "whisper-small": 241_734_912,  # KerasHub
    "vit-base": 86_567_656,  # computed; 86M
    "vit-large": 304_326_632,  # computed; 304M
    "clip-vit-base": 87_456_000 + 2 * 769,  # computed: the image encoder, and its head of two classes
}
# Words that a model reads though its configuration class does not declare them.
READ = {"num_labels", "decoder_start_token_id", "head_dim"}


def configuration(checkpoint: Checkpoint) -> Any:
    shape = copy.deepcopy(dict(checkpoint.configuration))
    return transformers.AutoConfig.for_model(checkpoint.model_type, **shape)


def test_every_name_has_a_published_size() -> None:
    """No name is without a count, and none is that of an adapter's checkpoint, a bundled or a broken one."""
    assert set(PUBLISHED) == set(MODELS)
    assert not set(MODELS) & {name for adapter in own_adapters() for name in adapter.checkpoints}
    assert list(checkpoint_problems(MODELS)) == []


@pytest.mark.parametrize("name", MODELS)
def test_shape_is_the_published_one(name: str) -> None:
    """GIVEN a short name's configuration THEN its class has exactly the published number of parameters."""
    checkpoint = MODELS[name]
    assert checkpoint.architecture is not None
    with torch.device("meta"):
        model = getattr(transformers, checkpoint.architecture)(configuration(checkpoint))
    assert sum(weight.numel() for weight in model.parameters()) == PUBLISHED[name]


def unknown_words(given: Mapping[str, Any], config: Any) -> Iterator[str]:
    """Yield the words of a configuration that its class does not know: it would keep them and not use them."""
    known = {*type(config)().to_dict(), *config.attribute_map, *READ}
    for word, value in given.items():
        if word.endswith("_config"):
            yield from unknown_words(value, getattr(config, word))
        elif word not in known:
            yield word


@pytest.mark.parametrize("name", MODELS)
def test_every_word_is_one_of_its_configuration(name: str) -> None:
    """No keyword is misspelled: transformers would keep it without a word."""
    assert list(unknown_words(MODELS[name].configuration, configuration(MODELS[name]))) == []


@pytest.mark.parametrize(
    ("name", "every"), [("gemma-3-1b", 6), ("gemma-3-4b", 6), ("gpt-oss-20b", 2), ("modernbert-base", 3)]
)
def test_layers_attend_as_published(name: str, every: int) -> None:
    """Of models whose layers attend to a window, every second, third or sixth attends to all tokens."""
    config = configuration(MODELS[name]).get_text_config()
    full = [layer for layer, kind in enumerate(config.layer_types) if kind == "full_attention"]
    first = 0 if name.startswith("modernbert") else every - 1
    assert full == list(range(first, config.num_hidden_layers, every))


@pytest.mark.parametrize(
    "name", [name for name in MODELS if str(MODELS[name].architecture).endswith("ForCausalLM")]
)
def test_structure_finds_all_of_a_causal_model(name: str) -> None:
    """GIVEN a causal language model THEN its weights lie in leaves of known kinds, and a pass calls each."""
    structure = structure_of(MODELS[name])
    assert (structure.calls.failure, structure.not_called, structure.in_no_part) == (None, {}, {})
    assert structure.share_named() == 1.0


def test_names_cost_no_torch() -> None:
    """WHEN the names are imported THEN torch and transformers are not."""
    code = (
        "import sys, energyscope_adapters.models; "
        "print([name for name in ('torch', 'transformers') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
