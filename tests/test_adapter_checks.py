"""Every wrong declaration is named, by its field."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from test_adapters import MINIMAL

from energyscope.adapters import Checkpoint, Part

LAYER, MLP, UP = MINIMAL.parts
TINY = Checkpoint("owner/tiny", {"hidden_size": 8})


def parts(*more: Part) -> dict[str, Any]:
    return {"parts": (*MINIMAL.parts, *more)}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"name": 3}, "name: 3 is no str"),
        ({"name": "auto"}, "name: 'auto' cannot be used"),
        ({"name": "My Model"}, "name: 'My Model' cannot be used"),
        ({"model_types": "minimal"}, r"model_types: 'minimal' is a string: write ('minimal',)"),
        ({"model_types": ()}, "model_types: none is named"),
        ({"model_types": (3,)}, "model_types: 3 is no str"),
        ({"task": "translation"}, "task: 'translation' is unknown: use next-token, masked-token, sequence-to-"),
        ({"task": None}, "task: None is no str"),
        ({"layers": "model.layers"}, "layers: no part of kind 'layer' has the path model.layers.{layer}"),
        ({"layers": 3}, "layers: 3 is no str | tuple"),
        ({"layers": ()}, "layers: none is named"),
        ({"layers": ("layers", 3)}, "layers: 3 is no dotted module path"),
        ({"layers": ("layers", "decoder")}, "layers: no part of kind 'layer' has the path decoder.{layer}"),
        ({"parts": LAYER}, "is no tuple"),
        ({"parts": (LAYER, "mlp")}, "parts: 'mlp' is no Part"),
        ({"parts": (MLP,)}, "parts: none has the kind 'layer'"),
        (parts(Part("atention", "x", "fine")), "'x' has the unknown kind 'atention': did you mean 'attention'"),
        (parts(Part("other", "layers.{layer}", "fine")), "parts: layers.{layer} is declared 2 times"),
        (parts(Part("other", "layers.{index}.x", "fine")), "parts: 'layers.{index}.x' is no dotted module path"),
        (parts(Part("other", "", "fine")), "parts: '' is no dotted module path"),
        (parts(Part("other", 3, "fine")), "parts: 3 is no dotted module path"),  # type: ignore[arg-type]
        (parts(Part("other", "x", "finest")), "has the granularity 'finest'"),  # type: ignore[arg-type]
        (parts(Part("other", "x", "fine", optional="no")), "has optional='no'"),  # type: ignore[arg-type]
        (parts(Part("other", "x", "fine", function="sdpa")), "not a function's dotted path"),
        ({"auto_class": "GPT2LMHeadModel"}, "auto_class: 'GPT2LMHeadModel' is not an AutoModel class"),
        ({"dataset": "imdb"}, "dataset: 'imdb' is unknown: use sst2 or wikitext2"),
        ({"inputs": "ids"}, "inputs: 'ids' is no function"),
        ({"distance": max}, "distance: it is between embeddings, and the task is next-token"),
        ({"phase": "decode"}, "phase: 'decode' is unknown: use prefill or both"),
        ({"checkpoints": [TINY]}, "is no mapping"),
        ({"checkpoints": {"Tiny/x": TINY}}, "checkpoints: 'Tiny/x' cannot be typed"),
        ({"checkpoints": {"tiny-gpt2": TINY}}, "checkpoints: 'tiny-gpt2' is the name of a bundled model"),
        ({"checkpoints": {"tiny": "owner/tiny"}}, "checkpoints: 'tiny' is no Checkpoint"),
        ({"checkpoints": {"tiny": Checkpoint("tiny")}}, "has hub_id='tiny': use owner/name"),
        ({"checkpoints": {"tiny": Checkpoint("a/b", ["x"])}}, "a configuration that is no mapping"),  # type: ignore[arg-type]
        ({"checkpoints": {"tiny": Checkpoint("/tiny")}}, "has hub_id='/tiny': use owner/name"),
        ({"checkpoints": {"tiny": Checkpoint("a/b", gated="yes")}}, "has gated='yes'"),  # type: ignore[arg-type]
        ({"model_types": ("",)}, "model_types: '' is no model_type"),
        ({"layers": "layers.{layer}"}, "layers: 'layers.{layer}' is no dotted module path"),
        (parts(Part(5, "x", "fine", function="a.b")), "has the unknown kind 5"),  # type: ignore[arg-type]
        ({"api": 2}, "api: 2 is newer than 1"),
        ({"api": True}, "api: True is no version"),
    ],
)  # fmt: skip
def test_problems_are_named(change: dict[str, Any], problem: str) -> None:
    """GIVEN a wrong declaration THEN one of its problems says what is wrong, and the right one has none."""
    assert replace(MINIMAL, checkpoints={"tiny": TINY}).problems() == []
    problems = replace(MINIMAL, **change).problems()
    assert any(problem in message for message in problems), problems
    assert len(problems) == 1
