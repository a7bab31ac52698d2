"""What a task's inputs do not lead to: towers for other inputs, cross attention without an encoder; no more."""

from __future__ import annotations

from typing import Any

import pytest
import transformers
from auto_models import SIZES, config, structure
from transformers import PretrainedConfig

from energyscope.auto.mapping import StructureMap, structure_map

SEES: dict[str, Any] = {**SIZES, "image_size": 16, "patch_size": 8}


@pytest.fixture(scope="module")
def gemma() -> StructureMap:
    """Return a language model that also takes images."""
    text = config("gemma3_text").to_dict()
    vision = transformers.SiglipVisionConfig(**SEES).to_dict()
    return structure_map(transformers.Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=4))


def test_a_tower_for_images_is_beyond_text(gemma: StructureMap) -> None:
    """GIVEN a model for text and images WHEN it gets text THEN tower and projector are beyond, the layers not."""
    assert set(gemma.unreached.values()) == {"for image input"}
    assert {name.split(".")[1] for name in gemma.unreached} == {"vision_tower", "multi_modal_projector"}
    assert {component.name for component in gemma.missing} == set(gemma.unreached)
    assert gemma.adapter.layers == "model.language_model.layers"


def test_cross_attention_without_an_encoder_is_beyond() -> None:
    """GIVEN GPT-2 with cross attention WHEN it gets tokens alone THEN that and its norm are beyond, and named."""
    found = structure_map(
        transformers.GPT2Config(n_embd=16, n_layer=2, n_head=2, vocab_size=25, add_cross_attention=True)
    )
    assert set(found.unreached.values()) == {"no encoder's states are fed"}
    assert {name.split(".")[3] for name in found.unreached} == {"crossattention", "ln_cross_attn"}
    assert "2 of 2: no encoder's states are fed" in set(found.not_called.values())


def test_what_is_not_called_for_another_reason_is_not_beyond() -> None:
    """GIVEN a module that a text model's pass does not call THEN no missing input excuses it."""
    found = structure_map(
        config("luke", architectures=["LukeForMaskedLM"], entity_vocab_size=8, entity_emb_size=8)
    )
    assert "luke.entity_embeddings" in found.not_called
    assert found.unreached == {}


def test_a_pass_that_calls_everything_leaves_nothing_beyond() -> None:
    """GIVEN a model whose inputs lead to all of it THEN nothing is beyond."""
    assert structure("vit").unreached == {}
    assert isinstance(structure("vit").model.config, PretrainedConfig)
